"""What the door says to whom it does not let in: a page for people, JSON for programs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, JSONResponse, Response

from gateway.inbound.console.api.problems import LEDGER_RETRY, answer_of, problem_of
from gateway.inbound.console.paths import ASSISTANTS, LOGIN, ROOT, STYLE


class Refusal(Exception):
    """The request ends here."""

    def __init__(self, status: int, why: str, how: str = "", *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.why = why
        self.how = how
        """What to do instead."""
        self.headers = dict(headers or {})


def ledger_gone() -> Refusal:
    """Nobody can be let in without the ledger."""
    return Refusal(503, "the ledger cannot be asked now", "try again in a moment", headers=LEDGER_RETRY)


@dataclass(frozen=True, slots=True)
class Words:
    """Says refusals."""

    oidc: bool = field(default=False)
    """Whether people may sign in elsewhere."""

    def response(self, refusal: Refusal, headers: Headers, wanted: str = f"{ROOT}/") -> Response:
        """As whoever asks can read it; `wanted` is the page that they asked for."""
        if wants_json(headers):
            said = {"error": refusal.why, **({"next": refusal.how} if refusal.how else {})}
            return JSONResponse(said, refusal.status, headers=refusal.headers)
        there = f"{ROOT}{LOGIN}?to={quote(wanted)}"
        more = f'<p><a class="button" href="{escape(there)}">Sign in</a></p>' if self._offers(refusal) else ""
        body = f"<h1>{escape(_capital(refusal.why))}</h1><p>{_marked(refusal.how)}</p>{more}"
        return HTMLResponse(page(_capital(refusal.why), body), refusal.status, headers=refusal.headers)

    def _offers(self, refusal: Refusal) -> bool:
        return self.oidc and refusal.status == 401  # noqa: PLR2004 - who are you?


def is_for_programs(path: str) -> bool:
    """Whether no person reads what is said there."""
    return path.startswith((f"{ROOT}/api/", f"{ROOT}{ASSISTANTS}"))


def problem_at(refusal: Refusal) -> Response:
    """As programs read it: as everything that the API refuses."""
    detail = f"{refusal.why}: {refusal.how}" if refusal.how else refusal.why
    check = _CHECKS.get(refusal.status, "door")
    return answer_of(problem_of(refusal.status, check, detail), refusal.headers)


_CHECKS = {401: "who", 404: "unknown", 408: "slow", 413: "size", 421: "host", 431: "size", 503: "ledger"}


def wants_json(headers: Headers) -> bool:
    """Programs say so, or show a token."""
    accept = headers.get("accept", "").lower()
    asked = "application/json" in accept and "text/html" not in accept
    return asked or "authorization" in headers


def page(title: str, body: str) -> str:
    """A page of the door; `body` is HTML, `title` is not."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} · Counterfoil</title>"
        f'<link rel="stylesheet" href="{ROOT}{STYLE}"></head>'
        f"<body><main>{body}</main></body></html>"
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _marked(text: str) -> str:
    """Escaped, with what stands in back-ticks as code."""
    parts = escape(_capital(text)).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))
