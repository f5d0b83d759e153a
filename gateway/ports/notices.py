"""Who tells people that something waits for them: a chat, a mail, another system."""

from dataclasses import dataclass
from typing import Protocol

from gateway.model.notice import Notice


@dataclass(frozen=True, slots=True)
class NotTaken:
    """The channel did not take the message, or it is not known that it did."""

    reason: str
    """Half a sentence, for the ledger and for operators: no address and no secret."""
    retry_after_s: float | None = None
    """For so long it wants no other; None where it does not say."""
    never: bool = False
    """It wants none ever again."""


class Notifier(Protocol):
    """One channel. Whoever gets the same id twice got one message."""

    @property
    def trouble(self) -> str | None:
        """Why it cannot be used as it is configured; None if nothing is known against it."""
        ...

    @property
    def together(self) -> int:
        """How many messages it takes at the same time."""
        ...

    async def send(self, notice: Notice) -> NotTaken | None:
        """None once it was taken. In bounded time; never raises for what the world does."""
        ...
