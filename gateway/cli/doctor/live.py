"""The installation at work: its configuration, its ledger, its servers, and the canary."""

import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from gateway.cli.doctor import canary, machine
from gateway.cli.doctor.findings import Finding, ok, warning, wrong
from gateway.cli.ledgers import book, existing, reviewer
from gateway.cli.notify import send_test
from gateway.inbound.mcp import introduction
from gateway.kernel.globs import names
from gateway.kernel.registry import is_pinned
from gateway.kernel.rules import compile_rules
from gateway.model.canonical import Digest
from gateway.model.events import Denied
from gateway.model.policy import Policy
from gateway.model.review import Refused
from gateway.outbound.ledger import open_ledger, path_of
from gateway.outbound.ledger.postgres.address import is_postgres, shown
from gateway.outbound.oidc.asking import Unreachable
from gateway.outbound.oidc.discovery import discovered, endpoint
from gateway.outbound.upstream.catalogue import Catalogue
from gateway.plan import Plan, plan_of
from gateway.ports import Ledger, LedgerUnavailable, NotOurLedger
from gateway.reviewing import run_key_of
from gateway.runtime.cases import broken_promises
from gateway.runtime.desk import Desk
from gateway.runtime.policies import surprises, unfit
from gateway.settings import Settings, default_ledger_path, load_settings

STORES = 7
"""Durable writes that are timed."""
TOO_QUICK_S = 0.000_05
"""No disk syncs faster: what does so keeps it in memory."""
SKEW_S = 2.0
"""By so much this clock and the ledger's may differ."""
_PIN = "`counterfoil pin --config gateway.yaml --out PINS`; each policy that is to hold names PINS in `include:`"


def read(config: Path) -> tuple[Settings, Plan]:
    """What the file says.

    Raises: OSError, ValueError, with all that is wrong with it.
    """
    settings = load_settings(config)
    return settings, plan_of(settings)


def _key_file(settings: Settings) -> Path | None:
    """That signs run tokens, where the file names no key."""
    return default_ledger_path().with_name("run-tokens.key") if settings.run_token_key is None else None


def key_of(config: Path) -> bytes | None:
    """What signs run tokens, where there is one: none is made for a look."""
    place = _key_file(load_settings(config))
    return run_key_of(config) if place is None or place.exists() else None


async def configured(config: Path, settings: Settings, plan: Plan, *, notify: bool) -> AsyncIterator[Finding]:
    """All that is found out from the file on."""
    yield ok("configuration", f"`{config}` and its policies can be used")
    read = plan.source.read.looks if plan.source is not None else ()
    files = machine.files(config, read, settings.agents.keys), machine.secrets(_key_file(settings), settings.secrets)
    for one in chain(
        *files,
        written_out(settings),
        agents(settings),
        payloads(settings),
        policies(plan),
        machine.telemetry(settings.telemetry.content),
    ):
        yield one
    came = dict(zip(settings.channels, await send_test(settings.channels) if notify else (), strict=False))
    for channel, said in came.items():
        about = f"channel {channel.name}"
        yield ok(about, "took a test message") if said is None else wrong(about, f"NOT DELIVERED: {said.reason}")
    for one in () if notify else machine.channels(settings.channels):
        yield one
    async for one in providers(settings):
        yield one
    async for one in ledger(plan):
        yield one
    async for one in upstreams(plan):
        yield one


async def providers(settings: Settings) -> AsyncIterator[Finding]:
    """Whether those who vouch for agents and for reviewers can be asked, and are who the file says. Nothing is shown
    to them.
    """
    agents, oidc = settings.agents.oauth, settings.console.oidc
    asked = (
        ("provider of agents", agents.issuer if agents is not None and agents.keys == "auto" else None),
        ("provider of reviewers", oidc.issuer if oidc is not None else None),
    )
    for about, issuer in asked:
        if issuer is None:
            continue
        try:
            endpoint(await discovered(issuer), "jwks_uri")
        except Unreachable as error:
            yield wrong(about, f"`{issuer}`: {error}", "whom it vouches for gets 503 until it can be asked")
        else:
            yield ok(about, f"`{issuer}` says where its keys are")


def written_out(settings: Settings) -> Iterator[Finding]:
    """Secrets in the file itself, as a start would tell of them."""
    yield from (warning("secrets", str(one)) for one in settings.warnings)


