"""Looks, made in a word, and what they saw."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.kernel.evidence import judged
from gateway.model.policy import CommandLook, FileLook, HttpLook, SqlLook, Way
from gateway.model.record import utc
from gateway.outbound.looks import FolderPlace, Place, PlacedLooks
from gateway.ports import Answer, Look, NotSent, Silence, ToolResult
from tests import world

PYTHON = sys.executable
PYTEST = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", "report.xml"]

WAYS: Mapping[str, type[Way]] = {"command": CommandLook, "http": HttpLook, "sql": SqlLook, "file": FileLook}


async def look(
    kind: str, said: Mapping[str, Any], *places: Place, told: Mapping[str, Any] | None = None, timeout_s: float = 30.0
) -> Answer:
    """What a verifier sees that looks in this way."""
    named = {place.name: place for place in places}
    way = WAYS[kind].model_validate({"place": places[0].name, **said})
    return await PlacedLooks(named).look(Look(way, told or {}, timeout_s))


async def run(repo: Path, *words: str, timeout_s: float = 30.0, **said: Any) -> Answer:
    """What comes of the command in a copy of the folder."""
    return await look("command", {"run": words, **said}, FolderPlace("repo", repo), timeout_s=timeout_s)


async def python(repo: Path, code: str, timeout_s: float = 30.0, **said: Any) -> Answer:
    """What comes of the code."""
    return await run(repo, PYTHON, "-c", code, timeout_s=timeout_s, **said)


def seen(answer: Answer) -> dict[str, Any]:
    """What it saw; it did see."""
    assert isinstance(answer, ToolResult), answer
    return dict(answer.result)


def why(answer: Answer) -> str:
    """Why it saw nothing."""
    assert isinstance(answer, NotSent | Silence), answer
    return answer.reason


def verdict(rule: Mapping[str, Any], answer: Answer) -> tuple[str, str]:
    """What a verifier of that name says to what was seen."""
    rules = world.rules(verifiers={"it": dict(rule)})
    return judged("it", rules.policy.verifiers["it"], world.opened(rules), answer, {}, rules, utc(world.T0))
