"""What the reading and deciding commands share: the ledger's address, opened and closed around one command."""

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer
from rich.console import Console

from gateway.model.review import Reviewer
from gateway.outbound import otel
from gateway.outbound.clock import SystemClock, clock_of
from gateway.outbound.ids import id_maker
from gateway.outbound.ledger import open_ledger, path_of
from gateway.outbound.ledger.postgres.address import is_postgres, shown
from gateway.outbound.payload_keys import Keyring, keyring_in
from gateway.outbound.system_account import system_account
from gateway.ports import Ledger, LedgerUnavailable, NotOurLedger
from gateway.runtime import trace
from gateway.runtime.book import Book, Options
from gateway.runtime.keeping import lacking_key
from gateway.runtime.policies import Policies, PolicyMissing
from gateway.settings import default_ledger_url

LedgerOption = Annotated[
    str | None,
    typer.Option("--ledger", metavar="URL", envvar="COUNTERFOIL_LEDGER", help="The ledger; by default your own."),
]

T = TypeVar("T")

console = Console(markup=False, emoji=False)
"""Standard output, for people; `--json` prints plain text instead."""


def fail(message: str, code: int = 1) -> NoReturn:
    """One line on standard error, and the end."""
    print(f"counterfoil: {message}", file=sys.stderr)
    raise typer.Exit(code)


def with_ledger(
    url: str | None,
    work: Callable[[Ledger], Awaitable[T]],
    code: int = 1,
    keys: Keyring | None = None,
    *,
    reads_payloads: bool = True,
) -> T:
    """The result of the work over the opened ledger; its troubles end the command with one line and that code.

    Payloads are decrypted with `keys`, or with those that the environment names. That one is lacking is said, unless
    the work reads none.
    """

    async def run() -> T:
        known = keyring_in(os.environ) if keys is None else keys
        ledger = await open_ledger(existing(url or default_ledger_url()), make=False, keys=known)
        try:
            lacking = await lacking_key(ledger) if reads_payloads else None
            if lacking is not None:
                note = (
                    f"payloads are encrypted with the key {lacking}, which is not given, and cannot be shown: name its "
                    "file by `COUNTERFOIL_DATA_KEY=FILE`"
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
        raise ValueError(f"there is no ledger at `{path_of(url)}` yet; `--ledger` names another")
    return url


def ledger_shown(url: str | None) -> str:
    """The address of the ledger that is meant, for people: without a password."""
    return shown(url or default_ledger_url())


def ledger_option(url: str | None) -> str:
    """What a command that is told to a person must say to find that ledger; nothing where it is the default one."""
    if url is None or url == default_ledger_url():
        return ""
    return f" --ledger {shlex.quote(shown(url) if is_postgres(url) else url)}"


def config_option(config: Path | None) -> str:
    """What a command that is told to a person must say to find that configuration."""
    return "" if config is None else f" --config {shlex.quote(str(config))}"


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