def agents(settings: Settings) -> Iterator[Finding]:
    """Who comes in, as a start would say it."""
    says, told = introduction(settings.agents).removeprefix("agents: "), settings.agents.anonymous
    yield warning("agents", says, "`agents:` in gateway.yaml, docs/identity.md") if told else ok("agents", says)
    proxies = () if settings.agents.mtls is None else settings.agents.mtls.trusted
    if any(network.is_loopback for network in proxies):
        says = "a proxy on this machine is believed about certificates: so is every account of this machine"
        yield warning("agents", says, "run it elsewhere, or let nobody else onto this machine")


def payloads(settings: Settings) -> Iterator[Finding]:
    """Whether what is kept can be read by whoever has the file."""
    if not settings.data.keys.ids and not settings.data.stored_redacted:
        says = "payloads are not encrypted: who can read the ledger reads arguments and results"
        yield warning("payloads", says, "`counterfoil keygen --data`, then `data: {encryption: …}` in gateway.yaml")


def policies(plan: Plan) -> Iterator[Finding]:
    """Guards that are off by their own words."""
    for workflow, policy in sorted(plan.policies.items()):
        about = f"policy {workflow}"
        off = [*_off(policy)]
        yield from (warning(about, says, do) for says, do in off)
        yield from (
            wrong(about, says, "run `counterfoil check` on it")
            for says in broken_promises(compile_rules(policy, Digest("")))
        )
        if not off:
            yield ok(about, f"enforces, {len(policy.transitions)} transitions, {len(policy.pins)} pinned tools")
    if plan.source is None:
        yield warning("policies", "no folder is named: the starter policy is in force", "`policies:` in gateway.yaml")
    if plan.sealing.key is None:
        says = "no checkpoint is signed: who can write the ledger can rewrite it, and nobody could tell"
        yield warning("seal", says, "`counterfoil keygen`, then `seal:` in gateway.yaml")
    else:
        yield ok("seal", "checkpoints are signed")


def _off(policy: Policy) -> Iterator[tuple[str, str]]:
    if policy.mode == "observe":
        yield "the mode is `observe`: what it would refuse is recorded, and passes", "`mode: enforce`"
    modes = {rule.name: rule.mode for rule in policy.transitions} | {rule.name: rule.mode for rule in policy.forbid}
    for name in (name for name, mode in modes.items() if mode == "observe"):
        yield f"`{name}` only observes: what it would refuse passes", "take its `mode` away"
    for rule in policy.transitions:
        narrowed = rule.when or rule.approval is not None or rule.authority or set(rule.effect or ()) == {"read"}
        if any(names(pattern, canary.TOOL) for pattern in rule.tools) and not narrowed:
            yield f"`{rule.name}` allows every tool there is, whatever it does", "name the tools that it is for"


async def ledger(plan: Plan) -> AsyncIterator[Finding]:
    """The ledger, as a gateway would use it, and the canary in it. None is made where there is none."""
    url, where = plan.ledger, shown(plan.ledger)
    if url == "memory:":
        yield warning("ledger", "it is in memory: nothing is left of it after a restart", "`ledger:` in gateway.yaml")
    elif not _is_there(url):
        yield warning("ledger", f"there is none at `{path_of(url)}` yet; a gateway makes it at its first start")
        url = "memory:"
    elif not is_postgres(url):
        for found in machine.ledger_file(Path(path_of(url))):
            yield found
    try:
        opened = await open_ledger(url, make=False)
    except (NotOurLedger, LedgerUnavailable, ValueError) as error:
        yield wrong("ledger", str(error), "a gateway would not start, or refuse every call")
        return
    try:
        if url == plan.ledger:
            async for found in _at_work(opened, where):
                yield found
        async for found in canary.judged(opened, dict(plan.policies)):
            yield found
    except LedgerUnavailable as error:
        yield wrong("ledger", str(error), "docs/operations.md says what each reason means")
    finally:
        await opened.close()


def _is_there(url: str) -> bool:
    try:
        existing(url)
    except ValueError:
        return False
    return True


