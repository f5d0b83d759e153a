"""`notify` of a configuration: its shape, what does not fit together in it, and the channels that it means."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field

from gateway.model.asked import Risk
from gateway.model.event_parts import Who
from gateway.model.flaws import Place as Where
from gateway.model.flaws import parts
from gateway.model.notice import SUBJECTS, Audience, Subject
from gateway.outbound.addresses import is_local
from gateway.outbound.file_models import FilePart
from gateway.outbound.notices.services import INSTALL, Service, is_installed
from gateway.outbound.notices.webhook import BadSecret, Webhook, key_of
from gateway.outbound.yaml_files import Document, Problem
from gateway.ports import Notifier

CHANNEL_PATTERN = r"^[a-z0-9][a-z0-9-]{0,31}$"
PATTERNS = {CHANNEL_PATTERN: "a channel's name, of at most 32 of a-z, 0-9 and `-`,"}

EXPANDED: tuple[Where, ...] = (("notify", "*", "apprise"), ("notify", "*", "webhook"), ("notify", "*", "secret"))
"""Where references are replaced."""


class NotInstalled(ValueError):
    """A channel needs Apprise, and it is not there."""


class ReviewerEntry(FilePart):
    """The one person who reads the channel, for whom links are signed."""

    id: str = Field(min_length=1)
    tenant: str = Field(default="local", min_length=1)
    roles: tuple[str, ...] = ()


class NotifyEntry(FilePart):
    """A channel, and what it is told."""

    name: Annotated[str, Field(pattern=CHANNEL_PATTERN)]
    apprise: str | None = None
    webhook: str | None = None
    secret: str | None = None
    about: tuple[Subject, ...] = Field(default=SUBJECTS, min_length=1)
    risk: Risk = "low"
    tenants: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    reviewer: ReviewerEntry | None = None

    def channel(self, text: Callable[[str], str]) -> "Channel":
        """The channel. `text` gives what stands at a key, with references replaced."""
        by = self.reviewer
        return Channel(
            name=self.name,
            apprise=None if self.apprise is None else text("apprise"),
            webhook=None if self.webhook is None else text("webhook"),
            key=None if self.secret is None else key_of(text("secret")),
            audience=Audience(
                frozenset(self.about),
                self.risk,
                frozenset(self.tenants),
                frozenset(self.roles),
                None if by is None else Who(tenant=by.tenant, id=by.id, roles=by.roles),
            ),
        )


@dataclass(frozen=True, slots=True)
class Channel:
    """A way to people, as the configuration has it. Either `apprise`, or `webhook` and `key`."""

    name: str
    apprise: str | None = field(default=None, repr=False)
    webhook: str | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    audience: Audience = field(default_factory=Audience)


def installed(channels: Sequence[Channel]) -> Sequence[Channel]:
    """The same channels, all of which this installation can send to.

    Raises: NotInstalled.
    """
    for one in channels:
        if one.apprise is not None and not is_installed():
            raise NotInstalled(f"the channel `{one.name}` needs Apprise, which is not installed: `{INSTALL}`")
    return channels


def notifier_of(channel: Channel, now: Callable[[], float]) -> Notifier:
    """What sends to the channel. `now` is the machine's clock."""
    if channel.webhook is not None and channel.key is not None:
        return Webhook(channel.webhook, channel.key, now)
    return Service(channel.apprise or "")


def notify_problems(document: Document) -> Iterator[Problem]:
    """All that does not fit together in the channels of the file."""
    seen: set[str] = set()
    for where, entry in parts(document.value, ("notify", "*")):
        if not isinstance(entry, Mapping):
            continue
        name = str(entry.get("name"))
        if name in seen and "name" in entry:
            yield document.problem((*where, "name"), f"another channel is named `{name[:64]}`")
        seen.add(name)
        yield from _odd(document, where, entry)


def _odd(document: Document, where: Where, entry: Mapping[str, Any]) -> Iterator[Problem]:
    ways = [key for key in ("apprise", "webhook") if key in entry]
    if not ways:
        yield document.problem(where, "say how it is reached: `apprise` or `webhook`")
        return
    if len(ways) > 1:
        yield document.problem((*where, "webhook"), "`webhook` and `apprise` exclude each other", at_key=True)
    elif ways == ["apprise"] and "secret" in entry:
        yield document.problem((*where, "secret"), "`secret` is only for a `webhook`, which it signs", at_key=True)
    elif ways == ["webhook"] and "secret" not in entry:
        yield document.problem(where, "a `webhook` is signed: give its `secret` by reference, such as `${HOOK_SECRET}`")


def unfit_notify(where: Where, text: str) -> str | None:
    """Why the value cannot be used, or None. Says nothing of the value itself."""
    match where:
        case ("notify", _, "webhook"):
            return unfit_webhook(text)
        case ("notify", _, "secret"):
            return _unfit_secret(text)
        case ("notify", _, "apprise") if "://" not in text or not text.isprintable():
            return "one of Apprise's addresses is wanted, such as `slack://…` or `mailto://…`"
        case _:
            return None


def _unfit_secret(text: str) -> str | None:
    try:
        _ = key_of(text)
    except BadSecret as error:
        return str(error)
    return None


def unfit_webhook(text: str) -> str | None:
    """Why nothing can be posted to that address, or None. Says nothing of the address itself."""
    try:
        to = urlsplit(text)
        right = to.scheme in {"http", "https"} and bool(to.hostname) and (to.port or 1) > 0
    except ValueError:
        right = False
    else:
        right = right and text.isascii() and text.isprintable() and " " not in text
        if right and (to.username is not None or to.fragment):
            return "the address of a webhook has no user and no fragment; its `secret` says who posts"
        if right and to.scheme == "http" and not is_local(to.hostname or ""):
            return "a webhook beyond this machine is `https://…`"
    return None if right else "an address that begins with `https://` is wanted"
