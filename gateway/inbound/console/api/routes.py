"""The JSON API for reviewers, under `/console/api/v1`: the table of what it can do, and how a request is answered.

The door has said who asks; the desk decides what becomes of it. What is refused is a problem with a word for the check.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from gateway.inbound.console.api import told
from gateway.inbound.console.api.bodies import body_of, query_of
from gateway.inbound.console.api.changes import Changes
from gateway.inbound.console.api.operations import Asked, Lead, Operation, document, is_name
from gateway.inbound.console.api.problems import (
    LEDGER_RETRY,
    Troubled,
    again_after,
    answer_of,
    not_there,
    problem_of,
    refusal_of,
)
from gateway.inbound.console.api.switching import SWITCHING
from gateway.inbound.console.api.telling import approval_out, row_of_run, waiting_out
from gateway.inbound.console.paths import ROOT
from gateway.inbound.console.visitor import STANDS, is_look, link_of, reviewer_of
from gateway.model.figures import Reviews
from gateway.model.packet import Packet
from gateway.model.review import Answer, Page, Refused, Waiting
from gateway.ports import LedgerUnavailable
from gateway.runtime.book import Book
from gateway.runtime.desk import Decided, Desk
from gateway.runtime.listing import Wanted, runs
from gateway.runtime.reviews import reviews_of

UNDER = "/api/v1"
"""Behind `/console`."""


@dataclass(frozen=True, slots=True)
class Api:
    """What the operations are about."""

    desk: Desk
    book: Book
    changes: Changes

    async def waiting(self, asked: Asked) -> told.InboxOut:
        """What waits, filtered."""
        query: told.InboxQuery = asked.query
        named = query.model_dump(exclude={"limit", "after"}, exclude_none=True)

        def wanted(one: Waiting) -> bool:
            return all(getattr(one, name) == value for name, value in named.items())

        return _inbox(await self.desk.inbox(asked.by, limit=query.limit, after=query.after, wanted=wanted))

    async def question(self, asked: Asked) -> told.QuestionOut:
        """One question; that it was looked at is recorded."""
        packet = await self._packet(asked, "approval")
        if is_look(asked.request):
            await self.desk.looked(asked.id, asked.by)
        return told.QuestionOut(packet=packet, approval=await self._approval(packet, asked.id))

    async def decide(self, asked: Asked) -> told.DecidedOut:
        """The decision is recorded."""
        said: told.DecisionIn = asked.body
        _ = await self._packet(asked, "approval")
        answer = Answer(approval=asked.id, link=link_of(asked.request), **said.model_dump())
        return _decided(await self.desk.decide(answer, asked.by))

    async def decide_all(self, asked: Asked) -> told.AnswersOut:
        """Those that can be are recorded."""
        given: told.AnswersIn = asked.body
        results: dict[int, told.OneOut] = {}
        answers: list[Answer] = []
        places: list[int] = []
        for place, one in enumerate(given.answers):
            if is_name(one.approval):
                answers.append(Answer(link=link_of(asked.request), **one.model_dump()))
                places.append(place)
            else:
                results[place] = told.OneOut(approval=one.approval, problem=not_there())
        became = await self.desk.decide_all(answers, asked.by)
        for place, answer, came in zip(places, answers, became, strict=True):
            results[place] = _one_of_several(answer, came)
        return told.AnswersOut(results=tuple(results[place] for place in sorted(results)))

    async def attempt(self, asked: Asked) -> told.AttemptOut:
        """One attempt."""
        return told.AttemptOut(packet=await self._packet(asked, "attempt"))

    async def settle(self, asked: Asked) -> told.DoneOut:
        """What is known of it is recorded."""
        said: told.SettleIn = asked.body
        _ = await self._packet(asked, "attempt")
        await self.desk.settle(asked.id, said.what, asked.by, said.reason)
        return told.DoneOut(name=asked.id, state=(await self._packet(asked, "attempt")).state)

    async def runs(self, asked: Asked) -> told.RunsOut:
        """Runs, newest first."""
        query: told.RunsQuery = asked.query
        wanted = Wanted(query.workflow or "", query.principal or "", query.state or "")
        page = await runs(self.book, asked.by, wanted, after=query.after, limit=query.limit)
        return told.RunsOut(rows=tuple(row_of_run(one) for one in page.rows), next=page.next)

    async def run(self, asked: Asked) -> told.RunOut:
        """One run."""
        return told.RunOut(packet=await self._packet(asked, "run"))

    async def timeline(self, asked: Asked) -> told.TimelineOut:
        """What happened in it."""
        query: told.TimelineQuery = asked.query
        _ = await self._packet(asked, "run")
        found = await self.book.ledger.read(asked.id, query.after, limit=query.limit)
        records = tuple(
            told.RecordOut(seq=one.seq, at=one.at, kind=one.event.kind, event=one.event.model_dump(mode="json"))
            for one, _ in found
        )
        more = records[-1].seq if len(records) == query.limit else None
        return told.TimelineOut(run=asked.id, records=records, next=more)

    async def act_on_run(self, asked: Asked) -> told.DoneOut:
        """It is stopped, or no question waits about it any more."""
        said: told.RunActIn = asked.body
        _ = await self._packet(asked, "run")
        if said.what == "stop":
            await self.desk.stop_run(asked.id, asked.by, said.reason)
        else:
            await self.desk.acknowledge(asked.id, asked.by, said.reason)
        return told.DoneOut(name=asked.id, state=(await self._packet(asked, "run")).state)

    async def reviews(self, asked: Asked) -> Reviews:
        """How people answer."""
        query: told.ReviewsQuery = asked.query
        now = datetime.fromtimestamp(self.book.clock.now(), UTC)
        return await reviews_of(self.book, since=now - timedelta(seconds=query.since_s), by=asked.by)

    async def events(self, asked: Asked) -> Response:
        """Something changed."""
        query: told.EventsQuery = asked.query
        last = asked.request.headers.get("last-event-id", "")
        seen = int(last) if last.isascii() and last.isdigit() and len(last) < 16 else query.since  # noqa: PLR2004
        return self.changes.stream(asked.by, seen, asked.request.scope[STANDS])

    async def whoami(self, asked: Asked) -> told.WhoOut:
        """Who asks."""
        by = asked.by
        return told.WhoOut(
            tenant=by.tenant,
            id=by.id,
            roles=tuple(sorted(by.roles)),
            via=by.via,
            everywhere=by.everywhere,
            approval=by.approval,
        )

    async def _packet(self, asked: Asked, about: str) -> Packet:
        """Raises: Troubled, alike for what is not there and what is not theirs."""
        one = await self.desk.packet(asked.id, asked.by)
        if one is None or one.about != about:
            problem = not_there()
            raise Troubled(problem.status, problem.check, problem.detail)
        return one

    async def _approval(self, packet: Packet, name: str) -> told.ApprovalOut:
        return approval_out((await self.book.state_of(packet.run)).approvals[name])


def _inbox(page: Page) -> told.InboxOut:
    return told.InboxOut(rows=tuple(waiting_out(one) for one in page.rows), total=page.total, next=page.next)


def _decided(one: Decided) -> told.DecidedOut:
    return told.DecidedOut(complete=one.complete, approval=approval_out(one.approval))


def _one_of_several(answer: Answer, became: Decided | Refused) -> told.OneOut:
    if isinstance(became, Decided):
        return told.OneOut(approval=answer.approval, done=_decided(became))
    return told.OneOut(approval=answer.approval, problem=refusal_of(became))


_STANDS_OTHERWISE = "the question stands otherwise than it was shown: decided, expired, superseded, for another action"
_TOO_MANY = "this reviewer has decided as much as policy lets one person decide in that time"
_DECIDING = {409: _STANDS_OTHERWISE, 429: _TOO_MANY}

TABLE: tuple[Operation[Api], ...] = (
    Operation(
        "GET",
        "/approvals",
        "listWaiting",
        "What waits for a person, by consequence and then by age",
        Api.waiting,
        told.InboxOut,
        query=told.InboxQuery,
        leads=(
            Lead("showApproval", "/rows/0/name"),
            Lead("showAttempt", "/rows/0/name"),
            Lead("showRun", "/rows/0/run"),
        ),
    ),
    Operation(
        "GET",
        "/approvals/{id}",
        "showApproval",
        "One question: all that is needed to answer it, and where it stands",
        Api.question,
        told.QuestionOut,
        leads=(Lead("decide", "/approval/approval", {"action": "$response.body#/approval/action"}),),
        says="That you looked is recorded, once. What the agent says of its own work stands under `plan` and"
        " `hypotheses`, and nobody has checked it; every text in it may be an attack.",
    ),
    Operation(
        "POST",
        "/approvals/{id}/decision",
        "decide",
        "Approve, reject, or return for more evidence",
        Api.decide,
        told.DecidedOut,
        body=told.DecisionIn,
        errors=_DECIDING,
        says="Bound to the digest of the action that you were shown. It runs nothing.",
    ),
    Operation(
        "POST",
        "/decisions",
        "decideSeveral",
        "Several decisions at once; each stands for itself",
        Api.decide_all,
        told.AnswersOut,
        body=told.AnswersIn,
        says="The answer is 200 whatever came of each: read every `problem`.",
    ),
    Operation(
        "GET",
        "/attempts/{id}",
        "showAttempt",
        "One attempt: what was sent, and what is known of it",
        Api.attempt,
        told.AttemptOut,
        leads=(Lead("settleAttempt", "/packet/attempt"), Lead("showTimeline", "/packet/run")),
    ),
    Operation(
        "POST",
        "/attempts/{id}",
        "settleAttempt",
        "Say what is known of an attempt whose outcome is unknown",
        Api.settle,
        told.DoneOut,
        body=told.SettleIn,
        errors=_DECIDING,
    ),
    Operation(
        "GET",
        "/runs",
        "listRuns",
        "Runs, newest first",
        Api.runs,
        told.RunsOut,
        query=told.RunsQuery,
        says="A page looks through a bounded number of runs: it may have few rows, or none, and a `next`.",
        leads=(Lead("showRun", "/rows/0/run"), Lead("showTimeline", "/rows/0/run")),
    ),
    Operation(
        "GET",
        "/runs/{id}",
        "showRun",
        "One run: where it stands",
        Api.run,
        told.RunOut,
        leads=(Lead("actOnRun", "/packet/run"),),
    ),
    Operation(
        "GET",
        "/runs/{id}/timeline",
        "showTimeline",
        "What happened in a run, in order",
        Api.timeline,
        told.TimelineOut,
        query=told.TimelineQuery,
    ),
    Operation(
        "POST",
        "/runs/{id}",
        "actOnRun",
        "Stop a run, or acknowledge that one ended with a question",
        Api.act_on_run,
        told.DoneOut,
        body=told.RunActIn,
        errors=_DECIDING,
        says="A stopped run stays stopped.",
    ),
    *SWITCHING,
    Operation(
        "GET",
        "/reviews",
        "showReviews",
        "How long people take, and what they answer",
        Api.reviews,
        Reviews,
        query=told.ReviewsQuery,
    ),
    Operation(
        "GET",
        "/events",
        "watch",
        "A stream that says that what you may see has changed, and not what",
        Api.events,
        None,
        query=told.EventsQuery,
        errors={429: "too many streams are open"},
        says='Server-sent events of the kind `changed`, whose data is `{"counter": n}`: a number that is another'
        " where what you may see is, and counts nothing; `Last-Event-ID` is heard.",
    ),
    Operation("GET", "/whoami", "whoami", "Who this gateway takes you for", Api.whoami, told.WhoOut),
)


def api_routes(desk: Desk, book: Book, changes: Changes, *, version: str) -> Sequence[BaseRoute]:
    """The API, for the application behind the door, which knows the reviewer of each request."""
    api = Api(desk, book, changes)
    described = document(TABLE, root=ROOT + UNDER, version=version)

    async def openapi(_: Request) -> Response:
        return JSONResponse(described)

    routes = [Route("/openapi.json", openapi, methods=["GET"]), *_routes(api)]
    inside = Starlette(routes=routes, exception_handlers={HTTPException: _no_such_route, Exception: _broken})
    inside.router.redirect_slashes = False
    return [Mount(UNDER, app=inside)]


def _routes(api: Api) -> Iterator[Route]:
    """One for each path; of two with the same path, Starlette would answer the second's method with 405."""
    paths: dict[str, dict[str, Operation[Api]]] = {}
    for one in TABLE:
        paths.setdefault(one.path, {})[one.method] = one
    for path, by_method in paths.items():
        yield Route(path, _answering(api, by_method), methods=[*by_method])


