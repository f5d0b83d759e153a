"""The log event of each kind of ledger event. Made from `registry.yaml` by `poe names`: change that, not this."""

from collections.abc import Mapping
from typing import Final

from gateway.model.telemetry.kinds import LogEvent

LOG_EVENTS: Final[Mapping[str, LogEvent]] = {
    "run.opened": LogEvent("counterfoil.run.opened", "info"),
    "run.migrated": LogEvent("counterfoil.run.migrated", "info"),
    "proposal.denied": LogEvent("counterfoil.proposal.denied", "warn"),
    "proposal.replayed": LogEvent("counterfoil.proposal.replayed", "info"),
    "proposal.held": LogEvent("counterfoil.proposal.held", "info"),
    "approval.requested": LogEvent("counterfoil.approval.requested", "info"),
    "intent.recorded": LogEvent("counterfoil.intent.recorded", "info"),
    "attempt.resumed": LogEvent("counterfoil.attempt.resumed", "info"),
    "attempt.resent": LogEvent("counterfoil.attempt.resent", "info"),
    "attempt.queried": LogEvent("counterfoil.attempt.queried", "info"),
    "receipt.recorded": LogEvent(
        "counterfoil.receipt.recorded", "info", (("counterfoil.receipt.state", ("failed",), "warn"),)
    ),
    "attempt.unsent": LogEvent("counterfoil.attempt.unsent", "warn"),
    "attempt.suspended": LogEvent("counterfoil.attempt.suspended", "info"),
    "attempt.unknown": LogEvent("counterfoil.attempt.unknown", "error"),
    "attempt.abandoned": LogEvent("counterfoil.attempt.abandoned", "warn"),
    "attempt.refuted": LogEvent("counterfoil.attempt.refuted", "info"),
    "outcome.delivered": LogEvent("counterfoil.outcome.delivered", "info"),
    "evidence.recorded": LogEvent(
        "gen_ai.evaluation.result", "info", (("gen_ai.evaluation.score.label", ("fail",), "warn"),)
    ),
    "compensation.owed": LogEvent("counterfoil.compensation.owed", "warn"),
    "compensation.failed": LogEvent("counterfoil.compensation.failed", "error"),
    "phase.moved": LogEvent("counterfoil.phase.moved", "info"),
    "approval.decided": LogEvent("counterfoil.approval.decided", "info"),
    "approval.seen": LogEvent("counterfoil.approval.seen", "info"),
    "approval.withdrawn": LogEvent("counterfoil.approval.withdrawn", "info"),
    "approval.expired": LogEvent("counterfoil.approval.expired", "warn"),
    "escalation.acknowledged": LogEvent("counterfoil.escalation.acknowledged", "info"),
    "plan.recorded": LogEvent("counterfoil.plan.recorded", "info"),
    "plan.invalidated": LogEvent("counterfoil.plan.invalidated", "info"),
    "note.recorded": LogEvent("counterfoil.note.recorded", "info"),
    "notice.sent": LogEvent("counterfoil.notice.sent", "info", (("counterfoil.notice.outcome", ("failed",), "warn"),)),
    "payloads.erased": LogEvent("counterfoil.payloads.erased", "info"),
    "finish.claimed": LogEvent("counterfoil.finish.claimed", "info"),
    "finish.refused": LogEvent("counterfoil.finish.refused", "warn"),
    "run.stopped": LogEvent(
        "counterfoil.run.stopped", "warn", (("counterfoil.stop.reason", ("verified_success",), "info"),)
    ),
    "switch.thrown": LogEvent("counterfoil.switch.thrown", "warn"),
    "switch.lifted": LogEvent("counterfoil.switch.lifted", "warn"),
}
