"""What a connection to an upstream asks for a token."""

from typing import Protocol

from gateway.model.party import Behalf


class NoToken(Exception):
    """There is no token now; the message says why, as a sentence without its capital, and shows no secret."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused
        """The provider was asked, and says no: to ask again at once helps nobody."""


class Credential(Protocol):
    """The tokens for one upstream."""

    @property
    def personal(self) -> bool:
        """Whether each principal has tokens of their own, and therefore connections of their own."""
        ...

    async def token(self, behalf: Behalf | None) -> str:
        """A token that is good now, for `Authorization: Bearer`. Waits only where there is none.

        Raises: NoToken.
        """
        ...

    def refused(self, behalf: Behalf | None, token: str) -> bool:
        """The upstream does not take that token: whether `token` gives another one now."""
        ...

    async def close(self) -> None:
        """Nothing is asked for any more."""
        ...
