"""What the door goes by: keys, lifetimes, where it stands, and which names were said before."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from urllib.parse import quote

from gateway.inbound.console import credentials
from gateway.inbound.console.credentials import Credential
from gateway.inbound.console.keys import Keys
from gateway.inbound.console.paths import ENTER, ROOT
from gateway.inbound.console.sessions import IDLE_S, LONGEST_S, Sealed, Sessions
from gateway.model.review import Reviewer
from gateway.outbound.oidc.flow import Flow
from gateway.outbound.system_account import system_account

LINK_S = 15 * 60.0
"""How long a link that is printed is good for."""


def local_reviewer(roles: Iterable[str] = ()) -> Reviewer:
    """The person whose account this process runs under, as the commands know them."""
    return Reviewer(
        tenant="local",
        id=f"local:{system_account()}",
        roles=frozenset({"owner", *roles}),
        via="local",
        everywhere=True,
    )


@dataclass(frozen=True, slots=True)
class Links:
    """Makes links that let one reviewer in, once."""

    keys: Keys
    url: str
    """Where the console's gateway is reached: scheme and authority, nothing behind them."""
    now: Callable[[], float]

    def link_for(self, reviewer: Reviewer, approval: str | None = None, lives_s: float = LINK_S) -> str:
        """A link with which its first user is that reviewer; with an approval, for that one question alone."""
        return self.made_for(reviewer, approval, lives_s)[0]

    def made_for(self, reviewer: Reviewer, approval: str | None, lives_s: float) -> tuple[str, str]:
        """As `link_for`; and the id by which it is revoked."""
        by = reviewer if approval is None else _only(reviewer, approval)
        ticket, made = credentials.mint(self.keys.links, "console", by, now=self.now(), lives_s=lives_s)
        return f"{self.url}{ROOT}{ENTER}?ticket={quote(ticket)}", made.id


def _only(reviewer: Reviewer, approval: str) -> Reviewer:
    return Reviewer(
        tenant=reviewer.tenant,
        id=reviewer.id,
        roles=reviewer.roles,
        via="link",
        everywhere=reviewer.everywhere,
        approval=approval,
    )


@dataclass(frozen=True, slots=True)
class Access:
    """Who is let in, and how."""

    keys: Keys
    now: Callable[[], float]
    once: Callable[[str, float], Awaitable[bool]]
    """`Ledger.once`."""
    said: Callable[[str], Awaitable[bool]]
    """`Ledger.said`."""
    url: str
    """As in `Links`; it may be what a proxy in front of us is called."""
    idle_s: float = IDLE_S
    longest_s: float = LONGEST_S
    oidc: Flow | None = None
    """Where people may sign in, if anywhere."""

    @property
    def sessions(self) -> Sessions:
        """Of reviewers in browsers."""
        return Sessions(Sealed(self.keys.sessions), self.idle_s, self.longest_s)

    @property
    def secure(self) -> bool:
        """Whether browsers reach us over TLS, so that cookies go nowhere else."""
        return self.url.startswith("https://")

    def ticket(self, text: str) -> Credential:
        """What a link's ticket says, whether or not it was revoked or used.

        Raises: BadCredential.
        """
        return credentials.verify(self.keys.links, "console", text, now=self.now())

    def token(self, text: str) -> Credential:
        """What a reviewer's token says, whether or not it was revoked.

        Raises: BadCredential.
        """
        return credentials.verify(self.keys.tokens, "reviewer", text, now=self.now())

    def assistant(self, text: str) -> Credential:
        """What the token of a reviewer's assistant says, whether or not it was revoked.

        Raises: BadCredential.
        """
        return credentials.verify(self.keys.assistants, "assistant", text, now=self.now())
