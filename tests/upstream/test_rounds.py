"""The rounds of one call, driven for a client of the older era."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.model.tool import Answer, InputRequired, NotSent, ProtocolError, Silence, ToolResult
from gateway.outbound.upstream import rounds
from gateway.outbound.upstream.call import CANCELLED
from gateway.outbound.upstream.rounds import MAX_ROUNDS, drive
from gateway.outbound.upstream.wire import Ask
from tests.upstream.callers import FakeCaller
from tests.upstream.links import until

FORM = {"method": "elicitation/create", "params": {"message": "?", "vendor": 1.0}}
ROOTS = {"method": "roots/list"}
ASK = Ask("tools/call", {"name": "t", "arguments": {"a": 1.0}}, 5.0, meta={"m": 1})


def wants(state: str | None = None, /, **requests: Any) -> InputRequired:
    result: dict[str, Any] = {"resultType": "input_required"}
    if requests:
        result["inputRequests"] = requests
    return InputRequired({**result, "requestState": state} if state is not None else result)


class Server:
    """Answers each round as it is told, the last answer for ever."""

    def __init__(self, *answers: Answer, takes_s: float = 0.0) -> None:
        self.answers = list(answers)
        self.takes_s = takes_s
        self.rounds: list[Ask] = []

    async def __call__(self, ask: Ask) -> Answer:
        self.rounds.append(ask)
        await asyncio.sleep(self.takes_s)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def by_method(method: str, params: Any) -> Answer:
    return ToolResult({"to": method, "params": params})


async def test_each_round_has_the_params_of_the_first_and_the_answers_to_the_last() -> None:
    caller = FakeCaller(by_method)
    server = Server(wants("s1", a=FORM, b=ROOTS), wants(c=ROOTS), ToolResult({"x": 1.0}))
    assert await drive(ASK, caller, server) == ToolResult({"x": 1.0})
    first, second, third = (ask.params for ask in server.rounds)
    assert first == ASK.params
    assert second == {
        **ASK.params,
        "inputResponses": {
            "a": {"to": "elicitation/create", "params": FORM["params"]},
            "b": {"to": "roots/list", "params": {}},
        },
        "requestState": "s1",
    }
    assert third == {**ASK.params, "inputResponses": {"c": {"to": "roots/list", "params": {}}}}
    assert [ask.meta for ask in server.rounds] == [{"m": 1}] * 3


async def test_all_that_one_round_wants_is_asked_at_once() -> None:
    caller = FakeCaller(by_method, after_s=0.2)
    begun = asyncio.get_running_loop().time()
    server = Server(wants(None, **{str(number): ROOTS for number in range(20)}), ToolResult({}))
    assert await drive(ASK, caller, server) == ToolResult({})
    assert asyncio.get_running_loop().time() - begun < 1.5
    assert list(server.rounds[1].params["inputResponses"]) == [str(number) for number in range(20)]


async def test_of_a_call_whose_first_round_was_sent_nobody_can_say_that_it_was_not() -> None:
    caller = FakeCaller(by_method)
    assert await drive(ASK, caller, Server(NotSent("refused"))) == NotSent("refused")
    lost = Silence("its earlier rounds were sent, and the next one was not: refused")
    assert await drive(ASK, caller, Server(wants(a=ROOTS), NotSent("refused"))) == lost
    assert await drive(ASK, caller, Server(wants("s1"), NotSent("refused"))) == lost


async def test_a_decline_is_an_answer() -> None:
    caller = FakeCaller(lambda *_: ToolResult({"action": "decline"}))
    server = Server(wants(a=FORM), ToolResult({}))
    await drive(ASK, caller, server)
    assert server.rounds[1].params["inputResponses"] == {"a": {"action": "decline"}}


@pytest.mark.parametrize(
    ("refusal", "answer"),
    [
        (
            ProtocolError({"code": -1, "message": "no", "data": None}),
            ProtocolError({"code": -1, "message": "the client did not answer `elicitation/create`: no", "data": None}),
        ),
        (Silence("it is gone"), Silence("the client did not answer `elicitation/create`: it is gone")),
        (NotSent("no"), Silence("the client did not answer `elicitation/create`")),
    ],
)
async def test_an_answer_that_is_none_ends_the_call_and_withdraws_the_other_questions(
    refusal: Answer, answer: Answer
) -> None:
    class Half(FakeCaller):
        async def ask(self, method: str, params: Any, told: Any = None) -> Answer:
            return refusal if method == "elicitation/create" else await super().ask(method, params, told)

    caller = Half()
    server = Server(wants(a=ROOTS, b=FORM))
    assert await drive(ASK, caller, server) == answer
    await until(lambda: caller.given_up == 1)
    assert len(server.rounds) == 1


async def test_rounds_have_an_end() -> None:
    server = Server(wants("s", a=ROOTS))
    assert await drive(ASK, FakeCaller(by_method), server) == Silence("the upstream wanted input more than 10 times")
    assert len(server.rounds) == 1 + MAX_ROUNDS


async def test_a_round_that_wants_nothing_is_asked_again_after_a_growing_pause() -> None:
    pauses: Sequence[InputRequired] = [wants(f"s{number}") for number in range(4)]
    begun = asyncio.get_running_loop().time()
    server = Server(*pauses, ToolResult({}))
    assert await drive(ASK, FakeCaller(), server) == ToolResult({})
    assert asyncio.get_running_loop().time() - begun >= 0.05 + 0.1 + 0.2 + 0.4
    assert [ask.params.get("requestState") for ask in server.rounds] == [None, "s0", "s1", "s2", "s3"]
    assert "inputResponses" not in server.rounds[1].params


@pytest.mark.parametrize("requests", [[ROOTS], {"a": 1}, {"a": {"method": 1}}, {"a": {"method": "m", "params": []}}])
async def test_what_is_no_question_is_not_asked(requests: Any) -> None:
    caller = FakeCaller(by_method)
    server = Server(InputRequired({"inputRequests": requests}))
    assert await drive(ASK, caller, server) == Silence("the upstream wants input in a way that is not valid")
    assert caller.asked == []


async def test_the_time_of_the_client_is_not_that_of_the_call() -> None:
    ask = Ask("tools/call", {}, 0.5)
    server = Server(wants(a=ROOTS), ToolResult({}), takes_s=0.1)
    assert await drive(ask, FakeCaller(by_method, after_s=0.6), server) == ToolResult({})
    first, second = (sent.timeout_s for sent in server.rounds)
    assert first == 0.5
    assert 0.3 < second < 0.41
    slow = Server(wants(a=ROOTS), takes_s=0.3)
    assert await drive(ask, FakeCaller(by_method), slow) == Silence("no complete answer within 0.5 s")


async def test_a_client_that_cancels_between_rounds_ends_the_call() -> None:
    caller = FakeCaller()
    task = asyncio.get_running_loop().create_task(drive(ASK, caller, Server(wants(a=FORM, b=ROOTS))))
    await until(lambda: len(caller.asked) == 2)
    caller.withdrawal.say(cancelled=True)
    assert await task == CANCELLED
    await until(lambda: caller.given_up == 2)
    assert await drive(ASK, caller, Server(wants(a=FORM))) == CANCELLED


async def test_a_client_that_is_gone_is_no_client_that_cancelled() -> None:
    caller = FakeCaller(by_method, after_s=0.1)
    task = asyncio.get_running_loop().create_task(drive(ASK, caller, Server(wants(a=FORM), ToolResult({}))))
    await until(lambda: caller.asked)
    caller.withdrawal.say(cancelled=False)
    assert await task == ToolResult({})


async def test_a_client_that_thinks_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MAX_HELD_S", 0.05)
    assert await drive(ASK, FakeCaller(), Server(wants(a=FORM))) == Silence("the client gave no answer within 0.05 s")
