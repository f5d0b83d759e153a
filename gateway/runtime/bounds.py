"""(what would be told of an answer, how much may be) -> what is told of it. Nothing goes missing silently. Pure.

Long texts keep head and tail, with a mark between that says what is missing and where it can be read. What a program
reads stays valid: `structuredContent` of a tool with an output schema is shortened only if it still keeps that, else it
is told whole; without a schema it may be left out.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from gateway.model.answer import RECORD_KEY
from gateway.model.artifact import Artifact
from gateway.model.canonical import Digest
from gateway.runtime.clipping import LEAST, Clipper, link, shared, size

Fits: TypeAlias = Callable[[Any], bool] | None
"""Whether a `structuredContent` keeps the tool's output schema; None where there is none to keep."""

Told: TypeAlias = tuple[dict[str, Any], dict[str, Any]]
"""The answer as it is told, and what our record says of that."""

MAX_LISTED = 20
"""Parts of an answer that our record lists as shortened."""


def bounded(payload: Mapping[str, Any], most: int, whole: Artifact, cited: Digest, fits: Fits) -> Told | None:
    """The result in about `most` bytes; None where it is told as it is."""
    of = size(payload)
    if of <= most:
        return None
    clipper, said = Clipper(whole, cited), None
    told = _known(payload, clipper)
    content = told.get("content", [])
    lengths = [size(content)] + ([size(told["structuredContent"])] if "structuredContent" in told else [])
    room = max(most - (size(told) - sum(lengths)), 2 * LEAST)
    if len(lengths) > 1:
        said = _structured(told, clipper, shared(lengths, room), fits)
        room = max(room - size(told.get("structuredContent")), 2 * LEAST)
    if content:
        shorter = clipper.content(content, room)
        told["content"] = [*shorter, *clipper.links]
    if not clipper.left_out and said is None:
        return None
    if not clipper.links and (said == "left_out" or (said is None and clipper.left_out)):
        told["content"] = [*told.get("content", ()), *_instead(whole, cited, "structuredContent" if said else "")]
    return told, {"bounded": _label(told, of, whole, cited, clipper, said)}


def bounded_error(error: Mapping[str, Any], most: int, whole: Artifact, cited: Digest) -> Told | None:
    """The same for a JSON-RPC error, whose record stands in `data`."""
    of = size(error)
    if of <= most:
        return None
    clipper = Clipper(whole, cited)
    told = {name: value for name, value in error.items() if name in _ERRORS or size({name: value}) <= LEAST}
    for name in error.keys() - told.keys():
        clipper.member(name)
    if isinstance(message := error.get("message"), str) and size(message) > most // 2:
        told["message"] = clipper.text(message, most // 2, "message")
    data = error.get("data")
    kept = data if isinstance(data, Mapping) and size(data) <= most // 2 else {}
    if "data" in error and not kept:
        clipper.left_out.append({"at": "/data"})
    label = {"bounded": _label(told | {"data": kept}, of, whole, cited, clipper, None)}
    ours = kept.get(RECORD_KEY)
    told["data"] = {**kept, RECORD_KEY: {**(ours if isinstance(ours, Mapping) else {}), **label}}
    return told, label


def referred(
    payload: Mapping[str, Any], earlier: Artifact, step: int, tool: str, cited: Digest, fits: Fits
) -> Told | None:
    """The result by the one that the client has; None where that would be no shorter."""
    of = size(payload)
    clipper = Clipper(earlier, cited)
    said = f"this result is, byte for byte, the one that you have of step {step} (`{tool}`, attempt {earlier.attempt})"
    mark = f"[counterfoil: {said}: {of} bytes, recorded as {cited}; read it again at {earlier}]"
    told = _known(payload, Clipper(earlier, cited))
    told["content"] = [{"type": "text", "text": mark}, link(earlier, "the same result", of)]
    structured = None
    if "structuredContent" in told and fits is None:
        structured = "left_out"
        del told["structuredContent"]
    elif "structuredContent" in told:
        structured = _structured(told, clipper, 0, fits)
    label: dict[str, Any] = {"attempt": earlier.attempt, "step": step, "tool": tool, "digest": cited}
    label |= {"artifact": str(earlier), "of": of, "bytes": (length := size(told))}
    if structured is not None:
        label["structured"] = structured
    return (told, {"repeats": label}) if length < of else None


_RESULTS = frozenset({"content", "structuredContent", "_meta"})
_ERRORS = frozenset({"code", "message", "data"})


def _known(payload: Mapping[str, Any], clipper: Clipper) -> dict[str, Any]:
    """The result without what is long and no part of a result: a server could put all of its words there."""
    told = dict(payload)
    for name, value in payload.items():
        no_blocks = name == "content" and not isinstance(value, list)
        if no_blocks or (name not in _RESULTS and size({name: value}) > LEAST):
            del told[name]
            clipper.member(name)
    return told


def _structured(told: dict[str, Any], clipper: Clipper, room: int, fits: Fits) -> str | None:
    """What became of `structuredContent`; None where it is told as it is and there is room for it."""
    value = told["structuredContent"]
    if size(value) <= max(room, LEAST):
        return None
    shorter = clipper.structured(value, room)
    small = size(shorter) <= 2 * max(room, LEAST)
    if clipper.left_out and (small if fits is None else fits(shorter)):
        told["structuredContent"] = shorter
        return "shortened"
    clipper.left_out.clear()
    if fits is not None:
        return "whole"
    del told["structuredContent"]
    return "left_out"


def _instead(whole: Artifact, cited: Digest, name: str) -> list[dict[str, Any]]:
    """In the place of a member where it is all that was left out, or of members that are no parts of a result."""
    part = whole.part(name) if name else whole
    what = f"`{name}` is" if name else "parts that no result has are"
    said = f"{what} left out here. It is recorded as part of {cited}; read it at {part}"
    return [{"type": "text", "text": f"[counterfoil: {said}]"}, link(part, name or "the whole result")]


def _label(
    told: Mapping[str, Any], of: int, whole: Artifact, cited: Digest, clipper: Clipper, structured: str | None
) -> dict[str, Any]:
    label: dict[str, Any] = {"bytes": size(told), "of": of, "digest": cited, "artifact": str(whole)}
    label["left_out"] = clipper.left_out[:MAX_LISTED]
    if len(clipper.left_out) > MAX_LISTED:
        label["more"] = len(clipper.left_out) - MAX_LISTED
    return label if structured is None else {**label, "structured": structured}
