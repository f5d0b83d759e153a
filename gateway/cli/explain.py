"""`counterfoil explain`: why a call is allowed or not, check by check, with the values that each of them saw."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from gateway.cli.explained import Again, Explanation, document, show
from gateway.cli.imagined import (
    USAGE,
    as_json_value,
    call_of,
    case_of,
    definition_of,
    imagined,
    levels,
    named,
    policy_at,
    rules_of,
    unknown_in,
    with_effect,
)
from gateway.cli.ledgers import FileOption, LedgerOption, Where, console, fail, with_ledger
from gateway.kernel.reduce import CorruptLedger
from gateway.model.events import Effect, IntentRecorded, RunOpened, RunStopped
from gateway.model.policy import CaseCall
from gateway.model.principal import Principal
from gateway.model.record import Record, utc
from gateway.outbound.clock import SystemClock
from gateway.ports import Ledger
from gateway.runtime.cases import judged, mismatch
from gateway.runtime.explain import (
    NotRecorded,
    again,
    allowed,
    differences,
    history,
    kept,
    verdict_of,
)
from gateway.runtime.foretell import Asked, standing

REFUSED = 3
"""Exit code, beside 0 for what is allowed, 1 for a case that does not hold and 2 for what makes no sense."""


def explain(
    policy: Annotated[Path | None, typer.Argument(metavar="POLICY", help="A policy; or none, with `--run`.")] = None,
    *,
    tool: Annotated[str | None, typer.Option("--tool", help="The tool, as agents call it.")] = None,
    args: Annotated[str | None, typer.Option("--args", metavar="JSON", help="Its arguments.")] = None,
    args_file: Annotated[Path | None, typer.Option("--args-file", metavar="FILE", help="The same, in a file.")] = None,
    case: Annotated[str | None, typer.Option("--case", metavar="NAME", help="A case of the policy.")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="A run's id, or `last`.")] = None,
    seq: Annotated[int | None, typer.Option("--seq", metavar="N", help="The run's verdict at this step.")] = None,
    attempt: Annotated[str | None, typer.Option("--attempt", metavar="ID", help="The verdict of this attempt.")] = None,
    under: Annotated[Path | None, typer.Option("--under", metavar="POLICY", help="Judged by this one.")] = None,
    ledger: LedgerOption = None,
    config: FileOption = None,
    phase: Annotated[str | None, typer.Option("--phase", help="Of the run; its first where not said.")] = None,
    principal: Annotated[str | None, typer.Option("--principal", help="Who asks; `local:user` where not said.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Whose; `local` where not said.")] = None,
    role: Annotated[list[str] | None, typer.Option("--role", help="A role of theirs.")] = None,
    scope: Annotated[list[str] | None, typer.Option("--scope", help="A scope that they came with.")] = None,
    delegated: Annotated[
        list[str] | None, typer.Option("--delegated", metavar="AUTHORITY", help="What a parent run passed on.")
    ] = None,
    evidence: Annotated[
        list[str] | None, typer.Option("--evidence", metavar="NAME=VERDICT", help="A verifier's last word.")
    ] = None,
    about: Annotated[
        list[str] | None, typer.Option("--about", metavar="NAME=JSON", help="What that evidence is about.")
    ] = None,
    stale: Annotated[list[str] | None, typer.Option("--stale", metavar="NAME", help="Evidence overtaken.")] = None,
    probe: Annotated[
        list[str] | None, typer.Option("--probe", metavar="NAME=VERDICT", help="What a precondition finds.")
    ] = None,
    spent: Annotated[list[str] | None, typer.Option("--spent", metavar="UNIT=N", help="By the run so far.")] = None,
    account: Annotated[
        list[str] | None, typer.Option("--account", metavar="NAME.UNIT=N", help="What stands on an account.")
    ] = None,
    data: Annotated[list[str] | None, typer.Option("--data", metavar="CLASS", help="Data that the run saw.")] = None,
    elapsed: Annotated[float | None, typer.Option("--elapsed", metavar="S", help="Age of the run.")] = None,
    now: Annotated[str | None, typer.Option("--now", metavar="RFC3339", help="The time of the call.")] = None,
    approved: Annotated[bool, typer.Option("--approved", help="A person has said yes to this very call.")] = False,
    effect: Annotated[Effect | None, typer.Option("--effect", help="Of the tool, whatever is said of it.")] = None,
    annotations: Annotated[str | None, typer.Option("--annotations", metavar="JSON", help="Its hints.")] = None,
    schema: Annotated[Path | None, typer.Option("--schema", metavar="FILE", help="Its input schema.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Plain JSON, as `docs/explain.md` has it.")] = False,
) -> None:
    """Why a call is allowed or not: by a policy in a state, as it was recorded, or in a run as it stands now.

    Ends with 0 if it is allowed, 3 if refused, held or a person is asked, 2 for nothing to explain, 1 if a case fails.
    """
    said = {
        "phase": phase,
        "principal": principal,
        "tenant": tenant,
        "roles": role,
        "scopes": scope,
        "delegated": delegated,
        "evidence": named("--evidence", evidence),
        "scope": named("--about", about, as_json_value),
        "stale": stale,
        "probes": named("--probe", probe),
        "accounts": levels(account),
        "data": data,
        "elapsed_s": elapsed,
        "now": now,
        "approved": approved or None,
        **(named("--spent", spent, as_json_value) or {}),
    }
    given = {name: value for name, value in said.items() if value is not None}
    call = None if tool is None else call_of(tool, args, args_file)
    definition = definition_of(tool, schema, annotations)
    if run is None and attempt is None:
        found = _of_policy(policy or under, case, call, given, definition, effect)
    elif policy is not None or case is not None or effect is not None:
        fail("`--run` is judged by its own policy, or by `--under`; it has no cases and takes no `--effect`", USAGE)
    elif call is not None and seq is None and attempt is None:
        found = _of_run_now(run or "", call, given, definition, under, Where(ledger, config))
    elif call is not None or given or definition is not None:
        fail("say either which verdict is meant (`--seq`, `--attempt`), or a call (`--tool`) and who makes it", USAGE)
    else:
        found = _of_record(run, seq, attempt, under, Where(ledger, config))
    _tell(found, as_json=as_json)


def _tell(found: Explanation, *, as_json: bool) -> NoReturn:
    if as_json:
        typer.echo(json.dumps(document(found)))  # ASCII: nothing in it can act on a terminal
    else:
        show(found, console)
    if found.case is not None and found.case[1] is not None:
        raise typer.Exit(1)
    raise typer.Exit(0 if allowed(found.verdict) else REFUSED)


# --- by a policy ----------------------------------------------------------------------------------------------------


def _of_policy(
    path: Path | None,
    wanted: str | None,
    call: CaseCall | None,
    given: dict[str, Any],
    definition: dict[str, Any] | None,
    effect: Effect | None,
) -> Explanation:
    """A call that is made up, or one of the policy's cases."""
    if path is None or (wanted is None) == (call is None):
        fail("say POLICY and `--tool` or `--case`, or `--run`; `counterfoil explain --help` has all", USAGE)
    if wanted is not None and (given or definition is not None or effect is not None):
        fail("a case has its call and its state; nothing can be added", USAGE)
    policy = policy_at(path)
    if wanted is not None:
        case = case_of(policy, wanted)
    else:
        tool = {part: value for part, value in (definition or {}).items() if part != "name"}
        case = imagined(call, given | ({"tool": tool} if tool else {}))
    if effect is not None:
        policy = with_effect(policy, case.call.tool, effect)
    rules = rules_of(policy)
    if (unknown := unknown_in(policy, case)) is not None:
        fail(unknown, USAGE)
    found = judged(rules, case)
    if effect is not None:
        found = replace(found, assumed=(*found.assumed, f"the tool is a {effect} tool, whatever is said of it"))
    held = None if wanted is None else (case.name, mismatch(rules, case))
    return Explanation(found.run, None, found.now, found.verdict, found, imagined=True, case=held)


