"""(a question of an upstream's to the user) -> the question as it is passed on, or why it is not. Pure.

A form of the client's looks like the client's own, and whoever fills it in does not see who asks. So it says whose it
is, no form asks for a secret, and an address is one that shows where it leads [MCP, elicitation; hardening T38].
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from gateway.model.hidden import MORE, hidden, unhidden
from gateway.model.tool import Answer, InputRequired, ProtocolError, TaskStarted, ToolResult
from gateway.outbound.upstream.secret_words import MAX_READ, asks_for_a_secret
from gateway.outbound.upstream.wire import INVALID_PARAMS

MAX_FIELDS = 200
"""Of one form; more than anybody fills in."""
_TOO_LONG = f"it says more than {MAX_READ} characters"
ELICIT = "elicitation/create"
SAMPLE = "sampling/createMessage"
VISIT = -32042

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


def passed(upstream: str | None, method: str, params: Mapping[str, Any], *, secrets: bool) -> Mapping[str, Any] | str:
    """The params of a question of any method, as `vetted`."""
    if method == ELICIT:
        return vetted(upstream, params, secrets=secrets)
    if method == SAMPLE and upstream is not None and params.get("includeContext", "none") != "none":
        # To the client all servers are one, ours: what it knows of "this server" it may have of another.
        return {**params, "includeContext": "none"}
    return params


def vetted(upstream: str | None, params: Mapping[str, Any], *, secrets: bool) -> Mapping[str, Any] | str:
    """The params of an `elicitation/create` as the client may have them, or why it may not, in one line.

    `upstream` is whose question it is, None where there is only one. `secrets`: the operator lets it ask for them.
    """
    message = params.get("message")
    wrong = None if isinstance(message, str | None) else "its message is no text"
    if wrong is None and (params.get("mode") == "url" or "url" in params):
        wrong = _unfit_address(params.get("url"))
    # Of what is both nobody knows what a client makes of it: so it must be fit as either.
    if wrong is None and not secrets:
        wrong = _asks_for_a_secret(params)
    if wrong is not None:
        return wrong
    if message is None:
        return params
    seen = _seen(message)
    told = seen if upstream is None else f"[{upstream}] {seen}"
    return params if told == message else {**params, "message": told}


def vetted_rounds(upstream: str | None, answer: Answer, *, secrets: bool, task: bool = False) -> Answer:
    """As `vetted`, for the questions of a round; where one is not passed on, the call has ended with an error.

    `task`: it answers what a client asks of a task, whose questions and whose error stand in a result.
    """
    match answer:
        case ProtocolError(error):
            return _vetted_visits(upstream, answer) if error.get("code") == VISIT else answer
        case ToolResult(result) if task:
            failed = result.get("error")
            if isinstance(failed, Mapping) and failed.get("code") == VISIT:
                seen = _vetted_visits(upstream, ProtocolError(failed))
                result = {**result, "error": dict(seen.error)}
        case InputRequired(result) | TaskStarted(result):
            pass
        case _:
            return answer
    told = _vetted_requests(upstream, result, secrets=secrets)
    return refusal(told) if isinstance(told, str) else type(answer)(told)


def _vetted_requests(upstream: str | None, result: Mapping[str, Any], *, secrets: bool) -> Mapping[str, Any] | str:
    asked = result.get("inputRequests")
    if not isinstance(asked, Mapping):
        return result
    told = dict(asked)
    for key, request in asked.items():
        method = request.get("method") if isinstance(request, Mapping) else None
        if method not in {ELICIT, SAMPLE}:
            continue
        params = request.get("params")
        fit = passed(upstream, method, params, secrets=secrets) if isinstance(params, Mapping) else {}
        if isinstance(fit, str):
            return fit
        if params is not None:
            told[key] = {**request, "params": fit}
    return {**result, "inputRequests": told}


def _vetted_visits(upstream: str | None, answer: ProtocolError) -> ProtocolError:
    """The error that says which addresses to visit before the call is made again [MCP 2025-11-25]."""
    data = answer.error.get("data")
    listed = data.get("elicitations") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(listed, list):
        return answer
    told: list[Any] = []
    for one in listed:
        fit = vetted(upstream, {"url": None, **one}, secrets=False) if isinstance(one, Mapping) else "it is no address"
        if isinstance(fit, str):
            return refusal(fit)
        told.append(fit)
    return ProtocolError({**answer.error, "data": {**data, "elicitations": told}})


def refusal(why: str) -> ProtocolError:
    """What an upstream is told whose question is not passed on, or a client whose call it held up."""
    return ProtocolError({"code": INVALID_PARAMS, "message": f"the gateway does not pass on this question: {why}"})


def _unfit_address(url: object) -> str | None:
    if not isinstance(url, str) or not _PRINTABLE.fullmatch(url) or "\\" in url:
        return "its address is no plain one; write hosts beyond ASCII as `xn--…`"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "its address is none"
    if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOOPBACK):
        return "its address is not https"
    if not host or "@" in parts.netloc or "%" in parts.netloc:
        return "its address has a user name before the host, or no plain host"
    return None


def _seen(message: str) -> str:
    """Without what turns, moves or hides its text: a user reads it, and who asks stands at its beginning."""
    return (
        str(unhidden(message)) if MORE not in hidden(message) else message.encode("ascii", "backslashreplace").decode()
    )


def _asks_for_a_secret(params: Mapping[str, Any]) -> str | None:
    schema = params.get("requestedSchema")
    if not isinstance(schema, Mapping):
        return None
    free, read = False, 0
    for count, (name, field) in enumerate(_fields(schema), 1):
        if count > MAX_FIELDS:
            return f"it has more than {MAX_FIELDS} fields"
        if not _is_free(field):
            continue
        free, said = True, (name, *_says(field))
        read += sum(map(len, said))
        if read > MAX_READ:
            return _TOO_LONG
        if any(map(asks_for_a_secret, said)):
            return (
                f"the field `{name[:64]}` asks for a secret, which no form may; ask by an address, or let the "
                "operator set `ask_secrets: true`"
            )
        if field.get("writeOnly") is True or field.get("format") == "password":
            return f"the field `{name[:64]}` is for a secret, which a form may not ask for"
    heads = (params.get("message"), *(schema.get(part) for part in ("title", "description")))
    said = tuple(text for text in heads if free and isinstance(text, str))
    if read + sum(map(len, said)) > MAX_READ:
        return _TOO_LONG
    if any(asks_for_a_secret(text, label=False) for text in said):
        return "its message asks for a secret, which a form may not; ask by an address"
    return None


def _fields(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All that anybody could be asked for, wherever in the schema it stands: clients differ in what they draw."""
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        if not isinstance(part, Mapping):
            continue
        for word, value in part.items():
            if word in {"properties", "patternProperties"} and isinstance(value, Mapping):
                yield from ((str(name), field if isinstance(field, Mapping) else {}) for name, field in value.items())
            if isinstance(value, Mapping | list):
                waiting.append(value)


def _is_free(field: Mapping[str, Any]) -> bool:
    """Whether anything can be typed there: what is chosen or ticked is no secret."""
    if field.get("type") == "boolean" or "const" in field:
        return False
    if field.get("type") == "array":
        items = field.get("items")
        return not isinstance(items, Mapping) or _is_free(items)
    if isinstance(field.get("enum"), list):
        return not field["enum"]
    choices = field.get("oneOf", field.get("anyOf"))
    return not (isinstance(choices, list) and choices and all("const" in one for one in choices if _is_map(one)))


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)


def _says(field: Mapping[str, Any]) -> Iterator[str]:
    """What is drawn beside it, or in it as long as it is empty."""
    for part in ("title", "description", "default", "placeholder"):
        if isinstance(text := field.get(part), str):
            yield text
