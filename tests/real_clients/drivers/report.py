# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN204, BLE001, PLC0415
"""What one client saw, as one JSON object on stdout. Runs in the client's own environment: standard library only.

It and the drivers beside it are not type-checked: each is written for packages that this environment does not have.
"""

import asyncio
import json
import sys
from contextlib import contextmanager
from importlib.metadata import version


def job():
    """What to do: {"target": {"url"} or {"command"}, "steps": {NAME: [tool, arguments]}, "mode": ...}."""
    return json.loads(sys.argv[1])


class Report:
    """The object, while it grows."""

    def __init__(self, distribution):
        self.seen = {"package": f"{distribution} {version(distribution)}", "steps": {}}
        self._step = {}

    @contextmanager
    def step(self, name):
        """One step: its result, or what it raised; and what came in meanwhile."""
        self._step = self.seen["steps"][name] = {}
        try:
            yield self._step
        except (Exception, asyncio.CancelledError) as error:
            self._step["raised"] = described(error)

    def note(self, kind, what):
        """Something that came in beside the answer: `progress`, `asked`, `logged`."""
        self._step.setdefault(kind, []).append(what)

    def tell(self):
        sys.stdout.write(json.dumps(self.seen, default=str, ensure_ascii=False) + "\n")


def described(error):
    """The error as the client's caller meets it; of a group, its one cause."""
    while len(getattr(error, "exceptions", ())) == 1:
        error = error.exceptions[0]
    inner = getattr(error, "error", None)
    told = {"type": type(error).__name__, "message": str(error)}
    for name in ("code", "data"):
        value = getattr(inner, name, None) if inner is not None else getattr(error, name, None)
        if isinstance(value, (int, dict)):
            told[name] = value
    return told


def dumped(model):
    """A pydantic model of any SDK, as it was on the wire."""
    return model.model_dump(by_alias=True, exclude_none=True, mode="json")


ACCEPTED = {"name": "Ada"}
"""What the user answers, whatever was asked."""


def run(main):
    """The driver, to its end; its report even if it broke."""
    import logging

    logging.disable(logging.CRITICAL)
    asyncio.run(main())
