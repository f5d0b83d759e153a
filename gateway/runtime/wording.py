"""(what waits, for which channel) -> the message. Pure; nothing of it is markup, whatever the channel shows.

Names of tools, principals and rules may come from servers, agents and identity sources. What hides is spelled out, and
what chats take for a mention, a link or a style; and all is cut, so that people can trust what stands around it.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from gateway.model.answering import page_of
from gateway.model.events import Who
from gateway.model.notice import Notice, Stage
from gateway.model.unseen import spelled_out
from gateway.runtime.matters import Matter

MAX_NAME = 80
MAX_SENTENCE = 200

_MARKUP = re.compile(
    r"[<>\[\]`*~|&@#]"  # tags, Slack's mentions, Markdown, `@everyone`, addresses, channels
    r"|(?<![a-z0-9_])_+|_+(?![a-z0-9_])"  # emphasis; within a word it is a letter
    r"|(?<=:)//|(?<=[a-z]):(?=\S)"  # schemes
    r"|(?<=\w)\.(?=[a-z]{2})",  # hosts
    re.IGNORECASE,
)
"""What chats make a link, a mention or a style of."""

_IN_NAMES = re.compile(r"[<>\[\]`*~|&#]|(?<!\w)@|(?<=:)//|(?<=www)\.", re.IGNORECASE)
"""The same for names of people, which are addresses of mail as often as not, and come from who knows them."""


def quiet(text: str, most: int = MAX_NAME, markup: re.Pattern[str] = _MARKUP) -> str:
    """The text on one line, in which nothing hides, calls or leads elsewhere; or its beginning."""
    shown = spelled_out(" ".join(text.split()))
    shown = markup.sub(lambda found: "".join(f"\\u{{{ord(char):x}}}" for char in found[0]), shown)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _person(name: str) -> str:
    return quiet(name, markup=_IN_NAMES)


def message(asked: Matter, notice_id: str, stage: Stage, link: str | None, now: datetime) -> Notice:
    """What the channel says."""
    return Notice(
        id=notice_id,
        kind=f"{asked.about}.{_KINDS[stage]}",
        title=_title(asked, stage, now),
        body="\n".join(f"{name}: {said}" for name, said in _lines(asked, stage, link) if said),
        data=_data(asked, link),
    )


_KINDS: dict[Stage, str] = {"asked": "asked", "soon": "expiring", "over": "over"}


def _title(asked: Matter, stage: Stage, now: datetime) -> str:
    what = quiet(asked.tool or asked.workflow)
    match stage:
        case "over":
            return f"No answer needed any more: {what}"
        case "soon":
            left = "" if asked.expires_at is None else f", {_span((asked.expires_at - now).total_seconds())} left"
            return f"Still waiting for an answer{left}: {what} ({asked.risk} risk)"
        case "asked":
            return f"{_TITLES[asked.about]} {what} ({asked.risk} risk)"


_TITLES = {
    "approval": "Approval wanted:",
    "unknown": "Outcome unknown, did it happen?",
    "escalation": "A run was handed to a person:",
}


def _lines(asked: Matter, stage: Stage, link: str | None) -> Iterator[tuple[str, str]]:
    if stage == "over":
        by = f" by {quiet(asked.instead)}" if asked.instead else ""
        yield "What became of it", f"{asked.state}{by}"
    yield "Tool", quiet(asked.tool or "")
    yield "Transition", quiet(asked.transition or "")
    yield "Why", quiet(asked.reason, MAX_SENTENCE)
    yield "Consequence", quiet(asked.consequence, MAX_SENTENCE)
    yield "Risk", asked.risk
    yield "Asked by", f"{_person(asked.principal)} (tenant {_person(asked.tenant)})" if asked.principal else ""
    yield "Run", f"{quiet(asked.run)} (workflow {quiet(asked.workflow)})"
    if stage != "over":
        yield "Answers", _answers(asked)
        yield "Until", _time(asked.expires_at)
    yield _DOES[asked.about] if stage != "over" else "Look", link or _command(asked)


def console_links(address: str) -> Callable[[Who | None, Matter], str]:
    """Where the console at that address shows what is asked; whoever opens it must still say who they are."""
    return lambda _reviewer, asked: page_of(address, asked.about, asked.name)


_DOES = {"approval": "Decide", "unknown": "Settle", "escalation": "Look"}


def _command(asked: Matter) -> str:
    return f"counterfoil packet {asked.name}"


def _answers(asked: Matter) -> str:
    if asked.about != "approval":
        return ""
    role = f", role {', '.join(map(quiet, asked.roles))}" if asked.roles else ""
    people = "1 person" if asked.needed == 1 else f"{asked.needed} people"
    agreed = f", {asked.agreed} agreed" if asked.agreed else ""
    return f"{people} must agree{agreed}{role}"


def _time(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _span(seconds: float) -> str:
    left = max(0, int(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if left >= 2 * size:
            return f"{left // size} {unit}"
    return f"{left} s"


def _data(asked: Matter, link: str | None) -> dict[str, Any]:
    """For machines: names as they are, for JSON says nothing by itself; but without what a person would not see."""
    return {
        "about": asked.about,
        "name": asked.name,
        "state": asked.state,
        "run": asked.run,
        "workflow": asked.workflow,
        "tenant": asked.tenant,
        "principal": _person(asked.principal),
        "tool": None if asked.tool is None else quiet(asked.tool),
        "transition": asked.transition,
        "reason": quiet(asked.reason, MAX_SENTENCE),
        "consequence": quiet(asked.consequence, MAX_SENTENCE),
        "risk": asked.risk,
        "asked_at": asked.asked_at.isoformat(timespec="seconds"),
        "expires_at": None if asked.expires_at is None else asked.expires_at.isoformat(timespec="seconds"),
        "roles": list(asked.roles),
        "agreed": asked.agreed,
        "needed": asked.needed,
        "instead": asked.instead or None,
        "link": link,
    }
