"""What a person answers: read from a form, given to the desk, and told as it was taken. Nothing is decided here."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, get_args
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gateway.inbound.console.pages.inbox import MAX_TOGETHER
from gateway.inbound.console.pages.packets import is_theirs, looked, show, told_of
from gateway.inbound.console.pages.site import Missing, Site, Wrong, fields_of, said
from gateway.inbound.console.paths import ROOT
from gateway.inbound.console.visitor import link_of, reviewer_of
from gateway.inbound.told.reach import TOO_LONG
from gateway.model.approval import Approval
from gateway.model.asked import MAX_S
from gateway.model.review import Answer, Refused, Settlement
from gateway.ports import UnreadableRecord
from gateway.runtime.story import CorruptLedger

MAX_ACTIVE_S = 4 * 3_600.0
"""Nobody looks longer at one page; a tab that was left open says nothing."""
SEE_OTHER = 303
CONFLICT = 409

_DECISIONS: Mapping[str, Literal["approved", "rejected", "returned", "revoked"]] = {
    "approved": "approved",
    "rejected": "rejected",
    "returned": "returned",
    "revoked": "revoked",
}
_SETTLEMENTS: Mapping[str, Settlement] = {one: one for one in get_args(Settlement)}


async def decide(site: Site, request: Request) -> Response:
    """The answer to one question. It is for the action that was shown, whatever is asked by now."""
    name, fields = request.path_params["name"], await fields_of(request)
    answer = _answer(site, request, name, fields)
    try:
        await site.desk.decide(answer, reviewer_of(request))
    except Refused as error:
        told = await told_of(site, request, name)
        if error.check in SAID and told.approval is not None and _is_the_same(told.approval, answer, request):
            return _to(f"/approvals/{name}", answered=answer.decision)
        kept = {"decision": answer.decision, "reason": answer.reason}
        return await show(site, request, told, CONFLICT, refused=error, said=kept)
    return _to(f"/approvals/{name}", answered=answer.decision)


SAID = frozenset({"twice", "decided", "link"})
"""What stands against an answer that was given already."""


def _is_the_same(asked: Approval, answer: Answer, request: Request) -> bool:
    """Whether it is what they have answered: the form was sent twice, or again from a page that was gone back to."""
    return asked.action == answer.action and is_theirs(asked, answer.decision, reviewer_of(request))


def _answer(site: Site, request: Request, name: str, fields: Mapping[str, list[str]]) -> Answer:
    decision = _DECISIONS.get(said(fields, "decision"))
    if decision is None:
        raise Wrong("say whether you approve, reject or return it")
    wide = decision == "approved" and said(fields, "reuse") == "wider"
    return Answer(
        approval=name,
        action=said(fields, f"action-{name}") or said(fields, "action"),
        decision=decision,
        reason=said(fields, "reason"),
        times=_whole(said(fields, "times")) if wide else 1,
        for_s=_spell(said(fields, "for_s")) if wide else None,
        active_s=_active_s(site, fields),
        link=None if decision == "revoked" else link_of(request),  # one link gives one answer, and may take it back
    )


def _active_s(site: Site, fields: Mapping[str, list[str]]) -> float | None:
    """As the script counted; without one, since the page was made."""
    counted, served = _float(said(fields, "active_s")), _float(said(fields, "served"))
    if counted is None and served is not None:
        counted = site.now.timestamp() - served
    return None if counted is None else min(MAX_ACTIVE_S, max(0.0, round(counted, 1)))


def _float(text: str) -> float | None:
    try:
        found = float(text[:20])
    except ValueError:
        return None
    return found if abs(found) < float("inf") else None


def _spell(text: str) -> float | None:
    if not text:
        return None
    found = _float(text)
    if found is None or not 0 < found <= MAX_S:
        raise Wrong(TOO_LONG)
    return found


def _whole(text: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or int(text[:6]) < 1:
        raise Wrong("say how many times as a whole number from 1 on")
    return int(text[:6])


def _to(place: str, **query: str) -> Response:
    return RedirectResponse(f"{ROOT}{place}?{urlencode(query)}", SEE_OTHER)


# --- several at once --------------------------------------------------------------------------------------------------


async def together(site: Site, request: Request) -> Response:
    """Questions of one group, each in full, and one form for those that are ticked."""
    names = request.query_params.getlist("q")
    if not 1 <= len(names) <= MAX_TOGETHER:
        raise Wrong(f"choose up to {MAX_TOGETHER} questions to look at together")
    told = [await told_of(site, request, name) for name in dict.fromkeys(names)]
    asked = [one for one in told if one.pending]
    if not asked:
        raise Missing("none of these questions waits for an answer any more")
    for one in (each for each in asked if each.whole):
        await looked(site, request, one.name)
    reasons = {one.packet.reasons for one in asked}
    return await site.page(request, "together.html", told=asked, served=site.now.timestamp(), reasons=reasons)


async def decide_together(site: Site, request: Request) -> Response:
    """The same answer to each that is ticked. Each is for the action that was shown, and stands for itself."""
    fields = await fields_of(request)
    names = fields.get("q", [])
    if not 1 <= len(names) <= MAX_TOGETHER:
        raise Wrong("tick the questions that you answer")
    answers = [_answer(site, request, name, fields) for name in dict.fromkeys(names)]
    done = await site.desk.decide_all(answers, reviewer_of(request))
    results = [
        ("no", f"{answer.approval}.{one.check}") if isinstance(one, Refused) else ("ok", answer.approval)
        for answer, one in zip(answers, done, strict=True)
    ]
    query = urlencode([*results, ("answered", said(fields, "decision"))])
    return RedirectResponse(f"{ROOT}/results?{query}", SEE_OTHER)


async def results(site: Site, request: Request) -> Response:
    """What became of answers that were given together, as the ledger has it now."""
    query, by = request.query_params, reviewer_of(request)
    taken, refused = query.getlist("ok")[:MAX_TOGETHER], query.getlist("no")[:MAX_TOGETHER]
    answered = query.get("answered", "")
    rows: list[tuple[str, str, str, bool]] = []
    for name in dict.fromkeys([*taken, *map(_named, refused)]):
        try:
            one, run = await site.desk.packet(name, by), await site.desk.run_for(name, by)
        except (CorruptLedger, UnreadableRecord):  # one damaged run hides no other
            rows.append((name, "", "cannot be read: `counterfoil verify` says why", True))
            continue
        asked = None if run is None else run.approvals.get(name)
        if one is not None and asked is not None:
            rows.append((name, one.tool or "", one.state, name not in taken or not is_theirs(asked, answered, by)))
    return await site.page(request, "results.html", rows=rows, answered=answered)


def _named(text: str) -> str:
    return text.rpartition(".")[0]


# --- attempts and runs ------------------------------------------------------------------------------------------------


async def settle(site: Site, request: Request) -> Response:
    """What a person found out about an attempt whose outcome nobody knows."""
    name, fields = request.path_params["name"], await fields_of(request)
    what, reason = _SETTLEMENTS.get(said(fields, "what")), said(fields, "reason")
    if what is None:
        raise Wrong("say what you found: that it happened, or that it did not")
    return await _answered(
        site, request, name, what, reason, lambda: site.desk.settle(name, what, reviewer_of(request), reason)
    )


async def take_over(site: Site, request: Request) -> Response:
    """A person has seen that a run handed its task over."""
    name, fields = request.path_params["name"], await fields_of(request)
    reason = said(fields, "reason")
    return await _answered(
        site, request, name, "acknowledged", reason, lambda: site.desk.acknowledge(name, reviewer_of(request), reason)
    )


async def stop(site: Site, request: Request) -> Response:
    """The run is over, by a person's word."""
    name, fields = request.path_params["name"], await fields_of(request)
    reason = said(fields, "reason")
    return await _answered(
        site, request, name, "stopped", reason, lambda: site.desk.stop_run(name, reviewer_of(request), reason)
    )


async def _answered(
    site: Site, request: Request, name: str, what: str, reason: str, work: Callable[[], Awaitable[object]]
) -> Response:
    if not reason:
        refused = Refused("reason", "say how you know; somebody will ask in three weeks")
        told = await told_of(site, request, name)
        return await show(site, request, told, CONFLICT, refused=refused, said={"decision": what, "reason": ""})
    try:
        await work()
    except Refused as error:
        told = await told_of(site, request, name)
        return await show(site, request, told, CONFLICT, refused=error, said={"decision": what, "reason": reason})
    told = await told_of(site, request, name)
    return _to(f"/{told.room}/{name}", answered=what)
