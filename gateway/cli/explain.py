"""`counterfoil explain`: why a call is allowed or not, check by check, with the values that each of them saw."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from pydantic import ValidationError

from gateway.cli.explained import Again, Explanation, document, show
from gateway.cli.ledgers import LedgerOption, console, fail, with_ledger
from gateway.cli.plain import counted
from gateway.kernel.reduce import CorruptLedger
from gateway.kernel.registry import registered
from gateway.kernel.rules import Rules, compile_rules
from gateway.model.canonical import NotStrictJson, digest, parse
from gateway.model.events import Effect, IntentRecorded, RunOpened, RunStopped
from gateway.model.policy import Case, CaseCall, Expect, Given, Policy
from gateway.model.principal import Principal
from gateway.model.record import Record, utc
from gateway.model.tool import Tool
from gateway.outbound.clock import SystemClock
from gateway.outbound.file_models import did_you_mean
from gateway.outbound.policy_files import PolicyProblems, load_policy
from gateway.ports import Ledger
from gateway.runtime.cases import judged, mismatch
from gateway.runtime.explain import (
    Asked,
    NotRecorded,
    again,
    allowed,
    differences,
    history,
    kept,
    standing,
    verdict_of,
)
from gateway.runtime.policies import condition_trouble

USAGE = 2
REFUSED = 3
"""Exit codes, beside 0 for what is allowed and 1 for a case that does not hold."""


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

    Ends with 0 if it is allowed, 3 if it is refused, held or a person is asked, 2 if there is nothing to explain, and
    1 for a case that does not hold.
    """
    said = {
        "phase": phase,
        "principal": principal,
        "tenant": tenant,
        "roles": role,
        "scopes": scope,
        "delegated": delegated,
        "evidence": _named("--evidence", evidence),
        "scope": _named("--about", about, _json),
        "stale": stale,
        "probes": _named("--probe", probe),
        "accounts": _levels(account),
        "data": data,
        "elapsed_s": elapsed,
        "now": now,
        "approved": approved or None,
        **(_named("--spent", spent, _json) or {}),
    }
    given = {name: value for name, value in said.items() if value is not None}
    call = None if tool is None else _call(tool, args, args_file)
    definition = _definition(tool, schema, annotations)
    if run is None and attempt is None:
        found = _of_policy(policy or under, case, call, given, definition, effect)
    elif policy is not None or case is not None or effect is not None:
        fail("`--run` is judged by its own policy, or by `--under`; it has no cases and takes no `--effect`", USAGE)
    elif call is not None:
        found = _of_run_now(run or "", call, given, definition, under, ledger)
    else:
        found = _of_record(run, seq, attempt, under, ledger)
    _tell(found, as_json=as_json)


def _tell(found: Explanation, *, as_json: bool) -> NoReturn:
    if as_json:
        typer.echo(json.dumps(document(found)))  # ASCII: nothing in it can act on a terminal
    else:
        show(found, console)
    if found.case is not None and found.case[1] is not None:
        raise typer.Exit(1)
    raise typer.Exit(0 if allowed(found.verdict) else REFUSED)


# --- what was said --------------------------------------------------------------------------------------------------


def _json(option: str, text: str) -> Any:
    try:
        return parse(text)
    except NotStrictJson as error:
        fail(f"`{option}`: {error}", USAGE)


def _text(_option: str, text: str) -> Any:
    return text


def _named(option: str, pairs: Sequence[str] | None, read: Callable[[str, str], Any] = _text) -> dict[str, Any] | None:
    """`NAME=VALUE`, each."""
    if not pairs:
        return None
    found = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            fail(f"`{option}` takes NAME=VALUE, and `{pair}` has no `=`", USAGE)
        found[name] = read(option, value)
    return found


def _levels(accounts: Sequence[str] | None) -> dict[str, dict[str, Any]] | None:
    """`NAME.UNIT=N`, each, by name; a name may have dots of its own."""
    found: dict[str, dict[str, Any]] = {}
    for place, level in (_named("--account", accounts, _json) or {}).items():
        name, _, unit = place.rpartition(".")
        found.setdefault(name, {})[unit] = level
    return found or None


