"""Where a request belongs that names a prompt, a resource or what is to be completed; None where nobody owns it."""

from collections.abc import Mapping
from typing import Any

from gateway.model.offer import Route
from gateway.outbound.upstream.offering import Offering


def to_prompt(offering: Offering, params: dict[str, Any]) -> Route | None:
    """To the upstream that has the prompt."""
    known = offering.prompts.by_name.get(str(params.get("name")))
    if known is None:
        return None
    return Route((known.upstream,), {**params, "name": known.own_name}, known.own_name)


def to_resource(offering: Offering, params: dict[str, Any], address: Any) -> Route | None:
    """To those that may have the resource."""
    if not isinstance(address, str):
        return None
    owners = offering.owners_of(address)
    return Route(owners, params, address) if owners else None


def to_subject(offering: Offering, params: dict[str, Any]) -> Route | None:
    """Completion is about a prompt or a resource template, and belongs to whoever owns that."""
    subject = params.get("ref")
    if not isinstance(subject, Mapping):
        return None
    if subject.get("type") == "ref/prompt":
        known = offering.prompts.by_name.get(str(subject.get("name")))
        renamed = known and {**params, "ref": {**subject, "name": known.own_name}}
        return Route((known.upstream,), renamed) if known and renamed else None
    template = str(subject.get("uri"))
    owner = offering.templates.owners.get(template)
    return Route((owner,) if owner is not None else offering.owners_of(template), params)
