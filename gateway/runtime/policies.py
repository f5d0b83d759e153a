"""Which policy judges which run: the one it began under, as long as its text is in the ledger."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

from gateway.kernel.conditions import BadCondition, compile_condition, compile_value
from gateway.kernel.fit import known_tools, misfits
from gateway.kernel.globs import names
from gateway.kernel.registry import registered
from gateway.kernel.rules import Rules, compile_rules
from gateway.model.canonical import Digest, digest_bytes, dump_bytes, parse
from gateway.model.flaws import Kind, Place
from gateway.model.policy import Policy, Way
from gateway.model.policy.older import newer
from gateway.model.tool import Tool
from gateway.ports import Ledger

KEPT = 64
"""Texts that are no longer current and are kept at hand; what runs began under is in the ledger as well."""


Misplaced: TypeAlias = Callable[[Way], tuple[tuple[str, ...], str] | None]


class PolicyMissing(Exception):
    """A run cites a policy whose text is neither loaded nor in the ledger."""


class DefaultVanished(ValueError):
    """The policies to be taken have none for a run that names none."""


class Trouble:
    """What is wrong with a policy's expressions, and with where its verifiers look, for whoever loads one."""

    def __init__(self, misplaced: Misplaced | None = None) -> None:
        """`misplaced` says which key of a look names no place of this gateway, and why; None where none is known."""
        self._misplaced = misplaced

    def __call__(
        self, expression: str, kind: Kind, gives: Literal["truth", "value"] = "truth", /
    ) -> tuple[str, int, int] | None:
        """What is wrong with an expression, and where in it (line and column from 1); None if it compiles."""
        try:
            _ = compile_condition(expression, kind) if gives == "truth" else compile_value(expression, kind)
        except BadCondition as error:
            return error.message, error.line, error.column
        return None

    def misfits(self, policy: Policy) -> Iterable[tuple[Place, str, int, int]]:
        """Its expressions that cannot be asked of the tools that they are about, as far as it says what those take; and
        its verifiers that look at no place of this gateway.
        """
        yield from misfits(policy, known_tools(policy))
        for name, verifier in policy.verifiers.items() if self._misplaced is not None else ():
            found = self._misplaced(verifier.way) if self._misplaced is not None and verifier.way is not None else None
            if found is not None:
                yield ("verifiers", name, verifier.source, *found[0]), found[1], 1, 1


condition_trouble = Trouble()
"""For whoever knows of no gateway."""


