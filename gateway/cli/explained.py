"""An explanation, for people in 80 columns and for programs as JSON. `docs/explain.md` says what stands where."""

import io
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from gateway.cli.plain import GONE, counted, cut, visible
from gateway.kernel.explain import Line, conclusion, lines, reading, results
from gateway.kernel.looks import Clause, Look
from gateway.model.answer import Refusal
from gateway.model.events import TERMINAL, IntentRecorded, Verdict
from gateway.model.run import Run
from gateway.runtime import tell
from gateway.runtime.book import Options
from gateway.runtime.cases import Judged
from gateway.runtime.explain import Difference, allowed, outcome, same

FORMAT = 1
"""Of the JSON; fields are added, and none is renamed or taken away."""

MAX_SHOWN = 1000
"""Characters of the arguments; `--json` has all."""


@dataclass(frozen=True, slots=True)
class Again:
    """How a recorded verdict compares with judging it again."""

    recorded: Verdict
    missing: tuple[str, ...]
    differences: tuple[Difference, ...]
    under: bool
    """Whether under another policy than it was recorded."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict, and all that there is to say of it."""

    run: Run
    """Before the verdict."""
    seq: int | None
    """Its place in the run; None where it was never recorded."""
    at: datetime
    verdict: Verdict
    judged: Judged | None
    """None where a recorded verdict can not be judged again."""
    again: Again | None = None
    imagined: bool = False
    """Whether the run exists for this call only."""
    case: tuple[str, str | None] | None = None
    """The case's name, and what came instead of what it expects."""

    @property
    def lines(self) -> tuple[Line, ...]:
        """Every check, in order."""
        return lines(self.verdict, self.judged.taken if self.judged is not None else ())

    @property
    def told(self) -> Refusal | None:
        """What the client is told; None where it gets the upstream's own result, or where nobody can say."""
        if self.judged is None or allowed(self.verdict):
            return None
        known = Options("")
        return tell.refusal(self.judged.after, self.judged.rules, self.verdict, known.where)

    @property
    def hints(self) -> tuple[str, ...]:
        """What the policy says would have to be otherwise."""
        return reading(self.verdict, self.judged.taken) if self.judged is not None else ()


# --- for programs ---------------------------------------------------------------------------------------------------


def document(it: Explanation) -> dict[str, Any]:
    """The explanation as JSON."""
    told = it.told
    return {
        "format": FORMAT,
        "run": None if it.imagined else it.run.id,
        "seq": it.seq,
        "at": it.at.isoformat(),
        "principal": _principal(it),
        "phase": it.run.phase,
        "call": _call(it),
        "policy": _policy(it),
        "allowed": allowed(it.verdict),
        "outcome": outcome(it.verdict),
        "terminal": told is not None and told.outcome in TERMINAL,
        "says": conclusion(it.verdict),
        "checks": [_line(one) for one in it.lines],
        "client": told.model_dump(mode="json") if told is not None else None,
        "reading": list(it.hints),
        "assumed": list(it.judged.assumed) if it.judged is not None else [],
        "again": _again(it.again),
        "case": None if it.case is None else {"name": it.case[0], "holds": it.case[1] is None, "why": it.case[1]},
        "verdict": it.verdict.model_dump(mode="json"),
    }


def _principal(it: Explanation) -> dict[str, Any]:
    who = it.judged.proposal.principal if it.judged is not None else it.run.principal
    if who is None:
        return {}
    return {"tenant": who.tenant, "id": who.id, "roles": sorted(who.roles), "scopes": sorted(who.scopes)}


def _call(it: Explanation) -> dict[str, Any]:
    tool = next((one for one in it.verdict.checks if one.check == "tool"), None)
    ruled = it.judged.taken[0].case.ruled if it.judged is not None and it.judged.taken else None
    effect = str(ruled.registered.effect) if ruled is not None else tool.inputs.get("effect") if tool else None
    inferred = ruled.registered.inferred if ruled is not None else tool.inputs.get("inferred") if tool else None
    return {
        "tool": it.verdict.tool,
        "upstream": it.verdict.upstream,
        "effect": effect,
        "inferred": inferred,
        "arguments": dict(it.judged.proposal.arguments) if it.judged is not None else None,
    }


