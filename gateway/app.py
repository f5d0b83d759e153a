"""The composition root: what is made of what, and in which order it starts and ends."""

import asyncio
import gc
import logging
import shlex
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Any

from gateway.inbound.mcp import IDLE_S, OWN_TOOLS
from gateway.model.answering import Answering
from gateway.model.limits import DEFAULT, Limits
from gateway.model.switch import SWITCHES
from gateway.outbound.agent_entries import AgentSettings
from gateway.outbound.citations import CitationsOnDisk
from gateway.outbound.clock import clock_of
from gateway.outbound.credentials.vault import Vault
from gateway.outbound.ledger import open_ledger
from gateway.outbound.ledger.postgres.address import is_postgres, shown
from gateway.outbound.looks import PlacedLooks
from gateway.outbound.notices import notifier_of
from gateway.outbound.redaction import DetectingRedactor
from gateway.outbound.upstream.catalogue import Catalogue
from gateway.outbound.upstream.spec import StdioSpec
from gateway.plan import Plan
from gateway.ports import Ledger, Redactor
from gateway.reload import Reload
from gateway.reviewing import Reviewing
from gateway.runtime import trace
from gateway.runtime.announce import Announcer
from gateway.runtime.book import Book
from gateway.runtime.cases import broken_promises
from gateway.runtime.channels import Line
from gateway.runtime.desk import Desk
from gateway.runtime.engine import Engine
from gateway.runtime.keeping import end, kept, lacking_key
from gateway.runtime.policies import Policies, keyless, surprises, unfit
from gateway.runtime.recover import Recovery
from gateway.runtime.retention import PAUSE_S, Kept, Retention
from gateway.runtime.screen import Screen
from gateway.runtime.sealing import Sealer
from gateway.settings import (
    default_ledger_url,
)
from gateway.telling import Telling

_LOG = logging.getLogger("counterfoil")


CLOCK_BACK_S = 5.0
"""By how much a clock may go back without a word; daemons that set clocks do it by less."""

COLLECTIONS = 20_000, 20, 50
"""Thresholds of Python's collector. A call makes hundreds of objects and no circle; by the default every second call
had them looked through, and all runs in memory again and again: 0.96 x the processor time of a call.
"""

LEDGER_S = 1.0
"""How long the ledger may take to close; one that somebody else has locked would keep us for 5 s."""


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
    masks: Redactor
    """What secrets are shown as on pages for reviewers."""
    clock_ahead_s: float = 0.0
    """How far the ledger's time was before its clock at the start."""
    signed: bool = False
    """Whether the ledger's checkpoints are."""
    telemetry: trace.Telemetry | None = None
    """None where nobody is told anything."""
    scrape: Callable[[], tuple[bytes, str]] | None = None
    """All figures for Prometheus, and their media type; None where they are not kept."""
    session_idle_s: float = IDLE_S
    """As in `Plan`."""
    stdio: frozenset[str] = frozenset()
    """The upstreams that are reached over stdio."""
    reviewing: Reviewing | None = None
    """As in `Plan`."""
    agents: AgentSettings = field(default_factory=AgentSettings)
    """As in `Plan`."""
    lacking: str | None = None
    """The id of a key that payloads need and that is not here."""
    limits: Limits = DEFAULT
    """As in `Plan`."""

    def introduction(self) -> Sequence[str]:
        """What the person who started us should know, a line each."""
        lines = [f"ledger {self.address}", f"policy {self.book.policies.current().policy.workflow}"]
        if self.clock_ahead_s > CLOCK_BACK_S:
            lines.append(f"the clock was set back by {self.clock_ahead_s:.0f} s: the ledger's time goes on from before")
        if self.lacking is not None:
            lines.append(
                f"payloads are encrypted with the key {self.lacking}, which is not given: what needs them fails"
            )
        if not self.signed:
            lines.insert(
                1, "no checkpoint is signed here: who can write the ledger can rewrite it (`seal:` in gateway.yaml)"
            )
        lines += [f"{one.what} is stopped (switch {one.number}): {one.event.reason}" for one in self.book.switches]
        for name, health in self.catalogue.health().items():
            if health["state"] == "healthy":
                tools = f"{health['tools']} tool{'' if health['tools'] == 1 else 's'}"
                lines.append(f"upstream {name}: {tools}, MCP {health['protocol_version']}")
            elif health["state"] == "starting" or health["personal"]:
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
        served = any(one["state"] == "healthy" or one["personal"] for one in health.values())
        return served and self.book.health.trouble is None, said


