"""A whole run on one page that needs nothing else: no script, no address, its styles in it. As safe to open as text.

It shares templates, words and styles with the console's own page of a run.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from gateway.inbound.console.pages.lanes import lanes
from gateway.inbound.console.pages.site import environment
from gateway.inbound.console.pages.steps import steps_of
from gateway.inbound.told.asked import Asked, asked_in
from gateway.inbound.told.drawing import as_svg, drawing, path_of
from gateway.inbound.told.drawing.svg import STYLE
from gateway.inbound.told.words import amount, size, spell
from gateway.model.costs import Costs
from gateway.model.policy import UNITS, Policy
from gateway.runtime.story import Part

ROOM = 2_000_000
"""Characters of arguments on the page; at most a thousand of each step."""
TROUBLES = 30
"""Steps that are named before the timeline."""
_HERE = files("gateway.inbound.console.pages").joinpath("static")


@dataclass(frozen=True, slots=True)
class Reported:
    """What a report is made of."""

    part: Part
    """With all steps of the run."""
    policy: Policy | None
    """None where the ledger has no text of it that this version can read."""
    costs: Costs
    totals: Sequence[str]
    waits: Sequence[tuple[str, str]]
    """What waits for a person: its name and its tool."""
    where: str
    """What a command must say to find this ledger."""
    now: datetime


def report(told: Reported) -> str:
    """The page."""
    story, run = told.part.story, told.part.story.run
    steps, asked = steps_of(story, told.part.steps, room=ROOM, citing=True), asked_in(story.records)
    style = "".join(_HERE.joinpath(name).read_text("utf-8") for name in ("console.css", "report.css"))
    path, stop = path_of(story.records), next((one for one in steps if one.record.event.kind == "run.stopped"), None)
    troubles = [one for one in steps if one.trouble and (stop is None or one.row.step < stop.row.step)]
    values: dict[str, Any] = {
        "run": run,
        "last": max((record.at for record in story.records), default=told.now),
        "records": story.records,
        "steps": steps,
        "troubles": troubles[:TROUBLES],
        "more_troubles": max(0, len(troubles) - TROUBLES),
        "after_the_end": 0 if stop is None else sum(one.row.step > stop.row.step and one.trouble for one in steps),
        "lanes": lanes(story.records, asked) if story.records else None,
        "people": asked,
        "waiting": _waiting(asked),
        "picture": None if told.policy is None else Markup(as_svg(drawing(told.policy), path)),  # noqa: S704 - escaped there
        "path": path,
        "budgets": _budgets(told),
        "costs": told.costs,
        "totals": told.totals,
        "waits": told.waits,
        "stop": stop,
        "where": told.where,
        "now": told.now,
        "version": version("counterfoil"),
        "style": Markup(style),  # noqa: S704 - our own files
        "csp": _csp(style, STYLE),
        "size": size,
        "spell": spell,
    }
    return environment().get_template("report.html").render(values)


def _csp(*styles: str) -> str:
    """Nothing runs and nothing is fetched; of styles, these very texts."""
    hashes = " ".join(f"'sha256-{base64.b64encode(sha256(one.encode()).digest()).decode()}'" for one in styles)
    return f"default-src 'none'; style-src {hashes}; base-uri 'none'; form-action 'none'"


def _waiting(asked: Sequence[Asked]) -> str:
    """How long people took in all."""
    return spell(sum(one.said[-1].took_s for one in asked if one.said))


def _budgets(told: Reported) -> Sequence[tuple[str, str, str, float | None]]:
    """Unit, what is spent, the limit, and the part of it that is spent; None where there is none."""
    run, limits = told.part.story.run, None if told.policy is None else told.policy.budgets
    found = []
    for unit in UNITS:
        spent = getattr(run.spent, unit) / (1_000_000 if unit == "cost" else 1)
        limit = None if limits is None else getattr(limits, unit)
        if spent or limit is not None:
            share = None if not limit else min(1.0, spent / limit)
            found.append((unit, amount(spent), "no limit" if limit is None else amount(float(limit)), share))
    return found
