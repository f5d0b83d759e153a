"""The gateway's own tools: one table of name, arguments and answer.

They change nothing in the world, so no policy is asked about them and nothing is charged. What they are given is
checked as strictly as what a tool is: the schema that is listed and the check are one model.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.inbound.mcp.asking import Asking
from gateway.inbound.mcp.callers import LegacyCaller, ModernCaller
from gateway.inbound.mcp.holds import Holds
from gateway.inbound.mcp.identity import Runs
from gateway.inbound.mcp.ports import Gate, Offers
from gateway.model.answer import Shown
from gateway.model.canonical import canonical, dump
from gateway.model.finish import Finish, FinishAnswer
from gateway.model.plan import Note, Plan
from gateway.model.question import ApprovalAnswer, Question
from gateway.model.status import NoteAnswer, PlanAnswer, Status
from gateway.ports import NoSuchRun

RESULT = "gateway__result"
STATUS = "gateway__status"
PLAN = "gateway__plan"
NOTE = "gateway__note"
FINISH = "gateway__finish"
APPROVAL = "gateway__approval"

A = TypeVar("A", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class House:
    """What an own tool may ask to find its answer."""

    gate: Gate
    offers: Offers
    runs: Runs
    holds: Holds


Told = Shown | dict[str, Any]
"""What the gate shows, or a result that is complete."""


class BadArguments(Exception):
    """The arguments do not keep the tool's schema."""

    def __init__(self, violations: tuple[dict[str, str], ...]) -> None:
        super().__init__(f"{violations[0]['path']}: {violations[0]['expected']}")
        self.violations = violations
        """Each a `path` and what was `expected` there."""


@dataclass(frozen=True)
class OwnTool(Generic[A]):
    """A tool of the gateway's own."""

    name: str
    title: str
    description: str
    takes: type[A]
    """Its arguments."""
    answer: Callable[[House, Asking, A], Awaitable[Told]]
    """Raises: NoSuchRun, LedgerUnavailable."""
    gives: type[BaseModel] | None = None
    """Its structured result; None where that is another tool's."""
    writes: bool = False
    """Whether a call leaves something in the ledger."""

    @cached_property
    def definition(self) -> Mapping[str, Any]:
        """As it is listed."""
        hints = {"readOnlyHint": not self.writes, "idempotentHint": not self.writes, "openWorldHint": False}
        told: dict[str, Any] = {"name": self.name, "title": self.title, "description": self.description}
        told |= {"inputSchema": schema_of(self.takes)}
        told |= {} if self.gives is None else {"outputSchema": schema_of(self.gives)}
        return told | {"annotations": hints | ({"destructiveHint": False} if self.writes else {})}

    def read(self, arguments: Any) -> A:
        """The arguments of a call; nothing is coerced, and no other is known.

        Raises: BadArguments.
        """
        try:
            return self.takes.model_validate_json(canonical({} if arguments is None else arguments), strict=True)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            told = tuple({"path": _pointer(one["loc"]), "expected": _lower(one["msg"])} for one in found[:MAX_TOLD])
            raise BadArguments(told) from None


MAX_TOLD = 10
"""Of what is wrong with the arguments."""


def _pointer(place: tuple[int | str, ...]) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')[:64]}" for part in place) or "(root)"


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The model's JSON Schema without references: clients are known that follow none."""
    schema = model.model_json_schema()
    schema.pop("description", None)  # of the class, and the tool has one of its own
    told: dict[str, Any] = _inlined(schema, schema.pop("$defs", {}))
    return told


def _inlined(part: Any, known: Mapping[str, Any], *, named: bool = False) -> Any:
    """`named`: the keys of this part are names of properties, not words of JSON Schema."""
    if isinstance(part, list):
        return [_inlined(one, known) for one in part]
    if not isinstance(part, dict):
        return part
    if not named and isinstance(reference := part.get("$ref"), str):
        rest = {key: value for key, value in part.items() if key != "$ref"}
        return _inlined({**known[reference.rpartition("/")[2]], **rest}, known)
    words = {key: value for key, value in part.items() if named or key != "title" or not isinstance(value, str)}
    return {key: _inlined(value, known, named=key == "properties" and not named) for key, value in words.items()}


# --- what they take, and answer ---------------------------------------------------------------------------------------


