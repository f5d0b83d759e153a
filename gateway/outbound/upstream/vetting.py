"""(a question of an upstream's to the user) -> the question as it is passed on, or why it is not. Pure.

A form of the client's looks like the client's own, and whoever fills it in does not see who asks. So it says whose it
is, no form asks for a secret, and an address is one that shows where it leads [MCP, elicitation; hardening T38].
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from gateway.model.tool import Answer, InputRequired, ProtocolError
from gateway.outbound.upstream.wire import INVALID_PARAMS

MAX_FIELDS = 200
"""Of one form; more than anybody fills in."""
ELICIT = "elicitation/create"
VISIT = -32042

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET = re.compile(
    r"\b(?:pass ?(?:word|wd|phrase|code)s?|pwd|secrets?|credentials?|otp|totp|mfa|cvv|cvc|pin|mnemonic"
    r"|(?:api|access|private|secret|signing|encryption|recovery|ssh|master) ?keys?|apikey|seed phrase"
    r"|(?:one time|verification|security|auth(?:entication)?|2fa|sms|backup|recovery) ?codes?"
    r"|(?:card|account|social security|routing) numbers?|ssn|iban"
    r"|(?:access|auth|api|bearer|refresh|session|id|secret|personal access|security) tokens?)\b"
)
_TOKEN = re.compile(r"^(?:my |your |the |user |github |gitlab |slack |jwt )*token$")
"""Alone; `page_token` and `max_tokens` are none."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


def vetted(upstream: str | None, params: Mapping[str, Any], *, secrets: bool) -> Mapping[str, Any] | str:
    """The params of an `elicitation/create` as the client may have them, or why it may not, in one line.

    `upstream` is whose question it is, None where there is only one. `secrets`: the operator lets it ask for them.
    """
    if params.get("mode") == "url" or "url" in params:
        wrong = _unfit_address(params.get("url"))
    else:
        wrong = None if secrets else _asks_for_a_secret(params)
    if wrong is not None:
        return wrong
    message = params.get("message")
    if upstream is None or not isinstance(message, str):
        return params
    return {**params, "message": f"[{upstream}] {message}"}


def vetted_rounds(upstream: str | None, answer: Answer, *, secrets: bool) -> Answer:
    """As `vetted`, for the questions of a round; where one is not passed on, the call has ended with an error."""
    if isinstance(answer, ProtocolError) and answer.error.get("code") == VISIT:
        return _vetted_visits(upstream, answer)
    asked = answer.result.get("inputRequests") if isinstance(answer, InputRequired) else None
    if not isinstance(answer, InputRequired) or not isinstance(asked, Mapping):
        return answer
    passed = dict(asked)
    for key, request in asked.items():
        if not isinstance(request, Mapping) or request.get("method") != ELICIT:
            continue
        params = request.get("params")
        fit = vetted(upstream, params, secrets=secrets) if isinstance(params, Mapping) else {}
        if isinstance(fit, str):
            return refusal(fit)
        if params is not None:
            passed[key] = {**request, "params": fit}
    return InputRequired({**answer.result, "inputRequests": passed})


def _vetted_visits(upstream: str | None, answer: ProtocolError) -> Answer:
    """The error that says which addresses to visit before the call is made again [MCP 2025-11-25]."""
    data = answer.error.get("data")
    listed = data.get("elicitations") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(listed, list):
        return answer
    passed: list[Any] = []
    for one in listed:
        fit = vetted(upstream, {"url": None, **one}, secrets=False) if isinstance(one, Mapping) else "it is no address"
        if isinstance(fit, str):
            return refusal(fit)
        passed.append(fit)
    return ProtocolError({**answer.error, "data": {**data, "elicitations": passed}})


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


def _asks_for_a_secret(params: Mapping[str, Any]) -> str | None:
    schema = params.get("requestedSchema")
    fields = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(fields, Mapping):
        return None
    if len(fields) > MAX_FIELDS:
        return f"it has more than {MAX_FIELDS} fields"
    for name, field in fields.items():
        if not isinstance(field, Mapping) or not _is_free(field):
            continue
        for text in _says(str(name), field):
            if _SECRET.search(text) or _TOKEN.match(text):
                return (
                    f"the field `{str(name)[:64]}` asks for a secret, which no form may; ask by an address, or let the "
                    "operator set `ask_secrets: true`"
                )
        if field.get("writeOnly") is True or field.get("format") == "password":
            return f"the field `{str(name)[:64]}` is for a secret, which a form may not ask for"
    message = params.get("message")
    free = any(isinstance(field, Mapping) and _is_free(field) for field in fields.values())
    if free and isinstance(message, str) and _SECRET.search(_plain(message)):
        return "its message asks for a secret, which a form may not; ask by an address"
    return None


def _is_free(field: Mapping[str, Any]) -> bool:
    """Whether anything can be typed there: what is chosen or ticked is no secret."""
    chosen = {"enum", "oneOf", "anyOf", "const"} & field.keys()
    return not chosen and field.get("type") not in {"boolean", "array"}


def _says(name: str, field: Mapping[str, Any]) -> Iterator[str]:
    yield _plain(name)
    yield from (_plain(text) for part in ("title", "description") if isinstance(text := field.get(part), str))


def _plain(text: str) -> str:
    """In words, lower case: `apiKey`, `API_KEY` and `api-key` are one."""
    return " ".join(_WORDS.findall(text[:4096])).lower()
