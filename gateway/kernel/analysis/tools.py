"""The registry: entries that nothing uses, and what they say of their tools that should be looked at twice."""

import re
from collections.abc import Iterator, Mapping

from gateway.kernel.analysis.expressions import paths
from gateway.kernel.analysis.facts import Facts
from gateway.kernel.analysis.found import Found
from gateway.kernel.analysis.patterns import any_meets, contains
from gateway.kernel.globs import names
from gateway.model.events import Effect
from gateway.model.flaws import EXPRESSIONS, Place, texts
from gateway.model.policy import Compensation, Policy, ToolRule

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_LOOKING = frozenset(
    {
        "get", "list", "read", "show", "find", "search", "count", "describe", "view", "fetch", "check", "query",
        "diff", "log", "status", "is", "has", "can", "preview", "plan", "explain", "select", "validate", "lint",
    }
)  # fmt: skip
"""A name that begins so only looks, whatever follows: `list_deleted_files`."""

_RUNNING = frozenset({"exec", "execute", "eval", "shell", "bash", "sql", "force", "reset", "resets", "discard"})
"""Words that the registry counts as destructive because anything might be run; an author knows better."""

_PAYING = frozenset(
    {
        "pay", "pays", "payment", "payments", "payout", "transfer", "refund", "charge", "purchase", "buy", "invoice",
        "send", "mail", "email", "sms", "publish", "notify",
    }
)  # fmt: skip
"""What nobody wants twice: money, and messages to people."""


def registry(facts: Facts) -> Iterator[Found]:
    """What is wrong with registry entries."""
    policy = facts.policy
    used = list(_used(policy))
    earlier: list[str] = []
    for pattern, rule in policy.tools.items():
        place = ("tools", pattern)
        over = [one for one in earlier if contains(one, pattern)]
        earlier.append(pattern)
        if over:
            yield Found(
                "tool-shadowed",
                place,
                f"`{pattern}` never counts: `{over[0]}` stands before it and names all its tools",
                "move it before that one, or remove it",
                in_key=True,
                related=(("tools", over[0]),),
            )
        elif not any_meets(used, pattern):
            yield Found(
                "tool-unnamed",
                place,
                f"no transition, forbid rule or probe names a tool that is named like `{pattern}`",
                "name it in a transition, or remove the entry: what no transition names is denied",
                in_key=True,
            )
        yield from _said(facts, pattern, rule)
        if rule.compensation is not None:
            yield from _compensation(policy, (*place, "compensation"), rule.compensation)
    for at, transition in enumerate(policy.transitions):
        if transition.compensation is not None:
            yield from _compensation(policy, ("transitions", at, "compensation"), transition.compensation)


def _used(policy: Policy) -> Iterator[str]:
    for transition in policy.transitions:
        yield from transition.tools
        if transition.compensation is not None:
            yield transition.compensation.tool
    for forbid in policy.forbid:
        if forbid.tools != ("*",):
            yield from forbid.tools  # one that is about every tool names none
    for verifier in policy.verifiers.values():
        if verifier.probe is not None:
            yield verifier.probe.tool
    for rule in policy.tools.values():
        if rule.compensation is not None:
            yield rule.compensation.tool
        if rule.idempotency is not None and rule.idempotency.query is not None:
            yield rule.idempotency.query.probe.tool


def _said(facts: Facts, pattern: str, rule: ToolRule) -> Iterator[Found]:
    place = ("tools", pattern)
    words = [word.lower() for word in _WORD.findall(pattern.partition("__")[2] or pattern)]
    destroys = facts.destructive_word(pattern)
    if rule.effect is Effect.READ and destroys is not None and _plainly(words, destroys):
        yield Found(
            "tool-read-destroys",
            (*place, "effect"),
            f"`{pattern}` counts as a read, and {destroys}",
            "say `effect: destructive`; what is a read may be sent again without being asked about",
        )
    destructive = rule.effect is Effect.DESTRUCTIVE or (rule.effect is None and destroys is not None)
    if rule.repeat == "new" and destructive:
        yield Found(
            "tool-destroys-twice",
            (*place, "repeat"),
            f"`{pattern}` is destructive, and equal calls of it may overlap",
            "say `repeat: hold`, so that an equal call waits for the first",
        )
    blind = rule.idempotency is None or rule.idempotency.kind == "none"
    if _PAYING & set(words) and rule.effect is not Effect.READ and blind and _writes(facts, pattern):
        yield Found(
            "tool-repeats-blindly",
            place,
            f"if an answer of `{pattern}` is lost, only a person can find out whether it happened",
            "say under `idempotency` where the server takes a key, or how it can be asked",
            in_key=True,
        )


