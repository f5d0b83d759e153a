"""Whoever may only connect accounts finds nothing at the JSON API, and changes nothing there.

All operations are found in the table that makes them, so that nothing new goes untried.
"""

from typing import Any

import pytest

from gateway.inbound.console.api.routes import TABLE
from gateway.model.review import NO_QUESTION, Reviewer
from tests.console.reviewing import API, reviewing

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("everywhere", [False, True])
async def test_whoever_may_only_connect_accounts_finds_nothing_there_and_changes_nothing(everywhere: bool) -> None:  # noqa: FBT001
    guest = Reviewer("local", "guest", frozenset({"owner"}), "link", everywhere=everywhere, approval=NO_QUESTION)
    async with reviewing() as at, at.as_(guest) as client:
        name = await at.ask(5)
        one = {"action": await at.action_of(name), "decision": "approved"}
        bodies: dict[str, dict[str, Any]] = {
            "decide": one,
            "decideSeveral": {"answers": [{**one, "approval": name}]},
            "settleAttempt": {"what": "happened", "reason": "r"},
            "actOnRun": {"what": "stop", "reason": "r"},
            "throwSwitch": {"stops": "everything", "reason": "r"},
            "liftSwitch": {"what": "lift", "reason": "r"},
        }
        before = len(await at.it.ledger.log())
        for operation in TABLE:
            if operation.name == "watch":  # a stream, which ends when it likes
                continue
            for of in (name, "run_1", "1", "switches") if "{id}" in operation.path else ("",):
                path = f"{API}{operation.path.replace('{id}', of)}"
                get = operation.method == "GET"
                told = await (client.get(path) if get else client.post(path, json=bodies[operation.name]))
                assert told.status_code in ({200, 404} if get or operation.name == "decideSeveral" else {403, 404}), (
                    path
                )
                assert "pay" not in told.text
                assert '"done":{' not in told.text
        assert len(await at.it.ledger.log()) == before
