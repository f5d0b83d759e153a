"""Where people answer, as whoever waits for them is told; none of it is a key, and it lets nobody in."""

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.model.notice import Subject

PAGES: Mapping[Subject, str] = {"approval": "approvals", "unknown": "attempts", "escalation": "escalations"}
"""What the console calls its page of each."""


def page_of(console: str, about: Subject, name: str) -> str:
    """Where the console at that address (scheme and authority) shows it. Whoever opens it must still come in."""
    return f"{console}/console/{PAGES[about]}/{name}"


@dataclass(frozen=True, slots=True)
class Answering:
    """Where people answer what waits in one ledger."""

    approve: str = "counterfoil approvals approve {id}"
    """The command by which a reviewer decides; `{id}` stands for the approval."""
    settle: str = "counterfoil resolve {id}"
    """The command by which a person settles what is unknown; `{id}` stands for the attempt."""
    console: str | None = None
    """The address of the console, scheme and authority; None where there is none."""

    def approve_at(self, approval: str) -> str:
        """The command for this approval."""
        return self.approve.format(id=approval)

    def settle_at(self, attempt: str) -> str:
        """The command for this attempt."""
        return self.settle.format(id=attempt)

    def page(self, about: Subject, name: str) -> str | None:
        """The console's page of it."""
        return None if self.console is None else page_of(self.console, about, name)
