"""A call that waits for a person is made for who would be let in when it is made, with no more than they have then."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from gateway.inbound.mcp.doorkeeper import Doorkeeper
from gateway.outbound.agent_keys import LOOK_S, AgentKeys, KeyEntry, new_key
from tests.agents.asking import Front, Told
from tests.inbound.desk import Desk, desk
from tests.inbound.fake_gate import T0, ToldClock
from tests.inbound.served import ENVELOPE, MODERN

pytestmark = pytest.mark.anyio

WHO = {"principal": "ci", "tenant": "local", "scopes": ()}


@dataclass
class Keys:
    """A file with one key."""

    file: Path
    clock: ToldClock
    text: str
    entry: KeyEntry

    def say(self, *entries: KeyEntry) -> None:
        """The file names these now, and the gateway looks at it when it is next asked."""
        self.file.write_text(json.dumps({"keys": [one.model_dump(mode="json") for one in entries]}))
        self.clock.tell(2 * LOOK_S)


def keys(folder: Path) -> Keys:
    made = new_key(id_="ci-1", expires=T0 + 3600, roles=("writer",), **WHO)  # type: ignore[arg-type]
    one = Keys(folder / "keys.yaml", ToldClock(), made.text, made.entry)
    one.say(made.entry)
    return one


def front(it: Desk, shown: Keys) -> Front:
    file = AgentKeys(shown.file, shown.clock.monotonic)
    return Front(Doorkeeper(run_key=None, now=lambda: T0, anonymous=False, keys=file), it.it.relay, it.engine.delivered)


def asks(at: Front, shown: Keys) -> "asyncio.Task[Told]":
    params = {"name": "write", "arguments": {"text": "a"}, "_meta": {**ENVELOPE, "progressToken": "p"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "write"}
    shows = {"authorization": f"Bearer {shown.text}"}
    return asyncio.ensure_future(at.send({**headers, **shows}, json.dumps(body).encode()))


def outcome(told: Told) -> str:
    text = told.body.decode().rpartition("data: ")[2]
    result = json.loads(text)["result"]
    return str(result["structuredContent"]["outcome"]) if result.get("isError") else "result"


@pytest.mark.parametrize("meanwhile", ["nothing", "revoked", "another's"])
async def test_a_call_that_waited_is_not_made_for_whom_nobody_lets_in_any_more(tmp_path: Path, meanwhile: str) -> None:
    shown = keys(tmp_path)
    async with desk(hold_s=30.0, patience_s=60.0) as it:
        work = asks(front(it, shown), shown)
        await it.held()
        if meanwhile == "revoked":
            shown.say()
        elif meanwhile == "another's":
            shown.say(shown.entry.model_copy(update={"principal": "bob"}))
        await it.decide((await it.asked())[0])
        with anyio.fail_after(5):
            assert outcome(await work) == ("result" if meanwhile == "nothing" else "needs_approval")
        assert it.sent == ([{"text": "a"}] if meanwhile == "nothing" else [])


@pytest.mark.parametrize(("roles", "told"), [(("writer", "x"), "result"), (("reader",), "denied")])
async def test_a_call_that_waited_is_judged_by_the_roles_that_its_principal_has_now(
    tmp_path: Path, roles: tuple[str, ...], told: str
) -> None:
    shown = keys(tmp_path)
    rules = {
        "grants": [{"roles": ["writer"], "authority": ["w"]}],
        "tools": {"write": {"effect": "write", "permissions": ["w"]}},
    }
    async with desk(rules=rules, hold_s=30.0, patience_s=60.0) as it:
        work = asks(front(it, shown), shown)
        await it.held()
        shown.say(shown.entry.model_copy(update={"roles": roles}))
        await it.decide((await it.asked())[0])
        with anyio.fail_after(5):
            assert outcome(await work) == told
        assert len(it.sent) == (told == "result")
