"""Tools and a prompt that ask the client for something before they answer.

Each is one pure function of what has been answered so far, which either asks again or is done. In the newer era the
client carries the rounds (`input_required`); with an older one we send our questions as requests, and carry them
ourselves. So every one of them works in both eras.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from mcp import types
from mcp.shared.message import ServerMessageMetadata
from pydantic import ConfigDict, TypeAdapter

from tests.servers.conformance.wire import MODERN, Asked, Json, Tool, declared, require, result, said, schema

Talk: TypeAlias = Callable[[Json, Json, str | None], Json]
"""(arguments, answers, state) -> a result, or more questions."""

MAX_ROUNDS = 10
"""As many as the drivers of the SDKs go along with."""
NEEDS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}

REQUEST: TypeAdapter[types.ServerRequest] = TypeAdapter(types.ServerRequest)


class Answer(types.Result):
    """Whatever the client answered."""

    model_config = ConfigDict(extra="allow")


def form(message: str, requested: Json) -> Json:
    """A question for a person."""
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": requested}}


def sample(prompt: str, max_tokens: int = 100) -> Json:
    """A question for the client's model."""
    messages = [{"role": "user", "content": said(prompt)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": max_tokens}}


def roots() -> Json:
    """A question for the client's roots."""
    return {"method": "roots/list", "params": {}}


def questions(asks: Json, state: str | None = None) -> Json:
    """The result that is no result yet."""
    return {"resultType": "input_required", "inputRequests": asks} | ({} if state is None else {"requestState": state})


def filled(answer: Any, field: str, otherwise: str = "nobody") -> Any:
    """What a person wrote into the field of a form, if they sent it off."""
    content = answer.get("content") if isinstance(answer, dict) and answer.get("action") == "accept" else None
    return content.get(field, otherwise) if isinstance(content, dict) else otherwise


async def talked(asked: Asked, arguments: Json, talk: Talk) -> Json:
    """The end of the talk or, in the newer era, its next round."""
    params = asked.params or {}
    answer = talk(arguments, params.get("inputResponses") or {}, params.get("requestState"))
    for _ in range(MAX_ROUNDS):
        if answer.get("resultType") != "input_required":
            return answer
        asks = answer["inputRequests"]
        require(asked, {NEEDS[ask["method"]]: {} for ask in asks.values()})
        if asked.protocol_version == MODERN:
            return answer
        answers = {key: await _put(asked, ask) for key, ask in asks.items()}
        answer = talk(arguments, answers, answer.get("requestState"))
    return result(said("this talk has no end"), isError=True)


async def _put(asked: Asked, ask: Json) -> Json:
    way = ServerMessageMetadata(related_request_id=asked.request_id)
    answer = await asked.session.send_request(REQUEST.validate_python(ask), Answer, metadata=way)
    return answer.model_dump(by_alias=True, exclude_none=True)


# --- the talks ------------------------------------------------------------------------------------------------------

NAME = schema(name={"type": "string"})
OK = schema(ok={"type": "boolean"})

DEFAULTS = schema(
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)

ENUMS = schema(
    untitledSingle={"type": "string", "enum": ["option1", "option2", "option3"]},
    titledSingle={
        "type": "string",
        "oneOf": [{"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(["First", "Second"], 1)],
    },
    legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    untitledMulti={"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
    titledMulti={
        "type": "array",
        "items": {"anyOf": [{"const": f"value{n}", "title": f"Choice {n}"} for n in range(1, 4)]},
    },
)


def sampling(arguments: Json, answers: Json, _: str | None) -> Json:
    if "answer" not in answers:
        return questions({"answer": sample(arguments["prompt"])})
    return result(said(f"LLM response: {answers['answer']['content'].get('text')}"))


def elicitation(requested: Json, words: str) -> Talk:
    def talk(arguments: Json, answers: Json, _: str | None) -> Json:
        if "answer" not in answers:
            return questions({"answer": form(arguments.get("message", "Please fill this in"), requested)})
        answer = answers["answer"]
        content = json.dumps(answer.get("content") or {})
        return result(said(f"{words}: action={answer.get('action')}, content={content}"))

    return talk


def greeting(_: Json, answers: Json, __: str | None) -> Json:
    if "user_name" not in answers:
        return questions({"user_name": form("What is your name?", NAME)})
    return result(said(f"Hello, {filled(answers['user_name'], 'name')}!"))


def capital(_: Json, answers: Json, __: str | None) -> Json:
    if "capital_question" not in answers:
        return questions({"capital_question": sample("What is the capital of France?")})
    return result(said(f"The model says: {answers['capital_question']['content'].get('text')}"))


def list_roots(_: Json, answers: Json, __: str | None) -> Json:
    if "client_roots" not in answers:
        return questions({"client_roots": roots()})
    return result(said("Roots: " + ", ".join(root["uri"] for root in answers["client_roots"]["roots"])))


def confirmed(state: str) -> Talk:
    """A talk that ends only with the very state that it began with."""

    def talk(_: Json, answers: Json, came: str | None) -> Json:
        if "confirm" not in answers or came != state:
            return questions({"confirm": form("Please confirm", OK)}, state)
        return result(said("state-ok"))

    return talk


def all_at_once(_: Json, answers: Json, state: str | None) -> Json:
    asks = {
        "user_name": form("What is your name?", NAME),
        "greeting": sample("Generate a greeting", 50),
        "client_roots": roots(),
    }
    if state != "all" or not asks.keys() <= answers.keys():
        return questions(asks, "all")
    return result(said(f"{filled(answers['user_name'], 'name')}, you have answered everything"))


def two_steps(_: Json, answers: Json, state: str | None) -> Json:
    known = json.loads(state or "{}")
    if known.get("step") == 1 and "step1" in answers:
        ask = form("Step 2: What is your favorite color?", schema(color={"type": "string"}))
        return questions({"step2": ask}, json.dumps({"step": 2, "name": filled(answers["step1"], "name")}))
    if known.get("step") == 2 and "step2" in answers:
        return result(said(f"{known['name']} likes {filled(answers['step2'], 'color', 'no color')}"))
    return questions({"step1": form("Step 1: What is your name?", NAME)}, json.dumps({"step": 1}))


async def what_you_can(asked: Asked, arguments: Json) -> Json:
    """Asks for each kind that the client declared, and for no other."""
    every = {"elicitation": form("Anything to say?", NAME), "sampling": sample("Say hello", 50), "roots": roots()}
    asks = {kind: ask for kind, ask in every.items() if kind in declared(asked)}

    def talk(_: Json, answers: Json, __: str | None) -> Json:
        if asks.keys() <= answers.keys():
            return result(said(f"answered: {', '.join(asks) or 'nothing, since you can do nothing'}"))
        return questions(asks, "what-you-can")

    return await talked(asked, arguments, talk)


def context_prompt(_: Json, answers: Json, __: str | None) -> Json:
    if "user_context" not in answers:
        ask = form("What context should the prompt use?", schema(context={"type": "string"}))
        return questions({"user_context": ask})
    text = f"Mind this: {filled(answers['user_context'], 'context')}"
    return {"messages": [{"role": "user", "content": said(text)}]}


def _tool(description: str, talk: Talk, arguments: Json | None = None) -> Tool:
    def run(asked: Asked, given: Json) -> Awaitable[Json]:
        return talked(asked, given, talk)

    return Tool(description, run, arguments or schema())


TOOLS = {
    "test_sampling": _tool("Asks your model", sampling, schema(prompt={"type": "string"})),
    "test_elicitation": _tool(
        "Asks you",
        elicitation(schema(username={"type": "string"}, email={"type": "string"}), "User response"),
        schema(message={"type": "string"}),
    ),
    "test_elicitation_sep1034_defaults": _tool(
        "Asks with a default for each kind of value", elicitation(DEFAULTS, "Elicitation completed")
    ),
    "test_elicitation_sep1330_enums": _tool(
        "Asks with each way to say an enum", elicitation(ENUMS, "Elicitation completed")
    ),
    "test_streaming_elicitation": _tool("Asks you, on the stream of its answer", greeting),
    "test_input_required_result_elicitation": _tool("Greets you by name", greeting),
    "test_input_required_result_sampling": _tool("Asks your model for a capital", capital),
    "test_input_required_result_list_roots": _tool("Asks for your roots", list_roots),
    "test_input_required_result_request_state": _tool("Must get its state back", confirmed("a-state")),
    "test_input_required_result_tampered_state": _tool("Refuses a state that was changed", confirmed("b-state")),
    "test_input_required_result_multiple_inputs": _tool("Asks three things at once", all_at_once),
    "test_input_required_result_multi_round": _tool("Asks twice, one after the other", two_steps),
    "test_input_required_result_capabilities": Tool("Asks for what you can do", what_you_can, schema()),
}