def _policy(it: Explanation) -> dict[str, Any]:
    policy = it.judged.rules.policy if it.judged is not None else None
    return {
        "workflow": policy.workflow if policy is not None else it.run.workflow,
        "digest": it.verdict.policy,
        "mode": policy.mode if policy is not None else None,
    }


def _line(line: Line) -> dict[str, Any]:
    finding = line.finding
    return {
        "check": line.check,
        "result": line.result,
        "rule": finding.rule if finding is not None else None,
        "reason": finding.reason if finding is not None else None,
        "inputs": finding.model_dump(mode="json")["inputs"] if finding is not None else {},
        "looked": [_look(one) for one in line.looks],
    }


def _look(look: Look) -> dict[str, Any]:
    conditions = [
        {"expression": one.expression, "holds": one.holds, "why": one.why, "seen": dict(one.seen)}
        for one in look.clauses
    ]
    return {"kind": look.kind, "name": look.name, "bears": look.bears, "says": look.says, "conditions": conditions}


def _again(it: Again | None) -> dict[str, Any] | None:
    if it is None:
        return None
    return {
        "possible": not it.missing,
        "missing": list(it.missing),
        "under_another_policy": it.under,
        "recorded": {"outcome": outcome(it.recorded), "says": conclusion(it.recorded)},
        "same": None if it.missing else same(it.differences),
        "differences": [{"part": one.part, "recorded": one.recorded, "again": one.again} for one in it.differences],
    }


# --- for people -----------------------------------------------------------------------------------------------------

_MARKS: Mapping[str, tuple[str, str]] = {
    "passed": ("✓", "green"),
    "for": ("✓", "green"),
    "refused": ("✗", "red"),
    "against": ("✗", "red"),
    "waits": ("✗", "yellow"),
    "asks": ("?", "magenta"),
    "replayed": ("=", "cyan"),
    "waived": ("~", "yellow"),
    "unreached": ("\N{EN DASH}", "dim"),
    "unasked": ("\N{EN DASH}", "dim"),
    "neither": ("·", "dim"),
}
"""How a check ended, or what a thing means for the call: sign and colour."""


class _Page:
    """Lines with a hanging indent, as wide as the terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = console.width

    def put(self, text: str | Text, indent: int = 0, mark: str = "", hang: int = 0) -> None:
        """The text behind its mark; what does not fit goes on below its beginning, `hang` columns further."""
        sign, style = _MARKS.get(mark, ("", ""))
        lead = Text(" " * indent).append(sign, style=style).append(" " if sign else "")
        whole = text if isinstance(text, Text) else Text(text)
        wrapped = whole.wrap(self._console, max(20, self._width - len(lead) - hang), overflow="fold")
        for place, line in enumerate(wrapped or [Text()]):
            line.rstrip()
            before = lead if place == 0 else Text(" " * (len(lead) + hang))
            self._console.print(Text.assemble(before, line), soft_wrap=True)


def show(it: Explanation, console: Console) -> None:
    """The explanation on the terminal."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 gets question marks for the signs
    page = _Page(console)
    _header(it, page)
    page.put("")
    for line in it.lines:
        _show_line(line, page)
    page.put("")
    said = conclusion(it.verdict)
    page.put(Text(visible(said[:1].upper() + said[1:]), style="bold"))
    _show_client(it, page)
    if it.hints:
        page.put(f"A reading of the policy, not advice: {visible(it.hints[0])}")
        for hint in it.hints[1:]:
            page.put(visible(" ".join(hint.split())), indent=2, mark="against")
    for assumed in it.judged.assumed if it.judged is not None else ():
        page.put(f"Assumed: {visible(assumed)}", hang=2)
    if it.again is not None:
        _show_again(it, it.again, page)
    if it.case is not None:
        name, wrong = it.case
        page.put(f"The case `{visible(name)}` {'holds' if wrong is None else f'does not hold: {visible(wrong)}'}")


