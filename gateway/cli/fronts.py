"""`counterfoil wrap` and `counterfoil serve`: a gateway in front of one server, or of several."""

import asyncio
import errno
import hashlib
import logging
import os
import re
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from gateway.cli.ledgers import LedgerOption, Where, fail
from gateway.cli.streams import Words, unhurried_stderr
from gateway.model.policy import NAME_PATTERN
from gateway.outbound.addresses import is_local
from gateway.outbound.payload_keys import VARIABLE, BadPayloadKey, Keyring, keyring_in
from gateway.outbound.references import expand
from gateway.outbound.unsaid import Discreet
from gateway.settings import (
    NOT_LOOPBACK,
    ConsoleSettings,
    DataSettings,
    load_settings,
)

if TYPE_CHECKING:
    from gateway.app import Gateway
    from gateway.model.policy import Policy
    from gateway.outbound.looks import Place
    from gateway.outbound.upstream.spec import Spec
    from gateway.plan import Plan
    from gateway.reload import Source
    from gateway.reviewing import Reviewing

LOOK_S = 0.5
"""Between two looks whether every server has answered."""
PlaceOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--place", metavar="NAME=VALUE", help="Where verifiers look: a folder, an address, a database. Repeat it."
    ),
]
RUNNERS = frozenset({"npx", "bunx", "uvx", "uv", "pipx", "run", "tool", "python", "python3", "node", "docker", "env"})
"""Words of a command line that do not name the server."""


def wrap(
    target: Annotated[
        list[str], typer.Argument(metavar="URL | -- COMMAND…", help="The server: an address, or a command after `--`.")
    ],
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Offer it over streamable HTTP at /mcp, not on stdio.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your policy instead of the starter.", show_default=False)
    ] = None,
    ledger: LedgerOption = None,
    place: PlaceOption = None,
    patience: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0.1, help="Answer `in_flight` after so long, whoever the client is."),
    ] = None,
    hold: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, max=600, help="Keep a call that waits for a person so long; 0: not."),
    ] = None,
) -> None:
    """Put a gateway in front of one MCP server. Its tools keep their names."""
    from gateway.plan import Plan  # noqa: PLC0415 - brings `mcp`, which costs a second
    from gateway.reviewing import run_key_of  # noqa: PLC0415

    places = places_of(place)
    chosen, source = policy_at(policy, places)
    plan = Plan(
        ledger=Where(ledger).url(),
        upstreams=[spec_of(target)],
        policies={chosen.workflow: chosen},
        default=chosen.workflow,
        source=source,
        prefix=False,
        places=places,
        data=DataSettings(keys=_data_keys()),
    )
    if patience is not None:
        plan = replace(plan, options=replace(plan.options, patience_s=patience, patience_by_client={}))
    if hold is not None:
        plan = replace(plan, options=replace(plan.options, hold_s=hold))
    if listen is None:
        _run(replace(plan, sole=True), _over_stdio)
        return
    host, port = _address(listen)
    if not is_local(host):
        fail(NOT_LOOPBACK.format(host), code=2)
    listening = _listen(host, port)
    try:
        console_key = run_key_of(None)
    except OSError as error:  # there need be no place for one: then only the link below lets anybody in
        console_key = os.urandom(32)
        _say(f"`counterfoil console` makes no links for this gateway, whose key is not kept: {error}")
    except ValueError as error:
        fail(str(error))
    reviewing = _reviewing(ConsoleSettings(), console_key, listening)
    _run(replace(plan, reviewing=reviewing), partial(_over_http, listening=listening, key=None))


def _data_keys() -> Keyring:
    try:
        return keyring_in(os.environ)
    except BadPayloadKey as error:
        fail(f"`{VARIABLE}`: {error}")


def serve(
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="gateway.yaml")],
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Offer it to the client that starts this, not at an address.")
    ] = False,
) -> None:
    """Serve several MCP servers behind one address, as a configuration file says."""
    from gateway.plan import plan_of  # noqa: PLC0415 - brings `mcp`, which costs a second
    from gateway.reviewing import run_key_of  # noqa: PLC0415

    try:
        settings = load_settings(config)
        plan = plan_of(settings)
        key = b"" if stdio else run_key_of(config)
    except (OSError, ValueError) as error:
        fail(str(error), code=2)
    for warning in settings.warnings:
        _say(str(warning))
    if stdio:
        _run(replace(plan, sole=True), _over_stdio)
        return
    listening = _listen(settings.listen.host, settings.listen.port)
    reviewing = _reviewing(settings.console, key, listening)
    if reviewing is not None:
        plan = replace(plan, reviewing=reviewing, link_for=reviewing.link_for(plan.clock.now))
    _run(plan, partial(_over_http, listening=listening, key=key))


