"""What is inferred of a tool leans to caution, and says why."""

import pytest

from gateway.kernel.registry import registered
from gateway.model.events import Effect
from gateway.model.tool import Tool
from tests import world

HINTS = {"read": {"readOnlyHint": True}, "both": {"readOnlyHint": True, "destructiveHint": True}, "none": {}}


@pytest.mark.parametrize(
    ("name", "hints", "annotations", "effect"),
    [
        ("list_files", "read", "trust", Effect.READ),
        ("list_files", "read", "tighten", Effect.WRITE),
        ("list_files", "none", "trust", Effect.WRITE),
        ("list_files", "both", "trust", Effect.DESTRUCTIVE),
        ("deleteFile", "read", "trust", Effect.DESTRUCTIVE),
        ("execute_sql", "none", "trust", Effect.DESTRUCTIVE),
        ("d\u0435lete_file", "read", "trust", Effect.READ),
        ("d\u0435lete_file", "none", "trust", Effect.DESTRUCTIVE),
        ("git_reset", "none", "tighten", Effect.DESTRUCTIVE),
    ],
)
def test_an_effect_that_policy_does_not_say_is_inferred_towards_caution(
    name: str, hints: str, annotations: str, effect: Effect
) -> None:
    policy = world.policy(tools={}, annotations=annotations)
    found = registered(Tool(name, "s", name, {"name": name, "annotations": HINTS[hints]}), policy)
    assert (found.effect, found.inferred is None) == (effect, False)


def test_a_hint_that_is_not_believed_is_said_to_be_there() -> None:
    hints = {"readOnlyHint": True, "idempotentHint": True}
    tool = Tool("list_files", "s", "list_files", {"name": "list_files", "annotations": hints})
    found = registered(tool, world.policy(tools={}, annotations="tighten")).guesses
    assert found["effect"] == "the server claims readOnlyHint, and `annotations: tighten` does not believe it"
    assert found["idempotency"] == "the server claims idempotentHint, and `annotations: tighten` does not believe it"
