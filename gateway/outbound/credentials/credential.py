"""What a connection to an upstream asks for a token."""

from typing import Protocol

from gateway.model.party import Behalf


class NoToken(Exception):
    """There is no token now; the message says why, as a sentence without its capital, and shows no secret."""

    def __init__(
        self,
        reason: str,
        *,
        refused: bool = False,
        over: bool = False,
        code: str | None = None,
        needs_account: bool = False,
    ) -> None:
        super().__init__(reason)
        self.refused = refused
        """The provider was asked, and says no: to ask again at once helps nobody."""
        self.over = over
        """What was given before is not to be used any more either."""
        self.code = code
        """What the provider calls it, if that is a word of its standard."""
        self.needs_account = needs_account
        """It is for a person to connect an account, and nothing comes of waiting."""


class Credential(Protocol):
    """The tokens for one upstream."""

    @property
    def personal(self) -> bool:
        """Whether each principal has tokens of their own, and therefore connections of their own."""
        ...

    @property
    def nobody(self) -> str:
        """Why there is no connection that is nobody's, where all are personal; as the rest of a sentence about it."""
        ...

    @property
    def by_token(self) -> bool:
        """Whether it is shown the access token of whoever calls, and so serves nobody who came in without one."""
        ...

    async def token(self, behalf: Behalf | None) -> str:
        """A token that is good now, for `Authorization: Bearer`. Waits only where there is none.

        Raises: NoToken.
        """
        ...

    def refused(self, behalf: Behalf | None, token: str) -> bool:
        """The upstream does not take that token: whether `token` gives another one now."""
        ...

    def account(self, behalf: Behalf | None) -> str | None:
        """Which account the token is of that was given last, by a name of ours; None where there is none now. What was
        begun with one account goes on with no other.
        """
        ...

    async def close(self) -> None:
        """Nothing is asked for any more."""
        ...