# --- in a run -------------------------------------------------------------------------------------------------------

T = TypeVar("T")


def _with(where: Where, work: Callable[[Ledger], Awaitable[T]]) -> T:
    """What the work gives; what is not in the ledger ends the command."""
    try:
        return with_ledger(where, work)
    except (NotRecorded, CorruptLedger) as error:
        fail(str(error), USAGE)
    except typer.Exit:
        raise typer.Exit(USAGE) from None  # the ledger's own troubles, told already


async def _run_of(ledger: Ledger, run: str) -> str:
    if run != "last":
        return run
    newest = await ledger.find(["run.opened"], limit=1)
    return newest[0].run if newest else run


_OF_PEOPLE = frozenset({"principal", "tenant", "roles", "scopes", "now", "probes"})
"""What can be said of a call in a run that stands; the rest is the run's own."""


def _of_run_now(
    run: str,
    call: CaseCall,
    given: dict[str, Any],
    definition: dict[str, Any] | None,
    under: Path | None,
    where: Where,
) -> Explanation:
    """A call that nobody has made, in a run as it stands."""
    if more := sorted(given.keys() - _OF_PEOPLE):
        fail(f"`--run` is judged in its own state; {', '.join(more)} cannot be said of it", USAGE)
    state = imagined(call, given).given
    said = given.keys() & {"principal", "tenant", "roles", "scopes"}
    policy = policy_at(under) if under is not None else None

    async def work(ledger: Ledger) -> Explanation:
        run_id = await _run_of(ledger, run)
        opened = (await history(ledger, run_id))[0][0].event
        who = Principal(state.principal, state.tenant, frozenset(state.roles), frozenset(state.scopes))
        if isinstance(opened, RunOpened):
            who = replace(
                who,
                id=state.principal if "principal" in said else opened.principal.id,
                tenant=state.tenant if "tenant" in said else opened.principal.tenant,
                roles=frozenset(state.roles if "roles" in said else opened.principal.roles),
            )
        asked = Asked(call.tool, call.arguments, who if said else None, definition, state.probes)
        now = state.now or utc(SystemClock().now())
        rules = rules_of(policy, ledger.salt) if policy is not None else None
        found = await standing(ledger, run_id, asked, now, rules)
        return Explanation(found.run, None, found.now, found.verdict, found)

    return _with(where, work)


