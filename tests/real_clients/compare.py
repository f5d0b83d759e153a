"""What a client saw otherwise through the gateway than directly, less the written differences."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

CACHING = {"ttlMs", "cacheScope", "resultType"}
"""The gateway answers lists itself, in the client's era: what it says about caching is its own."""
IDENTITY = {"server", "package"}
"""The gateway says who it is; a client is compared with itself."""
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
OWN_META = "counterfoil/"
OWN_TOOL = "gateway__"
SEALED = "(a state)"
"""What the server lets the client carry is sealed by the gateway; that there is one is compared."""
TASKS = "io.modelcontextprotocol/tasks"
CHANGES = {"listChanged", "subscribe"}
"""Notifications that the gateway can make of its own may be declared by it, beyond what the server declares."""

REFUSED = "refused"
"""The step whose call policy refuses."""

Difference = tuple[str, Any, Any]
MISSING = "(nothing)"


def told(seen: Any) -> Any:
    """What was seen without the written differences."""
    match seen:
        case Mapping():
            kept = {key: told(value) for key, value in seen.items() if key not in IDENTITY | CACHING | {"_meta"}}
            sealed = {"requestState": SEALED} if "requestState" in seen else {}
            return {**kept, **sealed, **_meta(seen.get("_meta"))}
        case str():
            return seen
        case Sequence():
            return [told(one) for one in seen if not _own_tool(one)]
        case other:
            return other


def differences(direct: Any, through: Any, where: str = "") -> Iterator[Difference]:
    """Where, what was seen directly, what through the gateway."""
    match direct, through:
        case Mapping(), Mapping():
            for key in sorted({*direct, *through}):
                yield from differences(
                    direct.get(key, MISSING), through.get(key, MISSING), f"{where}.{key}".lstrip(".")
                )
        case (list(), list()) if len(direct) == len(through):
            for index, (one, other) in enumerate(zip(direct, through, strict=True)):
                yield from differences(one, other, f"{where}[{index}]")
        case (list(), list()) if all(isinstance(one, Mapping) and "name" in one for one in [*direct, *through]):
            yield f"{where}[].name", [one["name"] for one in direct], [one["name"] for one in through]
        case _ if direct != through or type(direct) is not type(through):
            yield where, direct, through
        case _:
            pass


def compared(direct: Mapping[str, Any], through: Mapping[str, Any]) -> list[Difference]:
    """All that is told otherwise, where the gateway has no right to."""
    return [one for one in differences(told(direct), told(through)) if not _allowed(*one)]


def refusal(seen: Mapping[str, Any]) -> str:
    """What the client was told of the call that policy refuses, whichever way it shows it."""
    return json.dumps(seen["steps"].get(REFUSED, {}))


def _meta(meta: Any) -> dict[str, Any]:
    if not isinstance(meta, Mapping):
        return {}
    kept = {key: value for key, value in meta.items() if key != SERVER_INFO and not key.startswith(OWN_META)}
    return {"_meta": kept} if kept else {}


def _own_tool(one: Any) -> bool:
    name = one.get("name") if isinstance(one, Mapping) else one[0] if isinstance(one, list) and one else None
    return isinstance(name, str) and name.startswith(OWN_TOOL)


def _allowed(where: str, direct: Any, through: Any) -> bool:
    match where.split("."):
        case ["steps", name, *_] if name == REFUSED:
            return True  # the verdict is what the gateway is for
        case ["instructions"]:
            return str(direct) in {"None", MISSING} or str(direct) in str(through)  # its own come before the server's
        case ["protocol"]:
            return str(through) > str(direct)  # it offers an older server in the newer era as well
        case ["capabilities", "tasks"]:
            # Of 2025-11-25, which the SDK cannot serve; the extension of 2026-07-28 is another.
            return bool(through == MISSING)
        case ["capabilities", "extensions"]:
            return bool(
                direct == MISSING and through == {TASKS: {}}
            )  # calls that outlast a client's patience become tasks
        case ["capabilities", "experimental"]:
            return bool(direct == {})  # says nothing
        case ["capabilities", _, declared]:
            return declared in CHANGES and direct is not True and through is True
        case _:
            return False
