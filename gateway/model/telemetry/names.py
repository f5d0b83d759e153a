"""Every name of telemetry. Made from `registry.yaml` by `poe names`: change that, not this."""

from typing import Final, Literal, TypeAlias

from gateway.model.telemetry.kinds import SpanType
from gateway.model.telemetry.log_events import LOG_EVENTS as LOG_EVENTS
from gateway.model.telemetry.metrics import Metrics as Metrics

SCOPE: Final = "counterfoil"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.45.0"
OTHER: Final = "_OTHER"
"""In the place of what a caller made up, so that no caller makes series."""


class Attr:
    """Keys of attributes; those without a prefix are our own."""

    MCP_METHOD_NAME: Final = "mcp.method.name"
    MCP_PROTOCOL_VERSION: Final = "mcp.protocol.version"
    MCP_SESSION_ID: Final = "mcp.session.id"
    MCP_RESOURCE_URI: Final = "mcp.resource.uri"
    JSONRPC_REQUEST_ID: Final = "jsonrpc.request.id"
    RPC_RESPONSE_STATUS_CODE: Final = "rpc.response.status_code"
    RPC_STATUS_CODE: Final = "rpc.status_code"
    ERROR_TYPE: Final = "error.type"
    NETWORK_TRANSPORT: Final = "network.transport"
    NETWORK_PROTOCOL_NAME: Final = "network.protocol.name"
    NETWORK_PROTOCOL_VERSION: Final = "network.protocol.version"
    SERVER_ADDRESS: Final = "server.address"
    SERVER_PORT: Final = "server.port"
    CLIENT_ADDRESS: Final = "client.address"
    CLIENT_PORT: Final = "client.port"
    GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
    GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
    GEN_AI_PROMPT_NAME: Final = "gen_ai.prompt.name"
    GEN_AI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
    GEN_AI_TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
    GEN_AI_TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
    GEN_AI_EVALUATION_NAME: Final = "gen_ai.evaluation.name"
    GEN_AI_EVALUATION_SCORE_LABEL: Final = "gen_ai.evaluation.score.label"
    GEN_AI_EVALUATION_SCORE_VALUE: Final = "gen_ai.evaluation.score.value"
    GEN_AI_EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"
    DECISION_ID: Final = "counterfoil.decision.id"
    DECISION_OUTCOME: Final = "counterfoil.decision.outcome"
    DECISION_REASON: Final = "counterfoil.decision.reason"
    DECISION_CHECK: Final = "counterfoil.decision.check"
    POLICY_ID: Final = "counterfoil.policy.id"
    POLICY_VERSION: Final = "counterfoil.policy.version"
    POLICY_RULE_ID: Final = "counterfoil.policy.rule.id"
    AUTHORITY_KIND: Final = "counterfoil.authority.kind"
    AUTHORITY_PRINCIPAL_HASH: Final = "counterfoil.authority.principal.hash"
    AUTHORITY_APPROVAL_ID: Final = "counterfoil.authority.approval.id"
    TENANT: Final = "counterfoil.tenant"
    RUN_ID: Final = "counterfoil.run.id"
    RUN_WORKFLOW: Final = "counterfoil.run.workflow"
    RUN_PHASE_BEFORE: Final = "counterfoil.run.phase.before"
    RUN_PHASE_AFTER: Final = "counterfoil.run.phase.after"
    TRANSITION_NAME: Final = "counterfoil.transition.name"
    STOP_REASON: Final = "counterfoil.stop.reason"
    FINISH_OUTCOME: Final = "counterfoil.finish.outcome"
    PLAN_REVISION: Final = "counterfoil.plan.revision"
    TOOL_EFFECT: Final = "counterfoil.tool.effect"
    TOOL_VERSION_HASH: Final = "counterfoil.tool.version.hash"
    ARGUMENTS_HASH: Final = "counterfoil.arguments.hash"
    UPSTREAM_NAME: Final = "counterfoil.upstream.name"
    IDEMPOTENCY_STATE: Final = "counterfoil.idempotency.state"
    IDEMPOTENCY_KEY_SOURCE: Final = "counterfoil.idempotency.key.source"
    IDEMPOTENCY_KEY_HASH: Final = "counterfoil.idempotency.key.hash"
    INTENT_ID: Final = "counterfoil.intent.id"
    RECEIPT_STATE: Final = "counterfoil.receipt.state"
    RECEIPT_HASH: Final = "counterfoil.receipt.hash"
    EFFECT_STANDING: Final = "counterfoil.effect.standing"
    RETRY_ATTEMPT: Final = "counterfoil.retry.attempt"
    RETRY_CLASS: Final = "counterfoil.retry.class"
    BUDGET_NAME: Final = "counterfoil.budget.name"
    BUDGET_CHARGED_CALLS: Final = "counterfoil.budget.charged.calls"
    BUDGET_CHARGED_MUTATIONS: Final = "counterfoil.budget.charged.mutations"
    BUDGET_CHARGED_TOKENS: Final = "counterfoil.budget.charged.tokens"
    BUDGET_CHARGED_COST: Final = "counterfoil.budget.charged.cost"
    BUDGET_CHARGED_REVIEWS: Final = "counterfoil.budget.charged.reviews"
    BUDGET_REMAINING_CALLS: Final = "counterfoil.budget.remaining.calls"
    BUDGET_REMAINING_MUTATIONS: Final = "counterfoil.budget.remaining.mutations"
    BUDGET_REMAINING_TOKENS: Final = "counterfoil.budget.remaining.tokens"
    BUDGET_REMAINING_COST: Final = "counterfoil.budget.remaining.cost"
    BUDGET_REMAINING_REVIEWS: Final = "counterfoil.budget.remaining.reviews"
    USAGE_SOURCE: Final = "counterfoil.usage.source"
    VERIFIER_NAME: Final = "counterfoil.verifier.name"
    VERIFIER_VERDICT: Final = "counterfoil.verifier.verdict"
    QUERY_VERDICT: Final = "counterfoil.query.verdict"
    APPROVAL_ID: Final = "counterfoil.approval.id"
    APPROVAL_STATE: Final = "counterfoil.approval.state"
    APPROVAL_RISK: Final = "counterfoil.approval.risk"
    APPROVAL_WAIT_DURATION: Final = "counterfoil.approval.wait.duration"
    NOTICE_CHANNEL: Final = "counterfoil.notice.channel"
    NOTICE_OUTCOME: Final = "counterfoil.notice.outcome"
    ERASED_COUNT: Final = "counterfoil.erased.count"
    RECORD_ID: Final = "counterfoil.record.id"
    CALLER_TRACE_ID: Final = "counterfoil.caller.trace_id"
    CALLER_SPAN_ID: Final = "counterfoil.caller.span_id"
    CONTENT_REASON: Final = "counterfoil.content.reason"
    CONTENT_ERROR: Final = "counterfoil.content.error"
    TELEMETRY_SIGNAL: Final = "counterfoil.telemetry.signal"
    SERVICE_NAME: Final = "service.name"
    SERVICE_VERSION: Final = "service.version"
    SERVICE_INSTANCE_ID: Final = "service.instance.id"


