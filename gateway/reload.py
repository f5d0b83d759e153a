"""Policies are taken anew when their files change: all of them, and only if all is right; else the old ones stay.

A file that is being written says half of what it will say, and half of a policy may well be a policy: one without its
`forbid`. So a change is taken only when the files have looked the same for one whole look after it; `at_once` is for
whoever says that they are done.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from gateway.model.policy import Policy
from gateway.model.record import utc
from gateway.outbound.policy_files import CheckCondition, load_folder, load_policy
from gateway.outbound.watched import Looks, Watched
from gateway.ports import Clock
from gateway.runtime.cases import wrong_cases
from gateway.runtime.policies import Policies, Prepared

LOOK_S = 2.0
"""Between two looks."""

MAX_TOLD = 100
"""Lines of trouble; who has more has seen the first ones."""

_LOG = logging.getLogger("counterfoil.policies")

Load: TypeAlias = Callable[[Watched], Mapping[str, Policy]]
"""The policies, by workflow, from files of which each is read through what is given. Raises: ValueError."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the policies that are in force came from."""

    load: Load
    read: Watched
    """What was read for them."""


def first(load: Load) -> tuple[Mapping[str, Policy], Source]:
    """The policies to begin with, and where they will come from.

    Raises: ValueError.
    """
    read = Watched()
    return load(read), Source(load, read)


def load_from(path: Path, workflow: str | None, check: CheckCondition, watched: Watched) -> Mapping[str, Policy]:
    """The policies of a folder, or the one of a file."""
    if path.is_file():
        one = load_policy(path, check, watched)
        policies = {one.workflow: one}
    else:
        policies = load_folder(path, check, watched)
    _ = default_of(workflow, policies)
    return policies


def default_of(workflow: str | None, policies: Mapping[str, Policy]) -> str:
    """The workflow of a run that names none.

    Raises: ValueError if there is none, or none to choose.
    """
    default = workflow or next(iter(policies))
    if default not in policies or (workflow is None and len(policies) > 1):
        listed = ", ".join(f"`{name}`" for name in policies)
        lacks = f", and there is none that is named `{default}`" if default not in policies else ""
        raise ValueError(f"`workflow:` names the policy of a run that names none{lacks}; there are {listed}")
    return default


class Reload:
    """Keeps the policies as their files say. One for each process."""

    def __init__(
        self, source: Source | None, policies: Policies, clock: Clock, replaced: Callable[[], None] = lambda: None
    ) -> None:
        self._source = source
        self._replaced = replaced
        self._policies = policies
        self._clock = clock
        self._read = source.read if source is not None else Watched()
        self._unsettled: Looks | None = None
        """A change that the last look saw, and that may not be finished."""
        self._asked = asyncio.Event()
        self._taking = asyncio.Lock()
        self.loaded_at: datetime = utc(clock.now())
        self.trouble: tuple[str, ...] = ()
        """Why what the files say now is not in force; nothing if it is."""

    def at_once(self) -> None:
        """Somebody says that the files are as they shall be."""
        self._asked.set()

    async def keep(self) -> None:
        """Runs for ever: looks every two seconds, and at once when asked."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(
                    LOOK_S
                ):  # `wait_for` may lose a cancellation, and with it our end [CPython gh-86296]
                    await self._asked.wait()
            if self._asked.is_set():
                self._asked.clear()
                await self.take(asked=True)
            else:
                await self.look()

    async def look(self) -> None:
        """A change of the files is in force, or told, if it has stood since the last look."""
        looks = await asyncio.to_thread(self._read.again)
        if looks == self._read.looks:
            self._unsettled = None
        elif looks != self._unsettled:
            self._unsettled = looks
        else:
            await self.take()

    async def take(self, *, asked: bool = False) -> None:
        """What the files say is in force, or it is told why it is not. Never raises for what stands in them."""
        if self._source is None:
            return
        async with self._taking:
            self._unsettled = None
            self._read, prepared, trouble = await asyncio.to_thread(self._judged, self._source.load)
            before = self._policies.in_force()
            if prepared is not None:
                try:
                    self._policies.replace(prepared)
                except ValueError as error:
                    trouble = (str(error),)
            self._tell(before, trouble, asked=asked)

    def _judged(self, load: Load) -> tuple[Watched, Prepared | None, tuple[str, ...]]:
        """What was read, and either the policies or what is wrong with them. Has no effect, so any thread may do it."""
        read = Watched()
        try:
            prepared = self._policies.prepare(load(read))
            wrong = [
                f"{workflow}: case `{name}`: {why}"
                for workflow, rules in prepared.rules.items()
                for name, why in wrong_cases(rules).items()
            ]
        except ValueError as error:
            return read, None, tuple(str(error).split("\n"))
        except Exception as error:  # noqa: BLE001 - whatever it is, the policies that are in force must stay
            return read, None, (f"{type(error).__name__}: {error}",)
        return read, (None if wrong else prepared), tuple(wrong)

    def _tell(self, before: Mapping[str, str], trouble: tuple[str, ...], *, asked: bool) -> None:
        known, self.trouble = self.trouble, trouble
        now = self._policies.in_force()
        if trouble:
            if trouble != known or asked:
                for line in trouble[:MAX_TOLD]:
                    _LOG.warning("%s", line)
                _LOG.warning("the policies as their files are now are not in force; still in force: %s", _named(now))
            return
        self.loaded_at = utc(self._clock.now())
        if now != before:
            _LOG.info("taken anew; in force for new runs: %s", _named(now))
            self._replaced()
        elif known or asked:
            _LOG.info("the files say what is in force: %s", _named(now))

    def state(self) -> Mapping[str, Any]:
        """For whoever watches the gateway."""
        return {
            "in_force": self._policies.in_force(),
            "loaded_at": self.loaded_at.isoformat(timespec="seconds"),
            "trouble": list(self.trouble[:MAX_TOLD]),
        }


def _named(policies: Mapping[str, str]) -> str:
    return ", ".join(f"`{workflow}` {digest[:15]}" for workflow, digest in policies.items())
