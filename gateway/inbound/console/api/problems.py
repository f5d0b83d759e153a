"""What goes wrong, as one kind of answer: `application/problem+json` with our own word for the check that said no.

[RFC 9457]. `type` is left at `about:blank`: what a program branches on is `check`, which is an extension member.
"""

from collections.abc import Mapping
from http import HTTPStatus
from math import ceil

from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from gateway.model.review import Refused

MEDIA_TYPE = "application/problem+json"

STATUS: Mapping[str, int] = {
    "role": 403,
    "self_review": 403,
    "tenant": 404,
    "unknown": 404,
    "reason": 422,
    "reuse": 422,
    "load": 429,
    "damaged": 503,
}
"""By the check of a refusal. Every other one is about a question that stands otherwise than it was shown: 409.

What belongs to another tenant is not there: the two answers must not differ.
"""

NOT_THERE = "there is no such thing here, or it is not yours to see"
LEDGER_RETRY = {"Retry-After": "5"}
"""Where the ledger cannot be asked."""
RETRY_S = 60
"""After which a reviewer who has decided too much may try again, where the refusal says nothing of its own."""


class Place(BaseModel):
    """One thing that is wrong with what was sent."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    at: str
    """A JSON pointer into the body [RFC 6901], or the name of a parameter."""
    says: str


class Problem(BaseModel):
    """Why it was not done. Nothing has changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    type: str = "about:blank"
    title: str
    """Of the status."""
    status: int
    detail: str
    """One sentence: what is wrong, and what to do."""
    check: str
    """A short word to branch on: `decided`, `expired`, `superseded`, `action`, `role`, `load` …"""
    errors: tuple[Place, ...] = ()
    """The places of a request that cannot be read."""


class Troubled(Exception):
    """The request is answered with a problem."""

    def __init__(
        self,
        status: int,
        check: str,
        detail: str,
        *,
        errors: tuple[Place, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.problem = problem_of(status, check, detail, errors)
        self.headers = dict(headers or {})

    def answer(self) -> Response:
        """As it is sent."""
        return answer_of(self.problem, self.headers)


def problem_of(status: int, check: str, detail: str, errors: tuple[Place, ...] = ()) -> Problem:
    """The problem of that status."""
    return Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, check=check, errors=errors)


def refusal_of(refused: Refused) -> Problem:
    """What the desk refused; of what is not there, and what is not theirs, the same is said."""
    status = STATUS.get(refused.check, HTTPStatus.CONFLICT)
    if status == HTTPStatus.NOT_FOUND:
        return not_there()
    return problem_of(status, refused.check, refused.reason)


def again_after(refused: Refused, now: float) -> Mapping[str, str]:
    """When it may be said again, where that is a question of time."""
    if refused.retry_at is None:
        return {"Retry-After": str(RETRY_S)} if refused.check == "load" else {}
    return {"Retry-After": str(max(1, ceil(refused.retry_at.timestamp() - now)))}


def not_there() -> Problem:
    """Of what does not exist and of what is not for this reviewer."""
    return problem_of(HTTPStatus.NOT_FOUND, "unknown", NOT_THERE)


def answer_of(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """As it is sent."""
    more = {"Cache-Control": "no-store", **(headers or {})}
    body = problem.model_dump_json(exclude_defaults=True, exclude_none=True)
    return Response(body, status_code=problem.status, headers=more, media_type=MEDIA_TYPE)