async def _over_stdio(gateway: "Gateway") -> None:
    from gateway.serving import over_stdio  # noqa: PLC0415 - loaded by now

    _say("waiting for an MCP client on standard input")
    await over_stdio(gateway)


async def _over_http(gateway: "Gateway", listening: socket.socket, key: bytes | None) -> None:
    from gateway.inbound.console import local_reviewer  # noqa: PLC0415 - loaded by now
    from gateway.inbound.mcp import introduction  # noqa: PLC0415
    from gateway.serving import over_http, shown  # noqa: PLC0415

    _say(f"listening at http://{shown(listening)}/mcp")
    _say(introduction(gateway.agents))
    if not is_local(listening.getsockname()[0]):
        _say("others reach this address, and it has no TLS: let only a proxy that has it come there")
    if gateway.reviewing is not None:
        reviewer = local_reviewer(gateway.reviewing.settings.local_roles)
        _say(f"reviewers: {gateway.reviewing.links(gateway.book.clock.now).link_for(reviewer)}, once, for 15 minutes")
    await over_http(gateway, listening, key)


def _reviewing(told: ConsoleSettings, key: bytes, listening: socket.socket) -> "Reviewing | None":
    """How reviewers come in at this address."""
    from gateway.inbound.console import Keys  # noqa: PLC0415
    from gateway.reviewing import Reviewing  # noqa: PLC0415 - loaded by now
    from gateway.serving import shown  # noqa: PLC0415 - loaded soon

    return Reviewing(told, Keys.of(key), told.url or f"http://{shown(listening)}") if told.enabled else None


def spec_of(target: list[str]) -> "Spec":
    """The server that `wrap` stands before. Its name tells two servers apart: a hold on one spares the other."""
    from gateway.outbound.upstream.spec import HttpSpec, StdioSpec  # noqa: PLC0415

    if len(target) == 1 and target[0].startswith(("http://", "https://")):
        return HttpSpec(_label("server", target), target[0])
    if len(target) == 1 and "://" in target[0]:
        fail(f"`{target[0]}` is no address of an MCP server: give http://… or https://…, or a command after `--`", 2)
    words = (Path(word).name for word in target if not word.startswith("-"))
    name = next((word for word in words if word not in RUNNERS and not word.startswith("python3")), "server")
    here = [str(Path.cwd())] if any(_relative(word) for word in target) else []
    return StdioSpec(_label(name, [*here, *target]), target[0], tuple(target[1:]), dict(os.environ))


def _relative(word: str) -> bool:
    """Whether the word means something else in another folder."""
    return not word.startswith("-") and not Path(word).is_absolute() and Path(word).exists()


def _label(name: str, target: list[str]) -> str:
    clean = "".join(char if char.isalnum() or char == "-" else "-" for char in name.lower()).strip("-")[:20]
    return f"{clean or 'server'}-{hashlib.sha256(chr(0).join(target).encode()).hexdigest()[:8]}"


def places_of(told: Sequence[str] | None) -> "Mapping[str, Place]":
    """The places that options name; ends the command for one that is none. No value is shown."""
    from gateway.outbound.looks.places import place_of  # noqa: PLC0415 - loaded by now

    found: dict[str, Place] = {}
    for one in told or ():
        name, equals, value = one.partition("=")
        if not equals or not re.fullmatch(NAME_PATTERN, name):
            fail("a place is `--place NAME=VALUE`: a folder, `http://…`, `sqlite:///…` or `postgresql://…`", code=2)
        try:
            found[name] = place_of(name, expand(value, os.environ, Path.cwd()), Path.cwd())
        except ValueError as error:
            fail(f"the place `{name}` cannot be used: {error}", code=2)
    return found


