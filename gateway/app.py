"""The composition root: what is made of what, and in which order it starts and ends."""

import asyncio
import gc
import logging
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Any

from gateway.inbound.mcp import IDLE_S
from gateway.model.policy import Policy
from gateway.model.switch import SWITCHES
from gateway.outbound import otel
from gateway.outbound.clock import SystemClock, clock_of
from gateway.outbound.ids import id_maker
from gateway.outbound.ledger import open_ledger
from gateway.outbound.ledger.postgres.address import is_postgres, shown
from gateway.outbound.looks import Place, PlacedLooks, misplaced
from gateway.outbound.notices import Channel, installed, notifier_of
from gateway.outbound.policy_files import load_policy, starter_policy
from gateway.outbound.upstream.catalogue import Catalogue
from gateway.outbound.upstream.spec import DEFAULT_PATIENCE, HttpSpec, Patience, Spec, StdioSpec
from gateway.outbound.watched import Watched
from gateway.ports import Clock, Ledger
from gateway.reload import Reload, Source, default_of, first, load_from
from gateway.reviewing import Reviewing
from gateway.runtime.announce import Announcer, LinkFor
from gateway.runtime.book import Book, Options
from gateway.runtime.cases import broken_promises
from gateway.runtime.channels import Line
from gateway.runtime.desk import Desk
from gateway.runtime.engine import Engine
from gateway.runtime.policies import Policies, Trouble, condition_trouble, keyless, surprises, unfit
from gateway.runtime.recover import Recovery
from gateway.runtime.screen import Screen
from gateway.runtime.sealing import UNSIGNED, Sealer, Sealing
from gateway.settings import (
    ClientPatience,
    HttpUpstream,
    Settings,
    Timeouts,
    Upstream,
    default_ledger_url,
)

_LOG = logging.getLogger("counterfoil")

MAKE_ID = id_maker(SystemClock().now)


CLOCK_BACK_S = 5.0
"""By how much a clock may go back without a word; daemons that set clocks do it by less."""

COLLECTIONS = 20_000, 20, 50
"""Thresholds of Python's collector. A call makes hundreds of objects and no circle; by the default every second call
had them looked through, and all runs in memory again and again: 0.96 x the processor time of a call.
"""

AGAIN_S = 5.0
"""Before what runs for ever is begun again, after an error that nobody foresaw."""