def _read(option: str, path: Path) -> Any:
    try:
        return _json(option, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        fail(f"`{option}`: `{path}` cannot be read: {error}", USAGE)


def _call(tool: str, args: str | None, args_file: Path | None) -> CaseCall:
    if args is not None and args_file is not None:
        fail("`--args` and `--args-file` say the same; give one of them", USAGE)
    arguments = _json("--args", args) if args is not None else {}
    if args_file is not None:
        arguments = _read("--args-file", args_file)
    if not isinstance(arguments, dict):
        fail("the arguments of a call are a JSON object", USAGE)
    return CaseCall(tool=tool, arguments=arguments)


def _definition(tool: str | None, schema: Path | None, annotations: str | None) -> dict[str, Any] | None:
    """The tool's definition, as far as it was said."""
    if schema is None and annotations is None:
        return None
    hints = _json("--annotations", annotations) if annotations is not None else {}
    takes = _read("--schema", schema) if schema is not None else {"type": "object"}
    if not isinstance(hints, dict) or not isinstance(takes, dict):
        fail("a schema, and annotations, are JSON objects", USAGE)
    return {"name": (tool or "").rpartition("__")[2], "inputSchema": takes, "annotations": hints}


def _policy(path: Path) -> Policy:
    try:
        return load_policy(path, condition_trouble)
    except PolicyProblems as error:
        for problem in error.problems:
            typer.echo(str(problem), err=True)
        fail(f"{counted(len(error.problems), 'mistake')} in `{path}`; nothing was judged", USAGE)


def _rules(policy: Policy, salt: bytes = b"") -> Rules:
    return compile_rules(policy, digest(policy.model_dump(mode="json", by_alias=True), salt))


# --- by a policy ----------------------------------------------------------------------------------------------------


def _of_policy(
    path: Path | None,
    named: str | None,
    call: CaseCall | None,
    given: dict[str, Any],
    definition: dict[str, Any] | None,
    effect: Effect | None,
) -> Explanation:
    """A call that is made up, or one of the policy's cases."""
    if path is None or (named is None) == (call is None):
        fail("say POLICY and `--tool` or `--case`, or `--run`; `counterfoil explain --help` has all", USAGE)
    policy = _policy(path)
    if named is not None:
        case = _case(policy, named)
    else:
        state = given | ({} if definition is None else {"tool": {**definition}})
        if definition is not None:
            _ = state["tool"].pop("name")
        case = _imagined(call, state)
    if effect is not None:
        policy = _with_effect(policy, case.call.tool, effect)
    rules = _rules(policy)
    unknown = _unknown(policy, case)
    if unknown is not None:
        fail(unknown, USAGE)
    found = judged(rules, case)
    if effect is not None:
        found = replace(found, assumed=(*found.assumed, f"the tool is a {effect} tool, whatever is said of it"))
    held = None if named is None else (case.name, mismatch(rules, case))
    return Explanation(found.run, None, found.now, found.verdict, found, case=held)


def _case(policy: Policy, named: str) -> Case:
    cases = {case.name: case for case in policy.cases}
    if named in cases:
        return cases[named]
    alike = [name for name in cases if named.casefold() in name.casefold()]
    if len(alike) == 1:
        return cases[alike[0]]
    listed = "".join(f"\n  {name}" for name in alike or cases) or " none"
    return fail(f"no case is named `{named}`; there are:{listed}", USAGE)


def _imagined(call: CaseCall | None, state: dict[str, Any]) -> Case:
    try:
        return Case(
            name="as asked",
            given=Given.model_validate(state),
            call=call or CaseCall(tool=""),
            expect=Expect(outcome="allowed"),
        )
    except ValidationError as error:
        first = error.errors()[0]
        fail(f"`{'.'.join(str(step) for step in first['loc'])}`: {first['msg'].lower()}", USAGE)


def _unknown(policy: Policy, case: Case) -> str | None:
    """A name that the state has and the policy has not; None where all are known."""
    given = case.given
    for what, named, known in (
        ("phase", [given.phase] if given.phase else [], policy.phases),
        ("verifier", [*given.evidence, *given.scope, *given.stale, *given.probes], policy.verifiers),
    ):
        for name in named:
            if name not in known:
                return f"this policy has no {what} `{name}`{did_you_mean(name, tuple(known))}"
    unproven = next((name for name in (*given.stale, *given.scope) if name not in given.evidence), None)
    if unproven is not None:
        return f"`{unproven}` has proven nothing; say `--evidence {unproven}=pass` (or `=fail`) too"
    return None


def _with_effect(policy: Policy, tool: str, effect: Effect) -> Policy:
    """The policy that says of this tool that it has this effect."""
    own_name = tool.rpartition("__")[2]
    known = registered(Tool(tool, "", own_name, {"name": own_name}), policy)
    rule = known.rule.model_copy(update={"effect": effect})
    return policy.model_copy(update={"tools": {**policy.tools, known.pattern or tool: rule}})


# --- in a run -------------------------------------------------------------------------------------------------------

T = TypeVar("T")


def _with(url: str | None, work: Callable[[Ledger], Awaitable[T]]) -> T:
    """What the work gives; what is not in the ledger ends the command."""
    try:
        return with_ledger(url, work)
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
    url: str | None,
) -> Explanation:
    """A call that nobody has made, in a run as it stands."""
    if more := sorted(given.keys() - _OF_PEOPLE):
        fail(f"`--run` is judged in its own state; {', '.join(more)} cannot be said of it", USAGE)
    state = _imagined(call, given).given
    said = given.keys() & {"principal", "tenant", "roles", "scopes"}
    policy = _policy(under) if under is not None else None

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
        rules = _rules(policy, ledger.salt) if policy is not None else None
        found = await standing(ledger, run_id, asked, now, rules)
        return Explanation(found.run, None, found.now, found.verdict, found)

    return _with(url, work)


def _of_record(
    run: str | None, seq: int | None, attempt: str | None, under: Path | None, url: str | None
) -> Explanation:
    """A verdict of the ledger, as it was made."""
    policy = _policy(under) if under is not None else None

    async def work(ledger: Ledger) -> Explanation:
        run_id = await _run_of(ledger, run or (attempt or "").rpartition(".")[0])
        place = seq if seq is not None else _place([one for one, _ in await history(ledger, run_id)], attempt)
        it = await kept(ledger, run_id, place)
        rules = _rules(policy, ledger.salt) if policy is not None else None
        lacks = it.lacking(rules)
        if lacks:
            return Explanation(it.run, place, it.record.at, it.verdict, None, Again(lacks, (), under=rules is not None))
        found = again(it, rules)
        compared = Again((), differences(it.verdict, found.verdict), under=rules is not None)
        verdict = it.verdict if rules is None else found.verdict
        return Explanation(it.run, place, it.record.at, verdict, found, compared)

    return _with(url, work)


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