class Spans:
    """Kinds of span."""

    MCP_SERVER: Final = SpanType("mcp.server", "server", "{mcp.method.name} {target}")
    MCP_CLIENT: Final = SpanType("mcp.client", "client", "{mcp.method.name} {target}")
    APPROVAL: Final = SpanType("counterfoil.approval", "internal", "counterfoil.approval")
    VERIFY: Final = SpanType("counterfoil.verify", "internal", "counterfoil.verify {counterfoil.verifier.name}")
    SETTLE: Final = SpanType("counterfoil.settle", "internal", "counterfoil.settle")


CONTENT: Final = frozenset(
    [
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.evaluation.explanation",
        "counterfoil.content.reason",
        "counterfoil.content.error",
    ]
)
"""What agents, people and upstreams wrote: sent only where somebody turned that on."""

METHODS: Final = frozenset(
    [
        "tools/call",
        "tools/list",
        "prompts/get",
        "prompts/list",
        "resources/read",
        "resources/list",
        "resources/templates/list",
        "resources/subscribe",
        "resources/unsubscribe",
        "completion/complete",
        "server/discover",
        "subscriptions/listen",
        "tasks/get",
        "tasks/update",
        "tasks/cancel",
        "tasks/list",
        "tasks/result",
        "initialize",
        "ping",
        "logging/setLevel",
        "sampling/createMessage",
        "elicitation/create",
        "roots/list",
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/message",
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/roots/list_changed",
        "notifications/elicitation/complete",
        "_OTHER",
    ]
)
"""Methods that are told by their name; any other is `OTHER`."""

DecisionOutcome: TypeAlias = Literal["allow", "deny", "hold", "needs_approval", "replay", "stop", "unknown"]
DecisionCheck: TypeAlias = Literal[
    "key",
    "run",
    "tool",
    "schema",
    "phase",
    "authority",
    "conditions",
    "holds",
    "budget",
    "preconditions",
    "approval",
    "round",
    "resend",
]
AuthorityKind: TypeAlias = Literal["grant", "delegation", "approval", "compensation", "anonymous"]
FinishOutcome: TypeAlias = Literal["verified_success", "infeasible"]
IdempotencyState: TypeAlias = Literal["new", "in_flight", "held", "replayed", "conflict"]
ReceiptState: TypeAlias = Literal["confirmed", "failed", "unknown", "reconciled", "refuted", "unsent", "abandoned"]
RetryClass: TypeAlias = Literal["round", "resend", "connection"]
UsageSource: TypeAlias = Literal["reported", "estimated", "priced"]
VerifierVerdict: TypeAlias = Literal["pass", "fail", "inconclusive"]
QueryVerdict: TypeAlias = Literal["absent", "inconclusive"]
ApprovalState: TypeAlias = Literal[
    "pending", "approved", "rejected", "returned", "revoked", "superseded", "withdrawn", "expired"
]
NoticeOutcome: TypeAlias = Literal["delivered", "failed"]
TelemetrySignal: TypeAlias = Literal["traces", "metrics", "logs"]
