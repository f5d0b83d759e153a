"""How much of what comes in telemetry believes, and how much of it goes out."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from gateway.model.canonical import NotStrictJson, parse

Remote: TypeAlias = Literal["parent", "link", "ignore"]
"""What becomes of a caller's trace: ours go on in it; ours begin anew and are linked to it; or nothing."""

CUT = "…"

DEEP = 64
"""Levels of JSON that are redacted as such; what is deeper is redacted as text."""
SHORT, LONG = 16_384, 4
"""Bytes of a value that is always looked through, and by how much it may be longer than what is told of it."""


def nothing(_: Any) -> None:
    """Of no value is anything told: where nobody says how to redact it."""


@dataclass(frozen=True, slots=True)
class Options:
    """As the configuration says."""

    remote: Remote = "parent"
    events: bool = True
    """Whether somebody takes log events."""
    figures: bool = True
    """Whether somebody takes metrics."""
    on_spans: bool = False
    """Whether spans tell content: arguments, results, the texts of errors and reasons."""
    on_events: bool = False
    """Whether log events do."""
    max_bytes: int = 8_192
    """Of each value that is told."""
    redact: Callable[[Any], Any] = nothing
    """Takes secrets out of a JSON value that is no deeper than `DEEP`, or of a text. Before it is cut: half a secret is
    not recognised."""
    codes: tuple[str, ...] = ("rpc.response.status_code",)
    """Under which names a JSON-RPC error code is told [OTEL_SEMCONV_STABILITY_OPT_IN]."""

    @property
    def tells(self) -> bool:
        """Whether content goes out at all."""
        return self.on_spans or self.on_events

    def shown(self, text: str) -> str:
        """A text as it may go out: redacted, then cut."""
        if len(text) > max(SHORT, LONG * self.max_bytes):
            return f"[{len(text)} characters]"
        return cut(str(self.redact(text)), self.max_bytes)

    def payload(self, body: bytes) -> str:
        """JSON as it may go out. Of what is much longer than may be told, only the size: to look through it would keep
        all others waiting.
        """
        if len(body) > max(SHORT, LONG * self.max_bytes):
            return f"[{len(body)} bytes]"
        try:
            value = parse(body, max_depth=DEEP)
        except NotStrictJson:
            return self.shown(body.decode("utf-8", "replace"))
        clean = json.dumps(self.redact(value), ensure_ascii=False, separators=(",", ":"))
        return cut(clean, self.max_bytes)


def cut(text: str, max_bytes: int) -> str:
    """At most so many bytes of UTF-8, with a mark where something is missing."""
    body = text.encode("utf-8", "replace")
    if len(body) <= max_bytes:
        return body.decode()
    return body[: max_bytes - len(CUT.encode())].decode("utf-8", "ignore") + CUT


def status_codes(opt_in: str) -> tuple[str, ...]:
    """The names, by what OTEL_SEMCONV_STABILITY_OPT_IN says: `rpc`, `rpc/dup` or neither."""
    asked = {one.strip() for one in opt_in.split(",")}
    if "rpc/dup" in asked:
        return "rpc.response.status_code", "rpc.status_code"
    return ("rpc.status_code",) if "rpc" in asked else ("rpc.response.status_code",)
