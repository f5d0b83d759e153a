"""What people say, in the fewest words that a test needs."""

from datetime import datetime

from gateway.kernel import approve as kernel
from gateway.model.events import ApprovalDecided, Who
from gateway.model.review import Answer, Reviewer
from gateway.model.run import Run


def answer(
    run: Run, approval: str, action: str, *, approve: bool, by: Who, reason: str, now: datetime
) -> ApprovalDecided:
    """A yes or a no to one question, by whom all tenants trust."""
    said = Answer(approval, action, "approved" if approve else "rejected", reason)
    return kernel.answer(run, said, Reviewer(by.tenant, by.id, frozenset(by.roles), everywhere=True), now)
