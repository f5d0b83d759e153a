"""Every metric. Made from `registry.yaml` by `poe names`: change that, not this."""

from typing import Final

from gateway.model.telemetry.kinds import Metric


class Metrics:
    """Instruments."""

    MCP_SERVER_OPERATION_DURATION: Final = Metric(
        "mcp.server.operation.duration",
        "histogram",
        "s",
        "From an agent's request to its answer",
        (
            "mcp.method.name",
            "gen_ai.tool.name",
            "gen_ai.prompt.name",
            "gen_ai.operation.name",
            "rpc.response.status_code",
            "rpc.status_code",
            "error.type",
            "mcp.protocol.version",
            "network.transport",
            "network.protocol.name",
            "network.protocol.version",
        ),
        buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
    )
    MCP_CLIENT_OPERATION_DURATION: Final = Metric(
        "mcp.client.operation.duration",
        "histogram",
        "s",
        "From a request to an upstream to its answer",
        (
            "mcp.method.name",
            "gen_ai.tool.name",
            "gen_ai.prompt.name",
            "gen_ai.operation.name",
            "rpc.response.status_code",
            "rpc.status_code",
            "error.type",
            "mcp.protocol.version",
            "network.transport",
            "network.protocol.name",
            "network.protocol.version",
            "server.address",
            "server.port",
            "counterfoil.upstream.name",
        ),
        buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
    )
    DECISIONS: Final = Metric(
        "counterfoil.decisions",
        "counter",
        "{decision}",
        "Proposals that were judged, by what they became",
        (
            "counterfoil.decision.outcome",
            "counterfoil.decision.reason",
            "counterfoil.decision.check",
            "counterfoil.policy.rule.id",
            "counterfoil.tool.effect",
            "gen_ai.tool.name",
        ),
    )
    DECISION_DURATION: Final = Metric(
        "counterfoil.decision.duration",
        "histogram",
        "s",
        "From a proposal to its verdict on disk",
        ("counterfoil.decision.outcome",),
        buckets=(0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0),
    )
    RUN_TRANSITIONS: Final = Metric(
        "counterfoil.run.transitions",
        "counter",
        "{transition}",
        "Runs that moved to another phase",
        (
            "counterfoil.run.phase.before",
            "counterfoil.run.phase.after",
            "counterfoil.transition.name",
            "counterfoil.run.workflow",
        ),
    )
    RUNS: Final = Metric(
        "counterfoil.runs",
        "counter",
        "{run}",
        "Runs that are over, by why",
        ("counterfoil.stop.reason", "counterfoil.run.workflow"),
    )
    RUN_ACTIVE: Final = Metric(
        "counterfoil.run.active",
        "updowncounter",
        "{run}",
        "Runs that this process opened, less those whose end it recorded",
        ("counterfoil.run.workflow",),
    )
    RUN_BUDGET_UTILIZATION: Final = Metric(
        "counterfoil.run.budget.utilization",
        "histogram",
        "1",
        "How much of each budget a run had used when it was over",
        ("counterfoil.budget.name", "counterfoil.run.workflow"),
        buckets=(0.1, 0.25, 0.5, 0.75, 0.9, 1.0),
    )
    BUDGET_CALLS: Final = Metric(
        "counterfoil.budget.calls",
        "counter",
        "{call}",
        "Calls that were charged",
        ("gen_ai.tool.name", "counterfoil.run.workflow"),
    )
    BUDGET_MUTATIONS: Final = Metric(
        "counterfoil.budget.mutations",
        "counter",
        "{call}",
        "Calls of tools that are no reads, that were charged",
        ("gen_ai.tool.name", "counterfoil.run.workflow"),
    )
    BUDGET_TOKENS: Final = Metric(
        "counterfoil.budget.tokens",
        "counter",
        "{token}",
        "Tokens of results that were charged",
        ("gen_ai.tool.name", "counterfoil.run.workflow", "counterfoil.usage.source"),
    )
    BUDGET_COST: Final = Metric(
        "counterfoil.budget.cost",
        "counter",
        "{currency}",
        "Cost that was charged, in the currency of the policy",
        ("gen_ai.tool.name", "counterfoil.run.workflow", "counterfoil.usage.source"),
    )
    BUDGET_REVIEWS: Final = Metric(
        "counterfoil.budget.reviews",
        "counter",
        "{review}",
        "Questions to people that were charged",
        ("gen_ai.tool.name", "counterfoil.run.workflow"),
    )
    BUDGET_EXHAUSTIONS: Final = Metric(
        "counterfoil.budget.exhaustions",
        "counter",
        "{exhaustion}",
        "Calls that a used-up budget or account refused",
        ("counterfoil.budget.name", "counterfoil.run.workflow"),
    )
    APPROVALS: Final = Metric(
        "counterfoil.approvals",
        "counter",
        "{approval}",
        "Questions to people that wait no more, by what became of them",
        ("counterfoil.approval.state", "counterfoil.approval.risk"),
    )
    APPROVAL_WAIT_DURATION: Final = Metric(
        "counterfoil.approval.wait.duration",
        "histogram",
        "s",
        "From the question to the last word on it",
        ("counterfoil.approval.state", "counterfoil.approval.risk"),
        buckets=(1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0),
    )
    APPROVAL_FIRST_LOOK_DURATION: Final = Metric(
        "counterfoil.approval.first_look.duration",
        "histogram",
        "s",
        "From the question to the first look at it",
        ("counterfoil.approval.risk",),
        buckets=(1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0),
    )
    APPROVAL_ACTIVE_DURATION: Final = Metric(
        "counterfoil.approval.active.duration",
        "histogram",
        "s",
        "How long a question was really looked at, for each answer of which that is known",
        ("counterfoil.approval.risk",),
        buckets=(1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0),
    )
    APPROVAL_PENDING: Final = Metric(
        "counterfoil.approval.pending",
        "gauge",
        "{approval}",
        "Questions that wait for people, in the whole ledger, when it was last swept",
        (),
        observable=True,
    )
    INTENTS: Final = Metric(
        "counterfoil.intents",
        "counter",
        "{intent}",
        "Attempts of which something became known, by what",
        ("counterfoil.receipt.state", "counterfoil.tool.effect", "counterfoil.upstream.name"),
    )
    INTENT_UNRESOLVED: Final = Metric(
        "counterfoil.intent.unresolved",
        "gauge",
        "{intent}",
        "Attempts whose outcome is unknown now",
        (),
        observable=True,
    )
    INTENT_UNRESOLVED_AGE: Final = Metric(
        "counterfoil.intent.unresolved_age",
        "gauge",
        "s",
        "How long the oldest of them has been unknown",
        (),
        observable=True,
    )
    IDEMPOTENCY_HITS: Final = Metric(
        "counterfoil.idempotency.hits",
        "counter",
        "{hit}",
        "Proposals that asked for no new effect",
        ("counterfoil.idempotency.state",),
    )
    VERIFIER_VERDICTS: Final = Metric(
        "counterfoil.verifier.verdicts",
        "counter",
        "{verdict}",
        "What verifiers found",
        ("counterfoil.verifier.name", "counterfoil.verifier.verdict"),
    )
    VERIFIER_DURATION: Final = Metric(
        "counterfoil.verifier.duration",
        "histogram",
        "s",
        "How long verifiers looked",
        ("counterfoil.verifier.name", "counterfoil.verifier.verdict"),
        buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
    )
    TOOL_RESULT_SIZE: Final = Metric(
        "counterfoil.tool.result.size",
        "histogram",
        "By",
        "Size of results",
        ("gen_ai.tool.name",),
        buckets=(1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0),
    )
    TOOL_RESULT_TOKENS: Final = Metric(
        "counterfoil.tool.result.tokens",
        "histogram",
        "{token}",
        "Tokens of results",
        ("gen_ai.tool.name", "counterfoil.usage.source"),
        buckets=(1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0),
    )
    TELEMETRY_DROPPED: Final = Metric(
        "counterfoil.telemetry.dropped",
        "counter",
        "{item}",
        "Spans, figures and log events that no backend took",
        ("counterfoil.telemetry.signal",),
    )
