"""That payloads of a run are erased: who wanted it, by which rule, and whose they were."""

from typing import Literal

from gateway.model.event_parts import Frozen, Who


class PayloadsErased(Frozen):
    """What these records cite is erased, right after this is durable. No decision reads it.

    Recorded before and not after, as an intent is: a gateway that dies in between leaves a record of what was wanted,
    and whoever erases next does it. A payload that another run cites as well stands in the record of each.
    """

    kind: Literal["payloads.erased"] = "payloads.erased"
    rule: str
    """In words: what was to be erased, and by whose rule."""
    count: int
    """Of payloads."""
    cited_by: tuple[int, ...] = ()
    """The records, by their place in this run, that cite them."""
    by: Who | None = None
    """The person who wanted it; None where the configuration does."""
