"""Pages that only look: runs, one run's timeline, the ledger, tools, policies, accounts, and how this gateway is."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gateway.inbound.console.pages.long_values import whole
from gateway.inbound.console.pages.site import Missing, Site, Wrong, inside, linked, time_of
from gateway.inbound.console.pages.steps import steps_of
from gateway.inbound.console.shown.diffs import Difference, difference
from gateway.inbound.console.shown.letters import shown
from gateway.inbound.told.drawing import as_svg, drawing
from gateway.model.canonical import Digest
from gateway.model.outcome import TERMINAL
from gateway.model.record import Record
from gateway.model.review import Reviewer
from gateway.runtime import drift, levels, listing, searching, texts
from gateway.runtime.story import Long, escalated, part_of, seen_by, waiting_in

MAX_ROWS = 150
"""Steps of a timeline on one page, the last ones first asked for."""
RUNS = 50
FOUND = 100


# --- runs -------------------------------------------------------------------------------------------------------------


async def runs(site: Site, request: Request) -> Response:
    """A list of runs, newest first."""
    query, by = request.query_params, inside(request)
    wanted = listing.Wanted(
        workflow=query.get("workflow", "").strip(),
        principal=query.get("principal", "").strip(),
        state=query.get("state", ""),
        since=time_of(query.get("since", ""), "since"),
    )
    found = await listing.runs(site.book, by, wanted, after=query.get("after"), limit=RUNS)
    states = ["open", "unsettled", *sorted(TERMINAL)]
    more = None if found.next is None else linked(query, after=found.next)
    values: dict[str, Any] = {"workflows": await _workflows(site, by), "states": states, "more": more}
    return await site.page(request, "runs.html", found=found, wanted=wanted, **values)


async def run(site: Site, request: Request) -> Response:
    """What happened in a run, step by step. Payloads are read of the steps that are shown, and of no others."""
    name, before = await _seen(site, request), request.query_params.get("before", "")
    part = await part_of(site.book, name, int(before[:9]) if before.isdecimal() else None, MAX_ROWS)
    story = part.story
    story = replace(
        story, payloads={cited: _masked(told, partial(site.masked, request)) for cited, told in story.payloads.items()}
    )
    steps = await asyncio.to_thread(steps_of, story, part.steps)
    values: dict[str, Any] = {"waits": waiting_in(story.run, site.now), "steps": steps, "earlier": part.earlier}
    values |= {"before": before, "escalated": escalated(story.run)}
    return await site.page(request, "run.html", run=story.run, **values)


async def _seen(site: Site, request: Request) -> str:
    """The run's name. A run of others costs what one costs that there is not: the time tells nobody which it is."""
    by, name = inside(request), request.path_params["run"]
    if not await seen_by(site.book, name, by):
        raise Missing(f"no run `{name[:128]}` is here for you to see")
    return str(name)


def _masked(told: Any, masked: Callable[[Any], Any]) -> Any:
    return told._replace(head=masked(told.head)) if isinstance(told, Long) else masked(told)


async def arguments(site: Site, request: Request) -> Response:
    """All arguments of one step, in parts where they are very long."""
    name, step = await _seen(site, request), request.path_params["step"]
    body = await site.book.ledger.payload(cited) if (cited := await _cited(site, name, step)) else None
    if body is None:
        raise Missing(f"step {step} of `{name[:128]}` has no arguments that can be shown")
    back = (f"/runs/{name}#step-{step}", f"step {step} of {name}")
    real = body.decode("utf-8", "replace")
    text = await asyncio.to_thread(site.masked, request, real)
    return await whole(site, request, text, at="all arguments", back=back, masked=text != real)


async def _cited(site: Site, run: str, step: int) -> Digest | None:
    found = await site.book.ledger.read(run, max(0, step - 1), limit=1)
    return getattr(found[0][0].event, "arguments", None) if found else None


# --- the ledger -------------------------------------------------------------------------------------------------------


