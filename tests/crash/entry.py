"""The real command, which kills itself at its nth passage through a port: `python -m tests.crash.entry ...`.

CRASH_AT is the number of that passage, from 0; CRASH_LOG a file that gets a line for each passage. The product knows
nothing of it: what the composition root takes from other modules is wrapped here, before the command runs.
"""

import inspect
import itertools
import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

from gateway import app, cli
from gateway.outbound.ledger import open_ledger
from gateway.runtime.book import Options
from gateway.runtime.engine import Engine

LEASE_S = 0.4
"""So that recovery need not be waited for."""

_numbers = itertools.count()
_AT = int(os.environ.get("CRASH_AT", "-1"))
_LOG = os.environ.get("CRASH_LOG")


def passes(where: str) -> None:
    """One passage more; at the last one this process is gone."""
    number = next(_numbers)
    if _LOG is not None:
        with open(_LOG, "a", encoding="utf-8") as log:  # noqa: PTH123 - as cheap as can be, at every passage
            log.write(f"{number} {where}\n")
    if number == _AT:
        os.kill(os.getpid(), signal.SIGKILL)


class Passed:
    """Any object: each of its coroutines is passed before and after."""

    def __init__(self, port: str, inner: object) -> None:
        self._port = port
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(found) or name in {"now", "close", "tracked", "closed", "log", "tool"}:
            return found

        async def passed(*args: Any, **kwargs: Any) -> Any:
            passes(f"before {self._port}.{name}")
            came = await found(*args, **kwargs)
            passes(f"after {self._port}.{name}")
            return came

        return passed


def install() -> None:
    """The composition root makes mortal things."""

    async def opened(url: str, **more: Any) -> Any:
        return Passed("ledger", await open_ledger(url, **more))

    def made(book: Any, upstreams: Any, *more: Any) -> Any:
        one: Any = Engine(book, Passed("upstream", upstreams), *more)
        one.delivered = told(one.delivered)
        return one

    def told(note: Callable[[Any], None]) -> Callable[[Any], None]:
        def noted(shown: Any) -> None:
            passes("after the answer was written")
            note(shown)

        return noted

    root: Any = app
    root.open_ledger, root.Engine, root.Options = opened, made, partial(Options, lease_s=LEASE_S)


if __name__ == "__main__":
    install()
    cli.main()