def unfit(policy: Policy, listed: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The policy's expressions that do not fit these tools, as they are listed under our names; a line each.

    What does not fit cannot be judged, and denies; so this is told, and nothing hangs on it.
    """
    tools = [Tool(str(one["name"]), "", str(one["name"]).rpartition("__")[2], one) for one in listed]
    for place, message, _, _ in misfits(policy, tools):
        yield f"{'.'.join(map(str, place))}: {message}"


def surprises(policy: Policy, offered: Collection[str], *, default: bool) -> Iterator[str]:
    """What whoever starts the gateway may not expect of the policy before these tools; a line each."""
    if policy.mode == "observe":
        yield "the mode is `observe`: what it would refuse is recorded, and passes"
    patterns = [pattern for rule in policy.transitions for pattern in rule.tools]
    if default and offered and not any(names(pattern, name) for pattern in patterns for name in offered):
        yield f"no transition names any tool that is offered, such as `{min(offered)}`: every call is denied"
    for name, verifier in policy.verifiers.items():
        if verifier.probe is not None and verifier.probe.tool not in offered:
            yield f"verifier `{name}` asks `{verifier.probe.tool}`, which nobody offers"


def keyless(policy: Policy, stdio: Collection[str]) -> Iterator[str]:
    """Keys that policy puts into a header, of tools that are reached over stdio, where there is none; a line each."""
    by_header: dict[str, list[str]] = {}
    for name in sorted(stdio):
        told = registered(Tool(name, "", name, {}), policy).rule.idempotency
        if told is not None and told.key is not None and told.key.header is not None:
            by_header.setdefault(told.key.header, []).append(name)
    for header, tools in by_header.items():
        others = f" and {len(tools) - 1} others" if len(tools) > 1 else ""
        yield (
            f"the key of `{tools[0]}`{others} goes into the header `{header}`, which no server over stdio gets: "
            "a call whose outcome is unknown is not sent again"
        )


def spelled(policy: Policy) -> bytes:
    """The whole text of a policy, as it is kept and cited. In its own order: of patterns, phases and failures the
    first counts, so that two policies which differ in order alone are two.
    """
    return dump_bytes(policy.model_dump(mode="json", by_alias=True))


@dataclass(frozen=True, slots=True)
class Prepared:
    """A whole set of policies, compiled, of which nothing is in force yet."""

    rules: Mapping[str, Rules]
    """By workflow."""
    texts: Mapping[Digest, bytes]


@cache
def _nothing_allowed() -> Rules:
    """Of a process that has loaded no policy: it only writes down what people say."""
    named = {"workflow": "none", "transitions": [{"name": "nothing", "tools": ["-"]}]}  # a policy has one at least
    return compile_rules(Policy.model_validate(named), Digest(""))


class Policies:
    """The loaded policies, compiled, and those that earlier runs began under."""

    def __init__(self, ledger: Ledger, loaded: Mapping[str, Policy], default: str) -> None:
        self._ledger = ledger
        self.texts: dict[Digest, bytes] = {}
        self._rules: dict[Digest, Rules] = {}
        self._current: Mapping[str, Rules] = {}
        self._default = default
        self._take(self.prepare(loaded))

    def current(self, workflow: str | None = None) -> Rules:
        """The policy that a new run of this workflow begins under; the default workflow for None.

        Raises: KeyError for a workflow that is not loaded.
        """
        return self._current[workflow or self._default]

    def __contains__(self, workflow: object) -> bool:
        """Whether a new run may begin under a policy of this workflow."""
        return workflow in self._current

    def loaded(self) -> list[Policy]:
        """The policies that new runs may begin under."""
        return [rules.policy for rules in self._current.values()]

    def in_force(self) -> dict[str, Digest]:
        """Workflow -> the digest of the policy that new runs begin under."""
        return {workflow: rules.digest for workflow, rules in self._current.items()}

    async def of(self, cited: Digest | None) -> Rules:
        """The policy with this digest; for None the default one, under which nothing is allowed where none is loaded.

        Raises: PolicyMissing.
        """
        if cited is None:
            return self._current.get(self._default) or _nothing_allowed()
        found = self._rules.get(cited)
        if found is not None:
            return found
        body = await self._ledger.payload(cited)
        if body is None:
            raise PolicyMissing(f"the policy `{cited}` is not loaded, and its text is not in the ledger")
        try:
            rules = compile_rules(Policy.model_validate(newer(parse(body))), cited)
        except ValueError as error:
            raise PolicyMissing(f"the policy `{cited}` is in the ledger, but not in our language: {error}") from error
        return self._rules.setdefault(cited, rules)

    def successor(self, cited: Digest) -> Rules | None:
        """The policy under which a run of this one goes on: another text for its workflow, which says `migrate`."""
        known = self._rules.get(cited)
        current = self._current.get(known.policy.workflow) if known is not None else None
        return current if current is not None and current.policy.migrate and current.digest != cited else None

    def prepare(self, loaded: Mapping[str, Policy]) -> Prepared:
        """The policies, compiled. Changes nothing, so any thread may ask.

        Raises: BadCondition.
        """
        rules, texts = {}, {}
        for workflow, policy in loaded.items():
            body = spelled(policy)
            cited = digest_bytes(body, self._ledger.salt)
            rules[workflow], texts[cited] = compile_rules(policy, cited), body
        return Prepared(rules, texts)

    def replace(self, loaded: Mapping[str, Policy] | Prepared) -> None:
        """New runs begin under these policies, all of them from the same moment; runs under way keep theirs.

        Raises: DefaultVanished, BadCondition; then nothing has changed.
        """
        prepared = loaded if isinstance(loaded, Prepared) else self.prepare(loaded)
        if self._default not in prepared.rules:
            raise DefaultVanished(
                f"there is no policy any more for `{self._default}`, the workflow of a run that names none"
            )
        self._take(prepared)

    def _take(self, prepared: Prepared) -> None:
        # What tools have been found to be is kept with rules, so a text that is known stays the object that it is.
        current = {workflow: self._rules.get(one.digest, one) for workflow, one in prepared.rules.items()}
        self.texts.update(prepared.texts)
        for rules in current.values():
            self._rules.pop(rules.digest, None)
            self._rules[rules.digest] = rules  # the latest stand last
        self._current = current
        for digest in list(self._rules)[: -(KEPT + len(current))]:
            del self._rules[digest]
            self.texts.pop(digest, None)