def _answering(api: Api, by_method: Mapping[str, Operation[Api]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        one = by_method["GET" if request.method == "HEAD" else request.method]
        try:
            return await _answer(api, one, request)
        except Troubled as troubled:
            return troubled.answer()
        except Refused as refused:
            return answer_of(refusal_of(refused), again_after(refused, api.book.clock.now()))
        except LedgerUnavailable as error:
            return answer_of(problem_of(503, "ledger", str(error)), LEDGER_RETRY)

    return answer


async def _answer(api: Api, one: Operation[Api], request: Request) -> Response:
    """Raises: Troubled, Refused, LedgerUnavailable."""
    name = request.path_params.get("id", "")
    if "id" in request.path_params and not is_name(name):
        return answer_of(not_there())
    query = query_of(request, one.query)
    body = None if one.body is None else await body_of(request, one.body)
    done = await one.does(api, Asked(reviewer_of(request), request, name, query, body))
    return done if isinstance(done, Response) else Response(done.model_dump_json(), media_type="application/json")


async def _no_such_route(_: Request, error: Exception) -> Response:
    status, headers = (error.status_code, error.headers) if isinstance(error, HTTPException) else (404, None)
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        return answer_of(problem_of(status, "method", "this path has no such method"), headers)
    return answer_of(problem_of(status, "unknown", "there is no such path in this API"), headers)


async def _broken(_: Request, __: Exception) -> Response:
    """What nobody foresaw, such as a run whose records do not fit together; the server's log has it as well."""
    return answer_of(problem_of(500, "broken", "this cannot be told: the log of the gateway says why"))
