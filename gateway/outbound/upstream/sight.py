"""What is seen of requests to upstreams, and what an upstream is told of the trace that they belong to.

Its parent is the span of the very request that it gets, never the client's own context passed on: then it would be a
sibling of ours. Baggage is the client's, and may hold anything: a key of it goes on only where that is allowed
[MCP 2026-07-28, `_meta`; W3C Baggage].
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from gateway.outbound.upstream.call import Call
from gateway.outbound.upstream.spec import HttpSpec, Spec
from gateway.ports import Observing, Sending

BAGGAGE: Literal["baggage"] = "baggage"
_PORTS = {"https": 443}


@dataclass(frozen=True, slots=True)
class Sight:
    """What is seen of requests, and the keys of baggage that go on."""

    observing: Observing | None = None
    baggage: frozenset[str] = frozenset()

    def meta(self, meta: Mapping[str, Any]) -> Mapping[str, Any]:
        """The client's `_meta` with no more baggage than may go on."""
        if BAGGAGE not in meta:
            return meta
        kept = allowed(meta[BAGGAGE], self.baggage)
        rest = {key: value for key, value in meta.items() if key != BAGGAGE}
        return {**rest, BAGGAGE: kept} if kept else rest


UNSEEN = Sight()
"""Nobody looks, and no baggage goes on."""


MAX_BAGGAGE = 8_192
"""Bytes of baggage that go on, in all [W3C Baggage, 3.3.2]."""
MAX_STATE = 512
"""Characters of a trace state that go into a header: no more than every hop must take [W3C Trace Context, 3.3.1.1].
Servers refuse a request for a longer line, and then nobody knows whether a call was made. `_meta` has it whole.
"""
_MEMBER = re.compile(r"[!#-+\--:<-\[\]-~=; \t]*")
"""What a member may be written in: no control character, quote, comma or letter beyond ASCII."""


def allowed(told: Any, keys: frozenset[str]) -> str:
    """The members of a baggage header whose keys may go on; empty if none may."""
    members = told.split(",") if isinstance(told, str) and keys else []
    kept: list[str] = []
    left = MAX_BAGGAGE
    for one in (member.strip() for member in members):
        if one.partition("=")[0].strip() in keys and _MEMBER.fullmatch(one) and len(one) < left:
            kept.append(one)
            left -= len(one) + 1
    return ",".join(kept)


def for_headers(carrier: Mapping[str, str]) -> Mapping[str, str]:
    """Trace context, as HTTP carries it."""
    if len(carrier.get("tracestate", "")) <= MAX_STATE:
        return carrier
    return {name: value for name, value in carrier.items() if name != "tracestate"}


def sending(call: Call, version: str, upstream: str, address: tuple[str, int] | None) -> Sending:
    """The call, as observers are told of it."""
    target = call.ask.name if call.ask.method in {"tools/call", "prompts/get"} else None
    return Sending(call.ask.method, target, upstream, call.id, version, address)


def address_of(spec: Spec) -> tuple[str, int] | None:
    """Host and port of an upstream; None over stdio."""
    if not isinstance(spec, HttpSpec):
        return None
    parts = urlsplit(spec.url)
    try:
        port = parts.port
    except ValueError:  # no port at all; whoever connects says so
        port = None
    return parts.hostname or "", port or _PORTS.get(parts.scheme, 80)
