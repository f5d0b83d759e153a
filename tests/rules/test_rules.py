"""Rules that users ask gateways for, each as a small policy that says where it was asked for.

Its own cases hold, both ways; and in the real engine agents and people come as far as `scenarios.py` says.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from gateway.kernel.rules import compile_rules
from gateway.model.answer import Shown
from gateway.model.canonical import digest
from gateway.model.events import Who
from gateway.model.policy import Policy
from gateway.model.principal import Parent, Principal
from gateway.model.review import Refused
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.outbound.policy_files import load_policy
from gateway.runtime.book import Book, Options
from gateway.runtime.cases import mismatch
from gateway.runtime.engine import Engine
from gateway.runtime.policies import Policies, condition_trouble
from tests import world
from tests.people import answer
from tests.rules.scenarios import RECORD, SCENARIOS, SENT, Call, Came, Opens, Says

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
FILES = {file.stem: file for file in sorted(HERE.glob("*.yaml"))}
POLICIES = {name: load_policy(file, condition_trouble) for name, file in FILES.items()}
SOURCE = re.compile(
    r"^# Asked for at (https://github\.com/([\w.-]+)/([\w.-]+)/(?:issues|pull)/[1-9]\d*)$", re.MULTILINE
)


def test_there_are_at_least_fifteen_and_each_is_played_through() -> None:
    assert len(FILES) >= 15
    assert set(FILES) == set(SCENARIOS)
    assert {name: policy.workflow for name, policy in POLICIES.items()} == {name: name for name in FILES}


@pytest.mark.parametrize("name", FILES)
def test_a_rule_says_where_somebody_asked_for_it(name: str) -> None:
    head = FILES[name].read_text().partition("\nworkflow:")[0]
    found = SOURCE.findall(head)
    assert len(found) == 1
    asked = [line for line in head.splitlines()[2:] if not line.startswith("# Asked for at")]
    assert len(" ".join(asked)) > 40, "what was asked for stands there in words"


def test_no_two_rules_have_one_source() -> None:
    sources = [SOURCE.findall(file.read_text())[0] for file in FILES.values()]
    assert len(set(sources)) == len(sources)


@pytest.mark.parametrize("name", FILES)
def test_the_cases_of_a_rule_hold_and_go_both_ways(name: str) -> None:
    policy = POLICIES[name]
    rules = compile_rules(policy, digest(policy.model_dump(mode="json", by_alias=True), b""))
    assert {case.name: found for case in policy.cases if (found := mismatch(rules, case)) is not None} == {}
    outcomes = {case.expect.outcome for case in policy.cases}
    assert "allowed" in outcomes
    assert len(outcomes) > 1
    cited = {case.expect.rule for case in policy.cases}
    named = {rule.name for rule in policy.transitions} | {rule.name for rule in policy.forbid}
    assert named <= cited


@pytest.mark.parametrize("name", FILES)
async def test_agents_and_people_come_as_far_as_the_rule_lets_them(name: str) -> None:
    async with playing(POLICIES[name], [step.tool for step in SCENARIOS[name] if isinstance(step, Call)]) as stage:
        for place, step in enumerate(SCENARIOS[name]):
            if isinstance(step, Call):
                assert await stage.call(step) == step.comes, (place, step)
            elif isinstance(step, Says):
                assert await stage.says(step) == step.comes, (place, step)
            else:
                await stage.opens(step)


class Stage:
    """The real engine over the memory ledger, with servers that say what they are told to."""

    def __init__(self, book: Book, engine: Engine, upstreams: world.ScriptedUpstreams, clock: world.ToldClock) -> None:
        self._book, self._engine, self._upstreams, self._clock = book, engine, upstreams, clock
        self._who: dict[str, Principal] = {}

    async def opens(self, step: Opens) -> None:
        self._who[step.run] = step.principal
        parent = None if step.parent is None else Parent(step.parent, frozenset(step.passes))
        await self._engine.open_run(
            run=step.run, principal=step.principal, origin="token", attribution={}, parent=parent
        )

    async def call(self, step: Call) -> Came:
        if step.when is not None:
            self._clock.seconds = step.when
        if step.answer is not None:
            self._upstreams.will(step.tool, step.answer)
        proposed = world.proposal(step.tool, step.arguments, run=step.run, principal=self._who[step.run])
        proposed = replace(proposed, arguments_digest=digest(dict(step.arguments), self._book.ledger.salt))
        before = len(self._upstreams.sent)
        with anyio.fail_after(5):
            shown = await self._engine.call(proposed, world.PatientCaller())
            self._engine.delivered(shown)
            await anyio.wait_all_tasks_blocked()
        return SENT if len(self._upstreams.sent) > before else _came(shown)

    async def says(self, step: Says) -> str:
        """The latest of what waits for a person is answered."""
        run = await self._book.state_of(step.run)
        asked = max(run.approvals.values(), key=lambda one: one.seq)
        by = Who(tenant="local", id=step.who, roles=("owner", "investigator"))
        try:
            await self._book.say(
                step.run,
                lambda state, _, now: [
                    answer(state, asked.id, asked.action, approve=step.yes, by=by, reason="", now=now)
                ],
            )
        except Refused:
            return "refused"
        return "taken"


def _came(shown: Shown) -> Came:
    if shown.refusal is None:
        return RECORD
    return str(shown.refusal.outcome), shown.refusal.policy.rule


@asynccontextmanager
async def playing(policy: Policy, tools: list[str]) -> AsyncIterator[Stage]:
    """A gateway under this policy, with a run that the user of this machine has opened."""
    ledger, clock, upstreams = MemoryLedger(), world.ToldClock(), world.ScriptedUpstreams()
    upstreams.offer(*(world.tool(name) for name in tools))
    policies = Policies(ledger, {policy.workflow: policy}, policy.workflow)
    book = Book(ledger, policies, clock, Options(owner="me", drain_s=0.1))
    engine = Engine(book, upstreams)
    stage = Stage(book, engine, upstreams, clock)
    try:
        await stage.opens(Opens("run_1"))
        yield stage
    finally:
        await engine.carrier.close()
