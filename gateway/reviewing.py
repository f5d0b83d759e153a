"""How reviewers find the console: its address, its keys, and the links that lead there."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway.inbound.console import Keys, Links
from gateway.model.events import Who
from gateway.model.review import Reviewer
from gateway.outbound.clock import SystemClock
from gateway.outbound.console_entries import unfit_url
from gateway.outbound.key_file import run_key
from gateway.runtime.announce import LinkFor
from gateway.runtime.matters import Matter
from gateway.runtime.wording import console_links
from gateway.settings import TO_REVIEW, ConsoleSettings, Listen, default_ledger_path, load_settings


@dataclass(frozen=True, slots=True)
class Reviewing:
    """How reviewers come in over HTTP."""

    settings: ConsoleSettings
    keys: Keys
    url: str
    """Where they find us: scheme and authority."""

    def links(self, now: Callable[[], float]) -> Links:
        """Makes links for them."""
        return Links(self.keys, self.url, now)

    def link_for(self, now: Callable[[], float]) -> LinkFor:
        """Makes links for messages: to where a question is shown, and with a ticket for whom a channel names."""
        plain, links = console_links(self.url), self.links(now)

        def made(reader: Who | None, asked: Matter) -> str:
            if reader is None or asked.about != "approval" or asked.state != "open" or asked.expires_at is None:
                return plain(reader, asked)
            by = Reviewer(reader.tenant, reader.id, frozenset(reader.roles), via="link")
            return links.link_for(by, asked.name, lives_s=asked.expires_at.timestamp() - now())

        return made


def run_key_of(config: Path | None) -> bytes:
    """What signs run tokens: the key that the configuration names, else a file beside this user's own ledger.

    Raises: ValueError, OSError.
    """
    told = load_settings(config, only=[("run_tokens",)]).run_token_key if config is not None else None
    if told is not None:
        return told.get_secret_value().encode()
    return run_key(default_ledger_path().with_name("run-tokens.key"))


def links_of(config: Path | None, url: str | None) -> Links:
    """What makes links to the console of the gateway that the configuration describes, or which is at that address.

    Raises: ValueError, OSError.
    """
    settings = load_settings(config, only=TO_REVIEW) if config is not None else None
    if settings is not None and not settings.console.enabled:
        raise ValueError("the console is switched off in that file: `console: {enabled: false}`")
    told = url or (settings.console.url if settings is not None else None)
    if url is not None and unfit_url(url) is not None:
        raise ValueError(f"`{url}`: {unfit_url(url)}")
    if told is None:
        listen = settings.listen if settings is not None else Listen()
        if not listen.port:
            raise ValueError("the gateway listens at any free port: say with `--url` where it is")
        host = f"[{listen.host}]" if ":" in listen.host else listen.host
        told = f"http://{'127.0.0.1' if host == 'localhost' else host}:{listen.port}"
    return Links(Keys.of(run_key_of(config)), told.rstrip("/"), SystemClock().now)
