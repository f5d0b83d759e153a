"""One step on its way through a writer, and how its caller is told what came of it. The same for every ledger."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

W = TypeVar("W")


@dataclass(slots=True, eq=False)
class Job(Generic[W]):
    """One step on its way through the writer, and what came of it."""

    work: W
    done: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


def settle(group: Sequence[Job[W]]) -> None:
    """Each caller that still waits has its result, or its error raised."""
    for job in group:
        if job.error is None:
            succeed(job.done, job.result)
        else:
            fail(job.done, job.error)


def succeed(future: asyncio.Future[Any], result: Any) -> None:
    """The result is there for whoever still waits."""
    if not future.done():  # its caller was cancelled
        future.set_result(result)


def fail(future: asyncio.Future[Any], error: Exception) -> None:
    """The error is raised for whoever still waits."""
    if not future.done():
        future.set_exception(error)