def _writes(facts: Facts, pattern: str) -> bool:
    return Effect.READ not in facts.cells(pattern)[0].effects


def _plainly(words: list[str], destroys: str) -> bool:
    return bool(words) and words[0] not in _LOOKING and not any(f"`{word}`" in destroys for word in _RUNNING)


def _compensation(policy: Policy, place: Place, compensation: Compensation) -> Iterator[Found]:
    known = [*policy.tools, *(pattern for transition in policy.transitions for pattern in transition.tools)]
    if not any(names(pattern, compensation.tool) for pattern in known):
        yield Found(
            "compensation-unknown",
            (*place, "tool"),
            f"nothing in this policy names the tool `{compensation.tool}`, so the call that undoes it is denied",
            "name it in a transition, and in the registry",
        )


def pins(facts: Facts) -> Iterator[Found]:
    """Tools that a transition names, and that are withheld because they are not pinned."""
    policy = facts.policy
    if policy.unpinned == "allow":
        return
    for place, transition in enumerate(policy.transitions):
        for at, name in enumerate(transition.tools):
            if "*" not in name and name not in policy.pins:
                yield Found(
                    "tool-unpinned",
                    ("transitions", place, "tools", at),
                    f"`{name}` is withheld, for it is not pinned",
                    "pin it with `counterfoil pin`, or say `unpinned: allow`",
                )
    for name, verifier in policy.verifiers.items():
        if verifier.probe is not None and verifier.probe.tool not in policy.pins:
            yield Found(
                "tool-unpinned",
                ("verifiers", name, "probe", "tool"),
                f"`{name}` never checks anything: `{verifier.probe.tool}` is withheld, for it is not pinned",
                "pin it with `counterfoil pin`, or say `unpinned: allow`",
            )


def grants(facts: Facts) -> Iterator[Found]:
    """Authority that nothing needs."""
    policy = facts.policy
    if reads_authority(facts):
        return
    needed = {name for transition in policy.transitions for name in transition.authority}
    needed |= {name for rule in policy.tools.values() for name in rule.permissions}
    delegated = {name for case in policy.cases for name in case.given.delegated or ()}
    for place, grant in enumerate(policy.grants):
        for at, name in enumerate(grant.authority):
            if name not in needed | delegated:
                yield Found(
                    "grant-unneeded",
                    ("grants", place, "authority", at),
                    f"nothing needs the authority `{name}`",
                    "ask for it in a transition's `authority` or a tool's `permissions`, or remove it",
                )


def reads_authority(facts: Facts) -> bool:
    """Whether a condition looks at what a principal may do."""
    expressions = (text for pattern in EXPRESSIONS for _, text in texts(facts.written, pattern))
    return any(path[:2] == ("principal", "authority") for text in expressions for path, _, _ in paths(text))


def cases(facts: Facts) -> Iterator[Found]:
    """Rules that no case decides, and cases about tools that no rule names."""
    policy = facts.policy
    if not policy.cases:
        yield Found(
            "no-cases",
            ("workflow",),
            f"the policy `{policy.workflow}` has no test of its own",
            "add `cases`: a call in a state, and the verdict that you expect",
            in_key=True,
        )
        return
    yield from _untested(facts)
    patterns = {pattern for transition in policy.transitions for pattern in transition.tools}
    patterns |= {pattern for forbid in policy.forbid for pattern in forbid.tools}
    for place, case in enumerate(policy.cases):
        named = any(names(pattern, case.call.tool) for pattern in patterns)
        expected = case.expect.rule is not None or case.expect.check is not None or case.expect.would_refuse is not None
        if not named and not expected:
            yield Found(
                "case-tool-unnamed",
                ("cases", place, "call", "tool"),
                f"no rule names the tool `{case.call.tool}`",
                "correct its name; or, if that is what the case is about, expect `rule: default-deny`",
            )


def _untested(facts: Facts) -> Iterator[Found]:
    policy = facts.policy
    cited = {case.expect.rule for case in policy.cases}
    silent = [case for case in policy.cases if case.expect.rule is None]
    rules: Mapping[Place, tuple[str, tuple[str, ...]]] = {
        **{
            ("transitions", at): (one.name, one.tools)
            for at, one in enumerate(policy.transitions)
            if at not in facts.why  # of those more is said already
        },
        **{("forbid", at): (one.name, one.tools) for at, one in enumerate(policy.forbid)},
    }
    for place, (name, patterns) in rules.items():
        perhaps = any(names(pattern, case.call.tool) for case in silent for pattern in patterns)
        if name not in cited and not perhaps:
            yield Found(
                "rule-untested",
                (*place, "name"),
                f"no case is decided by `{name}`",
                f"add a case that expects `rule: {name}`",
            )