async def search(site: Site, request: Request) -> Response:
    """Records that somebody looks for."""
    query, by = request.query_params, inside(request)
    sought = searching.Sought(
        run=query.get("run", "").strip(),
        attempt=query.get("attempt", "").strip(),
        approval=query.get("approval", "").strip(),
        tool=query.get("tool", "").strip(),
        principal=query.get("principal", "").strip(),
        kind=query.get("kind", "").strip(),
        text=query.get("text", "").strip(),
        since=time_of(query.get("since", ""), "since"),
        until=time_of(query.get("until", ""), "until"),
    )
    found = None
    if query:
        before = query.get("before", "")
        if before and not before.isdecimal():
            raise Wrong("`before` is a place in the log")
        place = int(before) if before else None
        found = await searching.search(site.book.ledger, by, sought, before=place, limit=FOUND)
    more = None if found is None or found.next is None else linked(query, before=found.next)
    return await site.page(request, "search.html", sought=sought, found=found, more=more, told=_told)


def _told(record: Record) -> str:
    """What a record says, in one line."""
    event = record.event
    for name in ("reason", "says", "goal", "target"):
        if said := getattr(event, name, None):
            return str(said)
    return ""


# --- tools and policies -----------------------------------------------------------------------------------------------


async def registry(site: Site, request: Request) -> Response:
    """Tools as a policy sees them, and what is not as it was pinned."""
    by = inside(request)
    known, usual = await _workflows(site, by), site.book.policies.current().policy.workflow
    workflow = request.query_params.get("workflow", "") or (usual if usual in known else next(iter(known), usual))
    if workflow not in known:
        raise Missing(f"no policy for the workflow `{workflow}` is in force")
    rules, (tools, whole) = site.book.policies.current(workflow), await site.upstreams.offered()
    entries = drift.entries(rules, tools)
    differs: dict[str, Difference] = {one.tool: difference(one.was, one.now) for one in entries if one.was}
    values: dict[str, Any] = {"missing": drift.missing(rules.policy, tools), "whole": whole, "differs": differs}
    return await site.page(request, "registry.html", entries=entries, workflow=workflow, workflows=known, **values)


async def _workflows(site: Site, by: Reviewer) -> Sequence[str]:
    """Those in force that the reviewer may see."""
    in_force = site.book.policies.in_force()
    used = set(in_force.values()) if by.everywhere else (await texts.older(site.book, by))[2]
    return sorted(name for name, digest in in_force.items() if digest in used)


async def policies(site: Site, request: Request) -> Response:
    """The policies in force, and older texts that runs began under; of the reviewer's tenant, unless they see all."""
    by = inside(request)
    old, looked, used = await texts.older(site.book, by)
    current = [one for one in await texts.in_force(site.book) if by.everywhere or one.digest in used]
    return await site.page(request, "policies.html", current=current, older=old, looked=looked)


async def policy(site: Site, request: Request) -> Response:
    """One policy's text."""
    one = await _policy(site, request)
    return await site.page(request, "policy.html", one=one, text=shown(texts.spelled(one.policy), strict=True))


async def diagram(site: Site, request: Request) -> Response:
    """Its picture, by itself: as an image it can run nothing, and its own style binds nothing else."""
    one = await _policy(site, request)
    return Response(as_svg(drawing(one.policy)), media_type="image/svg+xml")


async def _policy(site: Site, request: Request) -> texts.Text:
    by, digest = inside(request), request.path_params["digest"]
    used = by.everywhere or digest in (await texts.older(site.book, by))[2]
    found = await texts.text_of(site.book, digest) if used else None
    if found is None:
        raise Missing("the ledger has no text of that policy that this version can read")
    return found


# --- accounts and health ----------------------------------------------------------------------------------------------


async def accounts(site: Site, request: Request) -> Response:
    """What is taken of the budgets that runs share."""
    by, query = inside(request), request.query_params
    found = await levels.levels(site.book, by, after=(query.get("account", ""), query.get("unit", "")))
    known = await _workflows(site, by)
    budgets = [(one.workflow, one.policy.budgets) for one in await texts.in_force(site.book) if one.workflow in known]
    more = None if found.next is None else linked({}, account=found.next[0], unit=found.next[1])
    return await site.page(request, "accounts.html", found=found, budgets=budgets, more=more)


async def health(site: Site, request: Request) -> Response:
    """How this gateway is: what `/readyz` tells, for those who see all tenants."""
    if not inside(request).everywhere:
        raise Missing("how the gateway is, only reviewers of all tenants see")
    able, said = site.ready()
    checkpoint = await site.book.ledger.checkpoints(limit=1)
    newest = checkpoint[0] if checkpoint else None
    return await site.page(request, "health.html", able=able, said=said, checkpoint=newest)
