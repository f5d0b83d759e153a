"""What the reading and deciding commands share: the ledger's address, opened and closed around one command."""

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer
from rich.console import Console

from gateway.model.flaws import Place
from gateway.model.review import Reviewer
from gateway.outbound import otel
from gateway.outbound.clock import SystemClock, clock_of
from gateway.outbound.ids import id_maker
from gateway.outbound.ledger import open_ledger, path_of
from gateway.outbound.ledger.postgres.address import is_postgres, shown
from gateway.outbound.payload_keys import NO_KEYS, Keyring, keyring_in
from gateway.outbound.system_account import system_account
from gateway.ports import Ledger, LedgerUnavailable, NotOurLedger
from gateway.runtime import trace
from gateway.runtime.book import Book, Options
from gateway.runtime.keeping import lacking_key
from gateway.runtime.policies import Policies, PolicyMissing
from gateway.settings import Settings, default_ledger_url, load_settings

LEDGER = "COUNTERFOIL_LEDGER"
"""Of the environment: the ledger of a command that is told neither an address nor a file."""

LedgerOption = Annotated[
    str | None,
    typer.Option("--ledger", metavar="URL", help=f"The ledger; by default ${LEDGER}, or your own.", show_default=False),
]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="The gateway's own file, for its ledger and keys.", show_default=False
    ),
]

T = TypeVar("T")

console = Console(markup=False, emoji=False)
"""Standard output, for people; `--json` prints plain text instead."""


def fail(message: str, code: int = 1) -> NoReturn:
    """One line on standard error, and the end."""
    print(f"counterfoil: {message}", file=sys.stderr)
    raise typer.Exit(code)


def settings_of(config: Path, only: Collection[Place] | None) -> Settings:
    """What the gateway's own file says at these places, or anywhere; what is wrong with it ends the command with 2."""
    try:
        return load_settings(config, only=only)
    except (OSError, ValueError) as error:
        fail(str(error), code=2)


@dataclass(frozen=True, slots=True)
class Where:
    """Which ledger a command is about, as it was told: by its address, by the file of a gateway, or not at all.

    An address goes before the file, of which the keys are then taken; the environment is asked last.
    """

    ledger: str | None = None
    config: Path | None = None

    def url(self) -> str:
        """The address. What is wrong with the file ends the command."""
        if self.config is None:
            return self._said or default_ledger_url()
        # A file that cannot be used is told of, though nothing of it be needed.
        settings = settings_of(self.config, [] if self.ledger else [("ledger",)])
        return self.ledger or settings.ledger

    def keys(self) -> Keyring:
        """Those of the file, or, where it has none, those that the environment names.

        Raises: BadPayloadKey.
        """
        if self.config is not None:
            keys = settings_of(self.config, [("data", "encryption")]).data.keys
            if keys.ids:
                return keys
        return keyring_in(os.environ)

    @property
    def shown(self) -> str:
        """The address, for people: without a password."""
        return shown(self.url())

    @property
    def option(self) -> str:
        """What a command that is told to a person must say to find it; nothing where it is the default one."""
        said = self._said
        if said is None or (self.config is None and said == default_ledger_url()):
            return config_option(self.config)
        return f" --ledger {shlex.quote(shown(said) if is_postgres(said) else said)}{config_option(self.config)}"

    @property
    def _said(self) -> str | None:
        return self.ledger or (os.environ.get(LEDGER) if self.config is None else None) or None


def with_ledger(
    where: Where, work: Callable[[Ledger], Awaitable[T]], code: int = 1, *, reads_payloads: bool = True
) -> T:
    """The result of the work over the opened ledger; its troubles end the command with one line and that code.

    That a key of it is lacking is said. Work that reads no payloads needs none.
    """
    url = where.url()

    async def run() -> T:
        keys = where.keys() if reads_payloads else NO_KEYS
        ledger = await open_ledger(existing(url), make=False, keys=keys)
        try:
            lacking = await lacking_key(ledger) if reads_payloads else None
            if lacking is not None:
                note = (
                    f"payloads are encrypted with the key {lacking}, which is not given, and cannot be shown: name the "
                    "gateway's own file by `--config`, or the key's by `COUNTERFOIL_DATA_KEY=FILE`"
                )
                print(f"counterfoil: {note}", file=sys.stderr)
            return await work(ledger)
        finally:
            await ledger.close()

    try:
        return asyncio.run(run())
    except (NotOurLedger, LedgerUnavailable, PolicyMissing, ValueError) as error:
        fail(str(error), code)


def existing(url: str) -> str:
    """The same address, if there is something to read at it.

    Raises: ValueError: a command that reads must not make an empty ledger where somebody mistyped one.
    """
    if not is_postgres(url) and url != "memory:" and not Path(path_of(url)).exists():
        raise ValueError(
            f"there is no ledger at `{path_of(url)}` yet; `--ledger` names another, `--config` a gateway's"
        )
    return url


def config_option(config: Path | None) -> str:
    """What a command that is told to a person must say to find that configuration, from wherever it is typed."""
    return "" if config is None else f" --config {shlex.quote(str(config.absolute()))}"


async def book(ledger: Ledger) -> Book:
    """The runs of a ledger, for a person's word; policies come from the ledger itself.

    It leases nothing: what a word leaves to be verified is for the gateways to take up at once.
    """
    options = Options(owner=id_maker(SystemClock().now)("cli"), lease_s=0.0)
    return Book(ledger, Policies(ledger, {}, ""), await clock_of(ledger, SystemClock()), options)


_telling: list[otel.Running | None] = []
"""Of this command, once it said something: a process has one set of exporters."""


@asynccontextmanager
async def speaking(ledger: Ledger) -> AsyncIterator[Book]:
    """As `book`, for a command that says something: telemetry hears of it, as it does from a gateway."""
    written = await book(ledger)
    if not _telling:
        _telling.append(otel.start())
    telling = _telling[0]
    if telling is None:
        yield written
        return
    written.telemetry = trace.Telemetry(ledger.salt, trace.Options(events="logs" in telling.signals))
    try:
        yield written
    finally:
        await telling.flush()


def reviewer(roles: Sequence[str] = ()) -> Reviewer:
    """The person at this terminal, by the account of the operating system, in the roles that they state.

    Whoever can write the ledger can say anything in it; a role that is stated here is recorded, not proven.
    """
    return Reviewer("local", f"local:{system_account()}", frozenset(("owner", *roles)), via="cli", everywhere=True)