async def _at_work(opened: Ledger, where: str) -> AsyncIterator[Finding]:
    took = []
    for _ in range(STORES):
        begun = time.perf_counter()
        await opened.touch(store=True)
        took.append(time.perf_counter() - begun)
    middle = statistics.median(took)
    yield ok("ledger", f"{where} takes records; its schema is of this version")
    lax = await opened.lax()
    for says in lax:
        yield wrong("durability", says, "what is acknowledged may be lost with the power")
    if middle < TOO_QUICK_S and not lax:
        yield warning("durability", f"a durable write took {middle * 1e6:.0f} us, which no disk does", "is it one?")
    elif not lax:
        yield ok("durability", f"every commit is synced; a write of 64 KiB takes {middle * 1e3:.2f} ms")
    for says in await opened.strange():
        yield wrong("ledger layout", says, "stop every gateway on it and restore it from a backup")
    skew = await opened.now() - time.time()
    if abs(skew) > SKEW_S:
        yield warning("clock", f"the ledger's clock and this one differ by {skew:+.1f} s", "let both keep network time")
    else:
        yield ok("clock", "the ledger's clock and this one agree")
    for one in await Desk(await book(opened)).switches(reviewer()):
        yield warning("stops", f"{one.what} is stopped, by `{one.event.by.id}`: {one.event.reason}", _LIFT % one.number)


_LIFT = "`counterfoil stop --lift %d`, once it may go on"


async def recorded(plan: Plan, run: str) -> Finding:
    """Whether what a running gateway said of the canary stands in this ledger."""
    about = "canary over HTTP"
    if plan.ledger == "memory:":
        return warning(about, "whether it was recorded cannot be seen: the ledger is in memory")
    try:
        opened = await open_ledger(plan.ledger, make=False)
    except (NotOurLedger, LedgerUnavailable, ValueError) as error:
        return wrong(about, f"whether it was recorded cannot be seen: {error}")
    try:
        events = [record.event for record, _ in await opened.read(run)]
        with suppress(Refused):  # it is over, or not here
            await Desk(await book(opened)).stop_run(run, reviewer(), "the doctor's canary has been judged")
    finally:
        await opened.close()
    if any(isinstance(one, Denied) for one in events):
        return ok(about, "its denial is recorded in this ledger")
    return wrong(about, f"nothing of the run {run} is in this ledger", "does that gateway use another one?")


def _reached(catalogue: Catalogue) -> Iterator[Finding]:
    """How each server is; of those that people must let us in at, where they come back to."""
    for name, health in catalogue.health().items():
        about = f"upstream {name}"
        if health["state"] == "healthy":
            yield ok(about, f"{health['tools']} tools, MCP {health['protocol_version']}")
        elif health["personal"]:
            yield ok(about, f"not tried: {health['reason']}")
        else:
            yield wrong(about, f"cannot be used: {health['reason']}", "calls of its tools are refused until it can")
        for trouble in health["troubles"]:
            yield warning(about, str(trouble))
    for consented in catalogue.consented:
        says = f"people go to `{consented.flow.host}`, which must know the address to which they come back: "
        yield ok(f"consent {consented.upstream}", says + consented.flow.redirect)


async def upstreams(plan: Plan) -> AsyncIterator[Finding]:
    """Each server, started or reached as a gateway would, and its tools against their pins and the policies."""
    pinned = frozenset(name for policy in plan.policies.values() for name in policy.pins)
    catalogue = await Catalogue.open(plan.upstreams, prefix=plan.prefix, vouched=pinned)
    try:
        for found in _reached(catalogue):
            yield found
        tools = (await catalogue.offered())[0]
        unpinned: dict[str, list[str]] = {}
        for workflow, policy in sorted(plan.policies.items()):
            changed = [one.name for one in tools if one.name in policy.pins and not is_pinned(one, policy)]
            for one in changed:
                yield wrong(f"tools {workflow}", f"`{one}` is not as it was pinned: it is withheld", _PIN)
            free = sorted(one.name for one in tools if one.name not in policy.pins)
            if free and not changed:
                unpinned.setdefault(
                    f"{len(free)} of {len(tools)} tools are not pinned, such as `{free[0]}`", []
                ).append(workflow)
            listed = catalogue.tools()
            for line in (
                *surprises(policy, {one.name for one in tools}, default=workflow == plan.default),
                *unfit(policy, listed),
            ):
                if not line.startswith("the mode is"):  # said above
                    yield warning(f"tools {workflow}", line)
        for says, workflows in unpinned.items():
            yield warning(f"tools {', '.join(workflows)}", f"{says}: they may change unseen", _PIN)
    finally:
        await catalogue.close()
