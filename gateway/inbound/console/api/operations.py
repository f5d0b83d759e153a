"""One table of what the JSON API can do, and what is made of it: the routes, and the document that describes them.

A route that is not in the document, or a document that promises what no route does, cannot be written.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response

from gateway.inbound.console.api.problems import MEDIA_TYPE, Problem
from gateway.model.review import Reviewer

D_contra = TypeVar("D_contra", contravariant=True)

JSON = "application/json"
STREAM = "text/event-stream"


class Nothing(BaseModel):
    """No parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that came through the door, read."""

    by: Reviewer
    request: Request
    id: str = ""
    """What the path names."""
    query: Any = field(default_factory=Nothing)
    """Of the operation's own model."""
    body: Any = None
    """The same."""


@dataclass(frozen=True, slots=True)
class Lead:
    """Where one may go on from what was answered."""

    to: str
    """Name of an operation."""
    id: str
    """Where in the answer the name is that it wants: a JSON pointer."""
    body: Mapping[str, Any] | None = None
    """What to send there."""


@dataclass(frozen=True, slots=True)
class Operation(Generic[D_contra]):
    """One method of one path."""

    method: Literal["GET", "POST"]
    path: str
    """Below the root of the API; `{id}` stands for a name."""
    name: str
    """Of the operation, for generated clients."""
    summary: str
    does: Callable[[D_contra, Asked], Awaitable[BaseModel | Response]]
    out: type[BaseModel] | None
    """None: a stream of events."""
    says: str = ""
    """More than the summary, where there is more to say."""
    query: type[BaseModel] = Nothing
    body: type[BaseModel] | None = None
    errors: Mapping[int, str] = field(default_factory=dict)
    """Beyond those that any of them may have."""
    leads: tuple[Lead, ...] = ()


ALWAYS: Mapping[int, str] = {
    401: "nobody who may review is named: no session, no bearer token, or one that has expired",
    403: "the credential is not one of a reviewer, or the decision is not theirs to make",
    422: "the request is not what is asked for; `errors` says where",
    503: "the ledger cannot be read or written now; nothing is known to have changed",
}
IN_A_BODY: Mapping[int, str] = {
    400: "the body is not JSON that every reader would read alike",
    413: "the body is too long",
    415: "the body is not `application/json`",
}


def errors_of(one: Operation[Any]) -> Mapping[int, str]:
    """Every status with which it may refuse."""
    there = {404: "there is no such thing, or it is not yours to see: the two are answered alike"}
    found = {**ALWAYS, **(IN_A_BODY if one.body is not None else {}), **(there if "{id}" in one.path else {})}
    return dict(sorted({**found, **one.errors}.items()))


def document(table: Iterable[Operation[Any]], *, root: str, version: str) -> dict[str, Any]:
    """The OpenAPI document of that table."""
    operations = [*table]
    models = {model for one in operations for model in (one.out, one.body) if model is not None} | {Problem}
    ordered = sorted(models, key=lambda model: model.__name__)
    wanted = [(model, _mode(operations, model)) for model in ordered]
    named, schemas = models_json_schema(wanted, ref_template="#/components/schemas/{model}")
    refs = {model: named[model, mode] for model, mode in wanted}
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _described(one, refs)
    return {
        "openapi": "3.1.1",
        "info": {"title": "Counterfoil, for reviewers", "version": version, "description": _ABOUT},
        "servers": [{"url": root}],
        "security": [{"bearer": []}, {"session": []}],
        "paths": paths,
        "components": {"schemas": schemas.get("$defs", {}), "securitySchemes": _SECURITY},
    }


_ABOUT = (
    "What waits for people, and their answers. An approval runs nothing: the agent's next call is judged against the"
    " state of that day. A decision names the digest of the action that was shown, and is refused for any other."
)
_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A reviewer's token; an agent's is refused."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "__Host-counterfoil",
        "description": "The console's own session; what changes something needs its CSRF token as well.",
    },
}


def _mode(operations: Iterable[Operation[Any]], model: type[BaseModel]) -> Literal["validation", "serialization"]:
    return "validation" if any(one.body is model for one in operations) else "serialization"


def _described(one: Operation[Any], refs: Mapping[type[BaseModel], Any]) -> dict[str, Any]:
    refused = {
        str(status): {"description": says, "content": {MEDIA_TYPE: {"schema": refs[Problem]}}}
        for status, says in errors_of(one).items()
    }
    for status, answer in refused.items():
        if status in {"429", "503"}:
            answer["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "In seconds."}}
    done: dict[str, Any] = {"description": HTTPStatus.OK.phrase}
    done["content"] = {STREAM: {"schema": {"type": "string"}}} if one.out is None else {JSON: {"schema": refs[one.out]}}
    if one.leads:
        done["links"] = {lead.to: _link(lead) for lead in one.leads}
    told: dict[str, Any] = {"operationId": one.name, "summary": one.summary}
    if one.says:
        told["description"] = one.says
    if parameters := [*_in_path(one), *_in_query(one)]:
        told["parameters"] = parameters
    if one.body is not None:
        told["requestBody"] = {"required": True, "content": {JSON: {"schema": refs[one.body]}}}
    return {**told, "responses": {"200": done, **refused}}


def _link(lead: Lead) -> dict[str, Any]:
    told: dict[str, Any] = {"operationId": lead.to, "parameters": {"id": f"$response.body#{lead.id}"}}
    return told if lead.body is None else {**told, "requestBody": dict(lead.body)}


ID_PATTERN = r"^[!-.0-~]{1,200}$"
"""Printable ASCII without a slash, which is all that our names are made of."""
_ID = re.compile(ID_PATTERN)


def is_name(text: str) -> bool:
    """Whether anything here could have that name."""
    return _ID.fullmatch(text) is not None


def _in_path(one: Operation[Any]) -> Iterable[dict[str, Any]]:
    if "{id}" in one.path:
        yield {
            "name": "id",
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": ID_PATTERN},
        }


def _in_query(one: Operation[Any]) -> Iterable[dict[str, Any]]:
    schema = one.query.model_json_schema()
    for name, field_schema in schema.get("properties", {}).items():
        described = {key: value for key, value in field_schema.items() if key not in {"title", "description"}}
        if described.get("default", 0) is None:
            del described["default"]
        if any(choice == {"type": "null"} for choice in described.get("anyOf", ())):
            (only,) = [choice for choice in described.pop("anyOf") if choice != {"type": "null"}]
            described |= only
        told = {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": described}
        if "description" in field_schema:
            told["description"] = field_schema["description"]
        yield told
