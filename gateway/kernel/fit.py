"""(policy, tools) -> which of its expressions cannot be asked of the tools that they are about.

A rule for one tool must fit it. One for many, by a pattern, must fit some of them: of the others its condition cannot
be judged, and what cannot be judged denies.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gateway.kernel.accounts import limited_by, limits_of
from gateway.kernel.conditions import BadCondition, Kind
from gateway.kernel.globs import names
from gateway.kernel.registry import registered
from gateway.kernel.shapes import Shape, check_types
from gateway.model.events import Effect
from gateway.model.flaws import EXPRESSIONS, FORMULAS, Place, texts
from gateway.model.policy import Policy, Way
from gateway.model.tool import Tool


class Misfit(NamedTuple):
    """An expression that fits no tool that it is about."""

    place: Place
    """Of the expression in the policy, as its file spells the keys."""
    message: str
    line: int
    """Within the expression, from 1."""
    column: int


def known_tools(policy: Policy) -> tuple[Tool, ...]:
    """Tools whose schemas the policy itself tells: those that it pins, and those of which its registry says them."""
    told = {
        name: {"inputSchema": rule.input_schema, "outputSchema": rule.output_schema}
        for name, rule in policy.tools.items()
        if "*" not in name and (rule.input_schema is not None or rule.output_schema is not None)
    }
    pinned = {name: dict(pin.definition) for name, pin in policy.pins.items()}
    return tuple(Tool(name, "", name.rpartition("__")[2], told_of) for name, told_of in (told | pinned).items())


def misfits(policy: Policy, tools: Sequence[Tool]) -> Iterator[Misfit]:
    """All expressions of the policy that do not fit, by the schemas of these tools and by its own names and values."""
    fits = _Fits(policy, tools)
    whole = policy.model_dump(mode="json", by_alias=True)
    for pattern, kind in (*EXPRESSIONS.items(), *FORMULAS.items()):
        for place, expression in texts(whole, pattern):
            found = fits.trouble(expression, kind, place, whole)
            if found is not None:
                yield Misfit(place, found.message, found.line, found.column)


class _Fits:
    def __init__(self, policy: Policy, tools: Sequence[Tool]) -> None:
        self._policy = policy
        self._tools = {tool.name: tool for tool in tools}
        self._effects = {tool.name: registered(tool, policy).effect for tool in tools}
        self._shapes: dict[tuple[str, str, int | None], Shape] = {}
        self._accounts = {
            name: tuple(unit for unit, _ in limited_by(limits_of(rule.limit))) for name, rule in policy.accounts.items()
        }

    def trouble(self, expression: str, kind: Kind, place: Place, whole: Any) -> BadCondition | None:
        """Why the expression fits nothing that it is about; None if it fits something, or nothing is known."""
        part = whole[place[0]][place[1]]
        probe, way = self._probe(place, part), self._way(place)
        own = way is None and self._is_own(place)
        patterns, effects = self._about(place, part)
        for pattern in patterns or ("",):
            about = [
                name
                for name in self._tools
                if pattern and names(pattern, name) and (not effects or self._effects[name] in effects)
            ]
            found = [self._wrong(expression, kind, name, name if own else probe, way) for name in about or ("",)]
            first = found[0]
            if first is not None and all(one is not None for one in found):
                return first
        return None

    def _about(self, place: Place, part: Any) -> tuple[list[str], list[Effect]]:
        """The tools, by pattern and effect, whose arguments are `args` at that place."""
        match place[0]:
            case "tools":
                return [str(place[1])], []
            case "verifiers":
                asking = [
                    one
                    for one in self._policy.transitions
                    if place[1] in (*self._policy.proofs(one), *one.preconditions)
                ]
                # Whichever of them asks: its check must fit one of all the tools, so they are no patterns of their own.
                patterns = [pattern for one in asking for pattern in one.tools]
                return (patterns, []) if len(patterns) == 1 else ([], [])
            case _:
                return list(part["tools"]), [Effect(one) for one in part.get("effect", ())]

    def _probe(self, place: Place, part: Any) -> str:
        """The tool whose answer is `result` at that place, if it is known; the tool itself has no name here."""
        match place:
            case ("verifiers", _, "pass" | "scope_from" | "about", *_):
                return str(part["probe"]["tool"]) if part.get("probe") else ""
            case ("tools", _, "idempotency", "query", *_):
                return str(part["idempotency"]["query"]["probe"]["tool"])
            case ("tools", _, "failures", *_):
                return str(place[1])
            case _:
                return ""

    def _way(self, place: Place) -> Way | None:
        """How the verifier looks whose expression this is; None if it is none, or it asks a tool."""
        return self._policy.verifiers[str(place[1])].way if place[0] == "verifiers" else None

    def _is_own(self, place: Place) -> bool:
        """Whether `result` is that of the very call whose arguments are `args`."""
        return place[0] == "verifiers" and self._policy.verifiers[str(place[1])].result is not None

    def _wrong(self, expression: str, kind: Kind, tool: str, probe: str, way: Way | None) -> BadCondition | None:
        try:
            check_types(expression, kind, self._shape(tool, probe, way))
        except BadCondition as error:
            return error
        return None

    def _shape(self, tool: str, probe: str, way: Way | None) -> Shape:
        key = (tool, probe, None if way is None else id(way))
        known = self._shapes.get(key)
        if known is None:
            asked, probed = self._tools.get(tool), self._tools.get(probe)
            known = self._shapes[key] = Shape(
                tool=tool,
                args=None if asked is None else asked.definition.get("inputSchema"),
                probe=probe,
                result=({} if probed is None else probed.definition.get("outputSchema") or {}) if probe else None,
                way=way,
                evidence=tuple(self._policy.verifiers),
                accounts=self._accounts,
                values=self._policy.values,
            )
        return known