def _header(it: Explanation, page: _Page) -> None:
    call, policy, who = _call(it), _policy(it), _principal(it)
    at = it.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    step = "as it stands" if it.seq is None else f"step {it.seq}"
    where = "an imagined run" if it.imagined else f"run {it.run.id}, {step}"
    arguments = GONE if call["arguments"] is None else json.dumps(call["arguments"], ensure_ascii=False)
    has = [f"{what} {', '.join(who[what])}" for what in ("roles", "scopes") if who.get(what)]
    spent = [counted(it.run.spent.calls, "call"), counted(it.run.spent.mutations, "mutation")]
    inferred = f" (inferred: {call['inferred']})" if call["inferred"] else ""
    rows = {
        "asks": ", ".join([f"{who.get('id', '?')} of tenant {who.get('tenant', '?')}", *has]),
        "call": f"{call['tool']} {cut(arguments, MAX_SHOWN)}",
        "effect": f"{call['effect'] or 'not known'}{inferred}",
        "stands": f"phase {it.run.phase}; spent: {', '.join(spent)}",
        "policy": f"{policy['workflow']} {policy['digest'][:15]}, {policy['mode'] or 'its text is not in the ledger'}",
    }
    page.put(Text(visible(f"{where}, {at}"), style="bold"))
    for name, value in rows.items():
        page.put(Text(f"{name:<8}", style="dim").append(visible(value), style="not dim"), indent=2, hang=8)


def _show_line(line: Line, page: _Page) -> None:
    finding = line.finding
    text = Text(line.check, style="dim" if line.result == "unreached" else "bold")
    if finding is not None and finding.reason:
        rule = f" by `{finding.rule}`" if finding.rule else ""
        text.append(visible(f" {_ENDS.get(line.result, line.result)}{rule}: {finding.reason}"), style="not bold")
    page.put(text, mark=line.result)
    for look in line.looks:
        _show_look(look, page)
    if finding is not None and finding.inputs and not line.looks:
        page.put(Text(visible(json.dumps(finding.inputs, ensure_ascii=False, default=str)), style="dim"), indent=4)


_ENDS: Mapping[str, str] = {"waits": "says not now", "asks": "asks a person", "waived": "would refuse"}


def _show_look(look: Look, page: _Page) -> None:
    kind = "" if look.kind in {"fact", "argument"} else f"{look.kind} "
    page.put(Text(visible(f"{kind}{look.name}: {look.says}")), indent=2, mark=look.bears, hang=2)
    for clause in look.clauses:
        _show_clause(clause, page)


def _show_clause(clause: Clause, page: _Page) -> None:
    held, style = _HELD[clause.holds]
    text = Text(f"{held:<7}", style=style)
    text.append(visible(" ".join(clause.expression.split())), style="not bold default")
    page.put(text, indent=4, hang=7)
    if clause.why is not None:
        page.put(Text(visible(f"cannot be judged: {clause.why}"), style="dim"), indent=13, hang=2)
    for path, value in clause.seen.items():
        shown = json.dumps(value, ensure_ascii=False, default=str)
        page.put(Text(visible(f"{path} = {shown}"), style="dim"), indent=13, hang=2)


_HELD: Mapping[bool | None, tuple[str, str]] = {
    True: ("true", "green"),
    False: ("false", "red"),
    None: ("error", "yellow"),
}


def _show_client(it: Explanation, page: _Page) -> None:
    told = it.told
    for warning in it.verdict.warnings if isinstance(it.verdict, IntentRecorded) else ():
        page.put(f"The client is warned: {visible(warning)}")
    if told is None:
        return
    over = "the run is over" if told.terminal else "the run goes on"
    page.put(f"The client is told: {told.outcome}, {over}. {visible(told.next)}")


def _show_again(it: Explanation, again: Again, page: _Page) -> None:
    if again.missing:
        page.put(f"It cannot be judged again: the ledger lacks {', '.join(again.missing)}.")
        return
    where = "Judged under this policy" if again.under else "Judged again from the ledger"
    if not again.differences:
        page.put(f"{where}: exactly the same.")
        return
    if same(again.differences):
        page.put(f"{where}: the same verdict; the checks noted something else.")
    else:
        page.put(f"{where}, it is another verdict. As it was recorded: {visible(conclusion(again.recorded))}")
    now = it.judged.verdict if it.judged is not None else again.recorded
    was, is_now = (
        {finding.check: result for finding, result in zip(one.checks, results(one), strict=True)}
        for one in (again.recorded, now)
    )
    for check in dict.fromkeys([*was, *is_now]):
        before, after = was.get(check, "unreached"), is_now.get(check, "unreached")
        if before != after:
            page.put(f"{check}: recorded {before}, now {after}", indent=2, mark="neither")
