"""The page of kill switches: what people have stopped, a form to stop more, and one for each to let it go on."""

from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gateway.inbound.console.pages.site import Site, Wrong, fields_of, inside, said
from gateway.inbound.console.paths import ROOT
from gateway.model.review import Refused, Reviewer
from gateway.model.switch import NAMED_MAX, NAMES, SwitchThrown

SEE_OTHER = 303
CONFLICT = 409


async def switches(site: Site, request: Request) -> Response:
    """What is stopped."""
    return await _page(site, request, inside(request))


async def throw(site: Site, request: Request) -> Response:
    """More is stopped."""
    by, fields = inside(request), await fields_of(request)
    kept = {name: said(fields, name)[:NAMED_MAX] for name in NAMES}
    names: dict[str, Any] = {name: value for name, value in kept.items() if value}
    everything, reason = said(fields, "everything"), said(fields, "reason")
    kept |= {"everything": everything, "reason": reason}
    if bool(names) is bool(everything):
        says = "fill in at least one name, or tick that everything is to be stopped, and not both"
        return await _page(site, request, by, Refused("reason", says), kept)
    try:
        await site.desk.throw(SwitchThrown(**names, by=by.who, via=by.via, reason=reason), by)
    except Refused as refused:
        return await _page(site, request, by, refused, kept)
    return RedirectResponse(f"{ROOT}/switches", SEE_OTHER)


async def lift(site: Site, request: Request) -> Response:
    """One goes on."""
    by, fields = inside(request), await fields_of(request)
    number = request.path_params["number"]
    if number >= 2**53:
        raise Wrong("no switch has such a number")
    try:
        await site.desk.lift(number, by, said(fields, "reason"))
    except Refused as refused:
        return await _page(site, request, by, refused)
    return RedirectResponse(f"{ROOT}/switches", SEE_OTHER)


async def _page(
    site: Site, request: Request, by: Reviewer, refused: Refused | None = None, kept: dict[str, str] | None = None
) -> Response:
    thrown, status = await site.desk.switches(by), 200 if refused is None else CONFLICT
    return await site.page(request, "switches.html", status, thrown=thrown, refused=refused, kept=kept or {})