def policy_at(path: Path | None, places: "Mapping[str, Place] | None" = None) -> "tuple[Policy, Source | None]":
    """The policy of the file, or the starter, and where it will come from; ends the command if it cannot be used.

    `places` are those of the gateway that it is for.
    """
    from gateway.outbound.policy_files import starter_policy  # noqa: PLC0415
    from gateway.plan import one_policy  # noqa: PLC0415 - loaded by now
    from gateway.runtime.policies import condition_trouble  # noqa: PLC0415

    try:
        return (starter_policy(condition_trouble), None) if path is None else one_policy(path, places)
    except (OSError, ValueError) as error:
        fail(str(error), code=2)


def _run(plan: "Plan", front: "Callable[[Gateway], Awaitable[None]]") -> None:
    """The gateway, until its client leaves or a signal comes; ends within 5 s, with what was under way recorded."""
    with unhurried_stderr() as words:
        failed = _run_saying(plan, front, words)
    if failed is not None:
        fail(failed)


def _run_saying(plan: "Plan", front: "Callable[[Gateway], Awaitable[None]]", words: Words) -> str | None:
    """As `_run`; why it could not go on, if it could not."""
    from gateway.app import running  # noqa: PLC0415
    from gateway.ports import LedgerUnavailable, NotOurLedger  # noqa: PLC0415

    told = logging.StreamHandler(words)
    told.setFormatter(Discreet("%(name)s: %(message)s", plan.unsaid))
    logging.basicConfig(handlers=[told], level=logging.WARNING)
    logging.getLogger("counterfoil.upstream").setLevel(logging.INFO)  # what the servers say on their stderr
    logging.getLogger("counterfoil.credentials").setLevel(logging.INFO)  # who connects an account, or disconnects it
    logging.getLogger("counterfoil.policies").setLevel(logging.INFO)  # that a changed policy is in force

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - INVARIANT: asyncio.run made one
        ends = [signal.SIGTERM, signal.SIGINT]
        if plan.sole:  # behind a client's pipe a hangup is that client's end, and ours
            ends.append(signal.SIGHUP)
        for number in ends:
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        async with running(plan) as gateway:
            if not plan.sole:
                hung_up = partial(
                    _hung_up, [fd for fd in range(3) if os.isatty(fd)], gateway.reload.at_once, task.cancel
                )
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hung_up)
            for line in gateway.introduction():
                _say(line)
            telling = asyncio.ensure_future(_tell_findings(gateway))
            await asyncio.sleep(0)  # which says all of it now, where every server has answered
            try:
                await front(gateway)
            finally:
                telling.cancel()

    try:
        with asyncio.Runner(loop_factory=_loop()) as runner:
            runner.run(main())
    except asyncio.CancelledError:
        _say("stopped")
    except (NotOurLedger, LedgerUnavailable, ValueError) as error:
        return str(error)
    return None


async def _tell_findings(gateway: "Gateway") -> None:
    """Says what policies and servers have against one another, once it is known what is offered."""
    while gateway.starting:  # noqa: ASYNC110 - health is looked at; nobody tells of it
        await asyncio.sleep(LOOK_S)
    for line in gateway.findings():
        _say(line)


def _hung_up(terminals: Sequence[int], reload: Callable[[], object], end: Callable[[], object]) -> None:
    """SIGHUP asks for the policies to be taken anew; but if our terminal is gone, it means what it always meant."""
    if all(os.isatty(fd) for fd in terminals):
        reload()
    else:
        end()


def _loop() -> "Callable[[], asyncio.AbstractEventLoop] | None":
    """uvloop's, where there is one: a quarter less CPU a call."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return None
    return uvloop.new_event_loop


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:  # noqa: PLR2004 - ports end there
        fail(f"`{listen}` is no HOST:PORT; for example `127.0.0.1:8321`", code=2)
    return host.strip("[]"), int(port)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named so that asyncio turns Nagle's algorithm off; without it an answer takes 40 ms more.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1" if host == "localhost" else host, port))
    except OSError as error:
        listening.close()
        hint = "; choose another port, 0 for any that is free" if error.errno == errno.EADDRINUSE else ""
        fail(f"cannot listen at {host}:{port}: {error.strerror or error}".lower() + hint)
    listening.listen(128)  # whoever comes before we are ready waits, and is not turned away
    return listening


def _say(line: str) -> None:
    print(f"counterfoil: {line}", file=sys.stderr, flush=True)
