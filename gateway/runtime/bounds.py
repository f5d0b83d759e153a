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
    blocks, clipper = payload.get("content"), Clipper(whole, cited)
    content = blocks if isinstance(blocks, list) else []
    lengths = [size(content)] + ([size(payload["structuredContent"])] if "structuredContent" in payload else [])
    room = max(most - (of - sum(lengths)), 2 * LEAST)
    told, said = dict(payload), None
    if len(lengths) > 1:
        said = _structured(told, clipper, shared(lengths, room), fits)
        room = max(room - size(told.get("structuredContent")), 2 * LEAST)
    if content:
        shorter = clipper.content(content, room)
        told["content"] = [*shorter, *clipper.links]
    if not clipper.left_out and said is None:
        return None
    if said == "left_out" and not clipper.links:
        told["content"] = [*told.get("content", ()), *_instead(whole, cited)]
    return told, {"bounded": _label(told, of, whole, cited, clipper, said)}


def bounded_error(error: Mapping[str, Any], most: int, whole: Artifact, cited: Digest) -> Told | None:
    """The same for a JSON-RPC error, whose record stands in `data`."""
    of = size(error)
    if of <= most:
        return None
    clipper, told = Clipper(whole, cited), dict(error)
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
    told = dict(payload)
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


def _instead(whole: Artifact, cited: Digest) -> list[dict[str, Any]]:
    """In the place of `structuredContent` where it is all that was left out."""
    part = whole.part("structuredContent")
    said = f"`structuredContent` is left out here. It is recorded as part of {cited}; read it at {part}"
    return [{"type": "text", "text": f"[counterfoil: {said}]"}, link(part, "structuredContent")]


def _label(
    told: Mapping[str, Any], of: int, whole: Artifact, cited: Digest, clipper: Clipper, structured: str | None
) -> dict[str, Any]:
    label: dict[str, Any] = {"bytes": size(told), "of": of, "digest": cited, "artifact": str(whole)}
    label["left_out"] = clipper.left_out[:MAX_LISTED]
    if len(clipper.left_out) > MAX_LISTED:
        label["more"] = len(clipper.left_out) - MAX_LISTED
    return label if structured is None else {**label, "structured": structured}
