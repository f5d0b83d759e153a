"""The six acts. Nothing is staged but the lost answer; what an act claims, it looks up outside the gateway first."""

from dataclasses import dataclass, field

import anyio

from gateway.cli.demo.stage import Broken, Stage
from gateway.cli.demo.world import CALL_S, Repository, Told, Window, World
from gateway.model.answer import Refusal
from gateway.model.events import Outcome

RELEASE = "Release 1.0"
CHANGELOG = "Add the changelog"
LOOKS = 20
"""More than any budget of the demo's policy; an agent that loops would not count at all."""


async def play(stage: Stage, world: World) -> str:
    """All six acts, and the id of the run in which they played.

    Raises: Broken for a claim that does not hold, TimeoutError for a wait that took too long.
    """
    world.repository.begin()
    async with world.window() as window:
        story = _Story(stage, world, world.repository, window)
        await story.reads_pass()
        await story.what_no_rule_allows_does_not_happen()
        await story.a_claim_is_not_a_fact()
        await story.a_lost_answer_does_not_run_twice()
        await story.a_budget_ends()
        await story.a_stopped_run_stays_stopped()
        return story.run


@dataclass(slots=True)
class _Story:
    stage: Stage
    world: World
    git: Repository
    window: Window
    run: str = field(default="", init=False)

    async def reads_pass(self) -> None:
        self.stage.act(1, "Reads pass", "The agent looks around. Nothing is in its way, and every step is on record.")
        told = await self._asks("git_status")
        self.stage.passed(told)
        self.run = told.record["run"]
        self.stage.note("run", self.run)
        waiting = self.git.uncommitted()
        self.stage.so(
            f"1 commit; {_and(waiting)} not committed yet",
            holds=self.git.commits() == ["Start"] and waiting == ["CHANGELOG.md", "app.py"] and "app.py" in told.text,
        )

    async def what_no_rule_allows_does_not_happen(self) -> None:
        self.stage.act(2, "What no rule allows does not happen", "It stages a file, and then would throw that away.")
        self.stage.passed(await self._asks("git_add", files=["app.py"]))
        denied = self._refused(await self._asks("git_reset"), Outcome.DENIED, executed=False)
        self.stage.refused(denied)
        self.stage.so("app.py is still staged", holds=self.git.staged() == ["app.py"])

    async def a_claim_is_not_a_fact(self) -> None:
        self.stage.act(3, "A claim is not a fact", "It commits the release, and forgets the changelog.")
        told = await self._asks("git_commit", message=RELEASE)
        failed = self._refused(told, Outcome.VERIFICATION_FAILED, executed=True)
        claim = await self.world.claim(failed.attempt or "")
        self.stage.checks("the tool claimed success", holds=claim.startswith("Changes committed successfully"))
        self.stage.note("tool", f"“{claim[:30]} …”, it claims")
        self.stage.refused(failed)
        self.stage.checks("the phase stayed", holds=failed.phase == "work")
        self.stage.so(
            "the commit is there, and CHANGELOG.md is not in it; the phase stays `work`",
            holds=self.git.commits() == [RELEASE, "Start"] and self.git.uncommitted() == ["CHANGELOG.md"],
        )

    async def a_lost_answer_does_not_run_twice(self) -> None:
        self.stage.act(4, "A lost answer does not run twice", "It commits the rest, and the answer is lost on the way.")
        self.stage.passed(await self._asks("git_add", files=["CHANGELOG.md"]))
        self.world.flag.touch()
        with self.stage.waits("the wire is silent"):
            told = await self._asks("git_commit", message=CHANGELOG)
        unknown = self._refused(told, Outcome.TIMEOUT_UNKNOWN, executed="unknown")
        self.stage.refused(unknown)
        await self._lost()

        self.stage.note("", "The agent tries again, as agents do.")
        self.stage.refused(self._held(await self._asks("git_commit", message=CHANGELOG)))
        self.stage.note("", "Then somebody opens a second window: another process, another run.")
        with self.stage.waits("it opens"):
            async with self.world.window() as second:
                told = await self._asks("git_commit", window=second, message=CHANGELOG)
        held = self._held(told)
        self.stage.refused(held)
        self.stage.checks("the second window has a run of its own", holds=held.run != self.run)
        self.stage.so(f"three calls, and one commit “{CHANGELOG}”", holds=self._added_once())
        await self._settled(unknown.attempt or "")

    async def _settled(self, attempt: str) -> None:
        self.stage.note("", "A person looks, and settles it.")
        self.stage.asks(f"counterfoil resolve {attempt} --happened", who="person")
        code, said = await self.world.settle(attempt, "it is in the git log")
        self.stage.checks(f"the person could settle it: {said}", holds=code == 0)
        told = await self._asks("git_commit", message=CHANGELOG)
        settled = self._refused(told, Outcome.HELD, executed=True)
        self.stage.refused(settled, advice=True)
        self.stage.so("still one such commit", holds=self._added_once())

    async def a_budget_ends(self) -> None:
        self.stage.act(5, "A budget ends", "The agent is lost, and looks at the log again, and again, and again.")
        told = await self._asks("git_log")
        for _ in range(LOOKS):
            if told.refusal is not None:
                break
            self.stage.passed(told)
            told = await self._asks("git_log")
        spent = self._refused(told, Outcome.BUDGET_EXHAUSTED, executed=False)
        self.stage.refused(spent, advice=True)
        self.stage.checks("the end is terminal", holds=spent.terminal and spent.budget.left == {"calls": 0})

    async def a_stopped_run_stays_stopped(self) -> None:
        self.stage.act(6, "A stopped run stays stopped", "Whatever it asks now, the answer is the same object.")
        first = self._refused(await self._asks("git_status"), Outcome.BUDGET_EXHAUSTED, executed=False)
        second = await self._asks("git_commit", message="One more thing")
        again = self._refused(second, Outcome.BUDGET_EXHAUSTED, executed=False)
        self.stage.refused(again)
        self.stage.so(
            "both answers are equal, but for the name of the tool",
            holds=first == again.model_copy(update={"tool": first.tool}) and again.terminal,
            label="compared",
        )
        self.stage.so("no commit has been added", holds=self.git.commits() == [CHANGELOG, RELEASE, "Start"])

    async def _asks(self, tool: str, *, window: Window | None = None, **arguments: object) -> Told:
        words = "".join(f" {_and(value) if isinstance(value, list) else f'“{value}”'}" for value in arguments.values())
        self.stage.asks(tool + words)
        return await (window or self.window).call(tool, arguments)

    def _refused(self, told: Told, outcome: Outcome, *, executed: bool | str) -> Refusal:
        got = told.refusal
        if got is None or got.outcome is not outcome or got.executed != executed:
            came = f"{got.outcome} (executed: {got.executed}): {got.reason}" if got else f"`{told.text}`"
            raise Broken(f"the gateway answers `{outcome}` (executed: {executed}), but it was {came}")
        self.stage.proven += 1
        return got

    def _held(self, told: Told) -> Refusal:
        return self._refused(told, Outcome.HELD, executed="unknown")

    async def _lost(self) -> None:
        """The server has done it, and its answer is gone. It may take its time, we do not wait for ever."""
        with anyio.move_on_after(CALL_S):
            while not self._added_once() or self.world.flag.exists():  # noqa: ASYNC110 - other processes; we can only look
                await anyio.sleep(0.05)
        lost = self._added_once() and not self.world.flag.exists()
        self.stage.so(f"“{CHANGELOG}” was committed all the same", holds=lost)

    def _added_once(self) -> bool:
        return self.git.commits().count(CHANGELOG) == 1


def _and(names: list[str]) -> str:
    return " and ".join(names)