def _of_record(run: str | None, seq: int | None, attempt: str | None, under: Path | None, where: Where) -> Explanation:
    """A verdict of the ledger, as it was made."""
    policy = policy_at(under) if under is not None else None

    async def work(ledger: Ledger) -> Explanation:
        run_id = await _run_of(ledger, run or (attempt or "").rpartition(".")[0])
        place = seq if seq is not None else _place([one for one, _ in await history(ledger, run_id)], attempt)
        it = await kept(ledger, run_id, place)
        rules = rules_of(policy, ledger.salt) if policy is not None else None
        lacks = it.lacking(rules)
        if lacks:
            return Explanation(
                it.run, place, it.record.at, it.verdict, None, Again(it.verdict, lacks, (), under=rules is not None)
            )
        found = again(it, rules)
        compared = Again(it.verdict, (), differences(it.verdict, found.verdict), under=rules is not None)
        verdict = it.verdict if rules is None else found.verdict
        return Explanation(it.run, place, it.record.at, verdict, found, compared)

    return _with(where, work)


def _place(records: list[Record], attempt: str | None) -> int:
    """Where the attempt's verdict stands; without one, the last verdict that was no yes, or the last of all.

    What a run that is over says for ever is passed by: why it is over was said before.
    """
    verdicts = [(record.seq, verdict) for record in records if (verdict := verdict_of(record)) is not None]
    if attempt is not None:
        made = [seq for seq, one in verdicts if isinstance(one, IntentRecorded) and one.attempt == attempt]
        if not made:
            raise NotRecorded(f"no attempt `{attempt}` is in this run")
        return made[0]
    if not verdicts:
        raise NotRecorded("nothing was asked in this run yet")
    over = next((record.seq for record in records if isinstance(record.event, RunStopped)), len(records) + 1)
    refused = [seq for seq, one in verdicts if seq < over and not allowed(one)]
    return (refused or [seq for seq, _ in verdicts])[-1]