@asynccontextmanager
async def running(plan: Plan) -> AsyncIterator[Gateway]:
    """Upstreams up, what earlier processes left is being settled, and all of it ended in order.

    Raises: NotOurLedger, LedgerUnavailable, ValueError.
    """
    redactor = DetectingRedactor(plan.data.redaction)
    ledger = await open_ledger(
        plan.ledger, keys=plan.data.keys, redactor=redactor if plan.data.stored_redacted else None
    )
    telling = Telling(plan.telemetry, ledger.salt, redactor)
    try:
        pinned = frozenset(name for policy in plan.policies.values() for name in policy.pins)
        catalogue = await Catalogue.open(
            plan.upstreams, prefix=plan.prefix, sole=plan.sole, vouched=pinned, sight=telling.sight
        )
        gc.collect()
        gc.freeze()  # what was imported and made so far stays: no collection need look at it again
        gc.set_threshold(*COLLECTIONS)
        try:
            async with _engine(plan, ledger, catalogue, redactor) as gateway:
                telling.about(gateway.book, gateway.recovery, lambda name: name in OWN_TOOLS or catalogue.offers(name))
                stdio = frozenset(spec.name for spec in plan.upstreams if isinstance(spec, StdioSpec))
                yield replace(
                    gateway,
                    telemetry=telling.telemetry,
                    scrape=telling.scrape,
                    session_idle_s=plan.session_idle_s,
                    stdio=stdio,
                    reviewing=plan.reviewing,
                    agents=plan.agents,
                    limits=plan.limits,
                )
        finally:
            # At the same time: each may take a while, and together they have what is left of 5 s.
            await asyncio.gather(catalogue.close(), telling.stop())
    finally:
        try:
            await asyncio.wait_for(ledger.close(), LEDGER_S)
        except TimeoutError:
            _LOG.warning("the ledger is locked by somebody else; it is left as it is, and nothing in it is lost")


@asynccontextmanager
async def _engine(plan: Plan, ledger: Ledger, catalogue: Catalogue, redactor: Redactor) -> AsyncIterator[Gateway]:
    where = _ledger_option(plan.ledger, plan.file if plan.data.keys.ids else None)
    answering = Answering(
        approve=f"counterfoil approvals approve {{id}}{where}",
        settle=f"counterfoil resolve {{id}}{where}",
        console=None if plan.reviewing is None else plan.reviewing.url,
    )
    options = replace(plan.options, where=answering)
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
    announcer = Announcer(
        book, lines, plan.link_for, SystemRandom().random, recovery.is_for_people, redactor.redact_text
    )
    keepers = [
        asyncio.ensure_future(kept("the ledger's clock", partial(clock.keep, ledger), clock)),
        asyncio.ensure_future(kept("sealing", sealer.keep, clock)),
        asyncio.ensure_future(kept("taking changed policies", reload.keep, clock)),
        asyncio.ensure_future(kept("renewing leases", engine.carrier.keep_leases, clock)),
        asyncio.ensure_future(kept("recovery", recovery.keep, clock)),
        asyncio.ensure_future(kept("questions that nobody answers", desk.keep, clock)),
        asyncio.ensure_future(kept("looking after the ledger", partial(book.health.keep, ledger), clock)),
    ]
    if plan.data.days is not None or plan.data.days_of:
        how_long = Kept(plan.data.days, plan.data.days_of)
        retention = Retention(book, how_long, CitationsOnDisk, partial(clock.sleep, PAUSE_S))
        keepers.append(asyncio.ensure_future(kept("erasing what was kept for long enough", retention.keep, clock)))
    vault = Vault(ledger.consents, plan.data.keys, clock, book.options.owner)
    for one in catalogue.consented:
        one.open(vault, partial(catalogue.end, one.upstream))
        about = f"looking after what people agreed to at {one.upstream}"
        keepers.append(asyncio.ensure_future(kept(about, partial(one.keep, clock), clock)))
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
            DetectingRedactor(replace(plan.data.redaction, personal=frozenset())),
            clock_ahead_s=clock.ahead_s,
            signed=signed,
            lacking=await lacking_key(ledger),
        )
    finally:
        try:
            await engine.carrier.close()
        finally:  # whatever its last words met with
            await end(keepers)
            await sealer.last()


def _ledger_option(ledger: str, file: Path | None = None) -> str:
    """What a person's commands need to find this ledger, wherever they are typed; braces doubled for `format`.

    With the file of the gateway they find the ledger's keys as well.
    """
    if file is not None:
        return f" --config {shlex.quote(str(file))}".replace("{", "{{").replace("}", "}}")
    # Never a password: these words go to agents, models and logs. The person's own `~/.pgpass` has it.
    if ledger == default_ledger_url():
        return ""
    where = shown(ledger) if is_postgres(ledger) else str(Path(ledger.removeprefix("sqlite:///")).absolute())
    return f" --ledger {shlex.quote(where)}".replace("{", "{{").replace("}", "}}")