class Taken(BaseModel):
    """Arguments of an own tool."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ResultArguments(Taken):
    """Which attempt."""

    attempt: str
    """`attempt` of that answer"""


async def _result(house: House, asking: Asking, arguments: ResultArguments) -> Told:
    caller = ModernCaller(asking) if asking.modern else LegacyCaller(asking)
    principal = asking.exchange.principal
    await house.gate.check_told(arguments.attempt, principal, house.runs.known(asking.exchange, asking.client))
    return await house.gate.outcome(arguments.attempt, principal, caller)


class StatusArguments(Taken):
    """From when on."""

    since: str = Field(default="", max_length=200)
    """`cursor` of an earlier answer: tells what happened since, too."""


async def _status(house: House, asking: Asking, arguments: StatusArguments) -> Told:
    exchange, token = asking.exchange, asking.exchange.token
    offered = await house.offers.listed("tools", asking.party)
    return await house.gate.claims.status(
        house.runs.known(exchange, asking.client),
        exchange.principal,
        workflow=token.workflow if token is not None else None,
        parent=token.parent if token is not None else None,
        offered=[str(one["name"]) for one in offered.items],
        party=asking.party,
        since=arguments.since or None,
        tool=STATUS,
    )


async def _plan(house: House, asking: Asking, plan: Plan) -> Told:
    run = await house.runs.run_of(asking.exchange, asking.client)
    return await house.gate.claims.plan(run, asking.exchange.principal, plan, PLAN)


async def _note(house: House, asking: Asking, note: Note) -> Told:
    run = await house.runs.run_of(asking.exchange, asking.client)
    return await house.gate.claims.note(run, asking.exchange.principal, note, NOTE)


async def _finish(house: House, asking: Asking, claim: Finish) -> Told:
    run = await house.runs.run_of(asking.exchange, asking.client)
    return await house.gate.finishing.finish(run, asking.exchange.principal, claim, asking.party, FINISH)


MAX_WAIT_S = 45.0
"""For an answer; clients are known that give up after 60 s."""


class ApprovalArguments(Taken):
    """Which question, and what is wanted of it."""

    approval: str = Field(max_length=200)
    """`id` of the `approval` in that answer"""
    wait_s: float = Field(default=0, ge=0, le=MAX_WAIT_S)
    """How many seconds you will wait for an answer"""
    withdraw: bool = False
    """Takes the question back: nobody is to answer it any more"""
    reason: str = Field(default="", max_length=500)
    """Why it is taken back"""


async def _approval(house: House, asking: Asking, arguments: ApprovalArguments) -> Told:
    exchange, questions, name = asking.exchange, house.gate.questions, arguments.approval
    question = await _asked(house, asking, name)
    if arguments.withdraw:
        await questions.withdraw(question, exchange.principal, arguments.reason)
        question = await questions.of(name, exchange.principal, question.told.run)
    elif question.awaits and arguments.wait_s:
        caller = ModernCaller(asking) if asking.modern else LegacyCaller(asking)
        within_s = min(arguments.wait_s, questions.patience_s(str(asking.party.client.get("name"))))
        question = (await house.holds.keep(asking, caller, question, within_s)).question
    said = question.told.model_dump(mode="json", exclude_none=True)
    result = {"content": [{"type": "text", "text": dump(said)}], "structuredContent": said}
    return Shown(question.told.run, result=result)


async def _asked(house: House, asking: Asking, name: str) -> Question:
    """The question: of the run that the client's authorization is for, else of this principal's, mostly of this run."""
    exchange, questions = asking.exchange, house.gate.questions
    if exchange.token is not None:
        return await questions.of(name, exchange.principal, exchange.token.run)
    run = house.runs.known(exchange, asking.client)
    if run is not None:
        with suppress(NoSuchRun):
            return await questions.of(name, exchange.principal, run)
    return await questions.of(name, exchange.principal, None)


OWN_TOOLS: Mapping[str, OwnTool[Any]] = {
    tool.name: tool
    for tool in (
        OwnTool(
            RESULT,
            "Outcome of a call",
            "The outcome of an earlier call that was answered with `in_flight`: what its tool answered, or "
            "`in_flight` again. Never makes the call again.",
            ResultArguments,
            _result,
        ),
        OwnTool(
            STATUS,
            "Where this task stands",
            "Where this task stands: its phase, what may be done now and what that needs, evidence held and missing, "
            "budgets left, what failed, what waits for a person. Charges nothing. With `since`, also what happened "
            "since then. Ask it before you choose the next step, and after anything unexpected.",
            StatusArguments,
            _status,
            gives=Status,
        ),
        OwnTool(
            PLAN,
            "Record a plan",
            "Records what you mean to do, in place of the plan before it. It grants nothing: every call is judged as "
            "without it. State assumptions that can be checked, and you are told when one turns out to be wrong.",
            Plan,
            _plan,
            gives=PlanAnswer,
            writes=True,
        ),
        OwnTool(
            NOTE,
            "Note a hypothesis",
            "Keeps a diagnosis, a reflection or a rationale as a hypothesis, with the events it rests on and how sure "
            "you are. `gateway__status` gives it back until it expires. It proves nothing and unlocks nothing.",
            Note,
            _note,
            gives=NoteAnswer,
            writes=True,
        ),
        OwnTool(
            FINISH,
            "Say that the task is done",
            "Says that this task is done, or that it cannot be. Evidence decides: checks that are missing are run now, "
            "and the answer is that the run is over, with its evidence, or exactly what it still lacks. Say it once "
            "the work is done, before you tell the user so.",
            Finish,
            _finish,
            gives=FinishAnswer,
            writes=True,
        ),
        OwnTool(
            APPROVAL,
            "Where an approval stands",
            "Where the question to a person stands that a call was answered `needs_approval` with: who has agreed, or "
            "what was decided and why, and what you may do now. Waits for the decision if you say how long. It never "
            "makes the call: once it is approved, repeat that unchanged. `withdraw` takes the question back.",
            ApprovalArguments,
            _approval,
            gives=ApprovalAnswer,
            writes=True,
        ),
    )
}
"""By name, in the order in which they are listed."""

OWN_DEFINITIONS = tuple(tool.definition for tool in OWN_TOOLS.values())