LEDGER_S = 1.0
"""How long the ledger may take to close; one that somebody else has locked would keep us for 5 s."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a gateway process is made of."""

    ledger: str = field(repr=False)
    """URL. It may hold a password."""
    upstreams: Sequence[Spec]
    policies: Mapping[str, Policy]
    """By workflow."""
    default: str
    """Workflow of a run that names none."""
    prefix: bool
    """Whether tools are named `server__tool`."""
    source: Source | None = None
    """What the policies are taken from anew when it changes; None where nothing can change."""
    sole: bool = False
    """Whether there is one client, over stdio."""
    session_idle_s: float = IDLE_S
    """After which a legacy session over HTTP has ended."""
    sealing: Sealing = UNSIGNED
    """How the ledger's checkpoints are made."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """Where verifiers look, by name."""
    channels: Sequence[Channel] = ()
    """By which people are told that something waits for them."""
    link_for: LinkFor = lambda _reviewer, _asked: None
    """Where people answer; nothing where there is no console."""
    reviewing: Reviewing | None = None
    """None where nobody reviews over HTTP."""
    options: Options = field(default_factory=lambda: Options(owner=MAKE_ID("gw")))
    clock: Clock = field(default_factory=SystemClock)


def plan_of(settings: Settings) -> Plan:
    """What `gateway.yaml` describes.

    Raises: ValueError for policies that cannot be used, or none to choose, and for what is not installed.
    """
    source: Source | None = None
    if settings.policies is not None:
        check = Trouble(partial(misplaced, places=settings.places))
        policies, source = first(partial(load_from, settings.policies, settings.workflow, check))
    else:
        starter = starter_policy(condition_trouble)
        policies = {starter.workflow: starter}
    return Plan(
        ledger=settings.ledger,
        upstreams=specs_of(settings),
        policies=policies,
        default=default_of(settings.workflow, policies),
        source=source,
        prefix=True,
        sealing=settings.sealing,
        options=replace(_options(settings.patience, settings.hold_s), limits=settings.limits),
        session_idle_s=IDLE_S if settings.session_idle_s is None else settings.session_idle_s,
        places=settings.places,
        channels=installed(settings.channels),
    )


def one_policy(path: Path, places: Mapping[str, Place] | None = None) -> tuple[Policy, Source | None]:
    """The policy of a file, and where it will come from; None for what is no file, such as a pipe.

    It is for a gateway that has these places; where they are not said, it is for no gateway.

    Raises: PolicyProblems.
    """
    check = condition_trouble if places is None else Trouble(partial(misplaced, places=places))
    if path.exists() and not path.is_file():
        return load_policy(path, check), None

    def load(watched: Watched) -> Mapping[str, Policy]:
        policy = load_policy(path, check, watched)
        return {policy.workflow: policy}

    policies, source = first(load)
    return next(iter(policies.values())), source


def specs_of(settings: Settings) -> list[Spec]:
    """The servers that `gateway.yaml` describes."""
    return [_spec(upstream) for upstream in settings.upstreams]


def _options(told: ClientPatience, hold_s: float | None) -> Options:
    options = Options(owner=MAKE_ID("gw"))
    default_s = options.patience_s if told.default_s is None else told.default_s
    hold_s = options.hold_s if hold_s is None else hold_s
    by_client = {**options.patience_by_client, **told.clients}
    return replace(options, patience_s=default_s, patience_by_client=by_client, hold_s=hold_s)


def _spec(upstream: Upstream) -> Spec:
    if isinstance(upstream, HttpUpstream):
        headers = {name: value.get_secret_value() for name, value in upstream.headers.items()}
        return HttpSpec(upstream.name, upstream.url, headers, _patience(upstream.timeouts), upstream.transport)
    env = {name: value.get_secret_value() for name, value in upstream.env.items()}
    cwd = str(upstream.cwd) if upstream.cwd is not None else None
    return StdioSpec(
        upstream.name,
        upstream.command,
        upstream.args,
        env,
        cwd,
        shown=upstream.shown,
        patience=_patience(upstream.timeouts),
    )


def _patience(told: Timeouts) -> Patience:
    start_s = DEFAULT_PATIENCE.start_s if told.start_s is None else told.start_s
    connect_s = DEFAULT_PATIENCE.connect_s if told.connect_s is None else told.connect_s
    return replace(DEFAULT_PATIENCE, start_s=start_s, connect_s=connect_s)


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway, without a front."""

    address: str
    """Of the ledger, without a password."""
    catalogue: Catalogue
    engine: Engine
    book: Book
    reload: Reload
    screen: Screen
    recovery: Recovery
    sealer: Sealer
    desk: Desk
    """The people's side."""
    announcer: Announcer
    clock_ahead_s: float = 0.0
    """How far the ledger's time was before its clock at the start."""
    signed: bool = False
    """Whether the ledger's checkpoints are."""
    traced: bool = False
    """Whether somebody is sent spans."""
    session_idle_s: float = IDLE_S
    """As in `Plan`."""
    stdio: frozenset[str] = frozenset()
    """The upstreams that are reached over stdio."""
    reviewing: Reviewing | None = None
    """As in `Plan`."""

    def introduction(self) -> Sequence[str]:
        """What the person who started us should know, a line each."""
        lines = [f"ledger {self.address}", f"policy {self.book.policies.current().policy.workflow}"]
        if self.clock_ahead_s > CLOCK_BACK_S:
            lines.append(f"the clock was set back by {self.clock_ahead_s:.0f} s: the ledger's time goes on from before")
        if not self.signed:
            lines.insert(
                1, "no checkpoint is signed here: who can write the ledger can rewrite it (`seal:` in gateway.yaml)"
            )
        lines += [f"{one.what} is stopped (switch {one.number}): {one.event.reason}" for one in self.book.switches]
        for name, health in self.catalogue.health().items():
            if health["state"] == "healthy":
                tools = f"{health['tools']} tool{'' if health['tools'] == 1 else 's'}"
                lines.append(f"upstream {name}: {tools}, MCP {health['protocol_version']}")
            elif health["state"] == "starting":
                lines.append(f"upstream {name}: {health['reason']}")
            else:
                lines.append(f"upstream {name} cannot be used: {health['reason']}")
            lines += [f"upstream {name}: {trouble}" for trouble in health["troubles"]]
        lines += [f"channel {name} cannot be used: {trouble}" for name, trouble in self.announcer.unusable()]
        rules = [self.book.policies.current(workflow) for workflow in self.book.policies.in_force()]
        return [*lines, *(f"policy {one.policy.workflow}: {line}" for one in rules for line in broken_promises(one))]

    @property
    def starting(self) -> bool:
        """Whether a server has not answered yet, so that it is not known what it offers."""
        return any(health["state"] == "starting" for health in self.catalogue.health().values())

    def findings(self) -> Sequence[str]:
        """What the policies and the tools that are offered have against one another, a line each."""
        listed = self.catalogue.tools()
        offered = {str(tool["name"]) for tool in listed}
        stdio = {name for name in offered if self.catalogue.owner_of(name) in self.stdio}
        current = self.book.policies.current().policy.workflow
        return [
            f"policy {policy.workflow}: {line}"
            for policy in self.book.policies.loaded()
            for line in (
                *surprises(policy, offered, default=policy.workflow == current),
                *self.screen.news(listed, policy),
                *unfit(policy, listed),
                *keyless(policy, stdio),
            )
        ]

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Whether calls can be taken, and how the ledger and each upstream are; one dead upstream of several is no
        reason to leave.
        """
        health, kept = self.catalogue.health(), len(self.engine.carrier.kept)
        ledger = {**self.book.health.state(), "answers_kept": kept}
        said = {
            "ledger": ledger,
            "unsettled": self.recovery.state(),
            "checkpoints": {"trouble": self.sealer.trouble},
            "upstreams": dict(health),
            "policies": self.reload.state(),
            "notices": self.announcer.state(),
        }
        served = any(one["state"] == "healthy" for one in health.values())
        return served and self.book.health.trouble is None, said


@asynccontextmanager
async def running(plan: Plan) -> AsyncIterator[Gateway]:
    """Upstreams up, what earlier processes left is being settled, and all of it ended in order.

    Raises: NotOurLedger, LedgerUnavailable, ValueError.
    """
    flush = otel.start()
    ledger = await open_ledger(plan.ledger)
    try:
        pinned = frozenset(name for policy in plan.policies.values() for name in policy.pins)
        catalogue = await Catalogue.open(plan.upstreams, prefix=plan.prefix, sole=plan.sole, vouched=pinned)
        gc.collect()
        gc.freeze()  # what was imported and made so far stays: no collection need look at it again
        gc.set_threshold(*COLLECTIONS)
        try:
            async with _engine(plan, ledger, catalogue) as gateway:
                stdio = frozenset(spec.name for spec in plan.upstreams if isinstance(spec, StdioSpec))
                yield replace(
                    gateway,
                    traced=flush is not None,
                    session_idle_s=plan.session_idle_s,
                    stdio=stdio,
                    reviewing=plan.reviewing,
                )
        finally:
            # At the same time: each may take a while, and together they have what is left of 5 s.
            await asyncio.gather(catalogue.close(), otel.stop(flush) if flush is not None else asyncio.sleep(0))
    finally:
        try:
            await asyncio.wait_for(ledger.close(), LEDGER_S)
        except TimeoutError:
            _LOG.warning("the ledger is locked by somebody else; it is left as it is, and nothing in it is lost")


@asynccontextmanager
async def _engine(plan: Plan, ledger: Ledger, catalogue: Catalogue) -> AsyncIterator[Gateway]:
    where = _ledger_option(plan.ledger)
    approve_at, settle_at = f"counterfoil approvals approve {{id}}{where}", f"counterfoil resolve {{id}}{where}"
    options = replace(plan.options, approve_at=approve_at, settle_at=settle_at)
    clock = await clock_of(ledger, plan.clock)
    book = Book(ledger, Policies(ledger, plan.policies, plan.default), clock, options)
    engine = Engine(book, catalogue, PlacedLooks(plan.places))
    screen = Screen(book.policies)

    def replaced() -> None:
        if screen.is_another():
            catalogue.shown_anew("tools")

    reload = Reload(plan.source, book.policies, clock, replaced)
    recovery = Recovery(book, engine, catalogue)
    sealer = Sealer(ledger, clock, plan.sealing)
    desk = Desk(book)
    await book.fresh_state_of(SWITCHES)  # so that it is known before the first call what is stopped
    lines = [Line(one.name, one.audience, notifier_of(one, plan.clock.now)) for one in plan.channels]
    announcer = Announcer(book, lines, plan.link_for, SystemRandom().random, recovery.is_for_people)
    keepers = [
        asyncio.ensure_future(kept("the ledger's clock", partial(clock.keep, ledger), clock)),
        asyncio.ensure_future(kept("sealing", sealer.keep, clock)),
        asyncio.ensure_future(kept("taking changed policies", reload.keep, clock)),
        asyncio.ensure_future(kept("renewing leases", engine.carrier.keep_leases, clock)),
        asyncio.ensure_future(kept("recovery", recovery.keep, clock)),
        asyncio.ensure_future(kept("questions that nobody answers", desk.keep, clock)),
        asyncio.ensure_future(kept("looking after the ledger", partial(book.health.keep, ledger), clock)),
    ]
    if lines:
        keepers.append(asyncio.ensure_future(kept("telling people", announcer.keep, clock)))
    try:
        signed = plan.sealing.key is not None
        yield Gateway(
            shown(plan.ledger),
            catalogue,
            engine,
            book,
            reload,
            screen,
            recovery,
            sealer,
            desk,
            announcer,
            clock_ahead_s=clock.ahead_s,
            signed=signed,
        )
    finally:
        try:
            await engine.carrier.close()
        finally:  # whatever its last words met with
            await _end(keepers)
            await sealer.last()


async def kept(what: str, keep: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Runs for ever, as `keep` should: what ends it is logged, and it is begun again."""
    while True:
        try:
            await keep()
        except Exception:  # noqa: BLE001 - logged whole; without it nobody would see that it has ended
            _LOG.exception("%s failed, and goes on in %.0f s", what, AGAIN_S)
        await clock.sleep(AGAIN_S)


def _ledger_option(ledger: str) -> str:
    """What a person's commands need to find this ledger, wherever they are typed; braces doubled for `format`."""
    # Never a password: these words go to agents, models and logs. The person's own `~/.pgpass` has it.
    if ledger == default_ledger_url():
        return ""
    where = shown(ledger) if is_postgres(ledger) else str(Path(ledger.removeprefix("sqlite:///")).absolute())
    return f" --ledger {shlex.quote(where)}".replace("{", "{{").replace("}", "}}")


async def _end(tasks: Sequence["asyncio.Future[Any]"]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
