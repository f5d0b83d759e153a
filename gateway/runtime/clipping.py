"""A JSON value whose long texts lose their middle, and say so where it was: how much, and where to read it. Pure.

Texts are cut between characters and, where one is near, between lines.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from gateway.model.artifact import Artifact
from gateway.model.canonical import Digest, canonical

LEAST = 512
"""Bytes of a text that is never cut: what says so would take as many."""
LINK = 400
"""Bytes that a link to what was left out takes, or somewhat less."""
MARKED = 700
"""Bytes that a cut block takes at least: what says so, and its link."""
_MIME = 128
"""Characters of a media type that is passed on [RFC 6838, 4.2: at most 127 for each of its halves]."""
_SMALLEST = 32
"""Bytes that are kept of a cut text at least."""


def size(value: Any) -> int:
    """Bytes of the value as JSON."""
    return len(canonical(value))


def shared(sizes: Sequence[int], room: int) -> int:
    """How large one may be at most for all together to fit: what smaller ones leave, larger ones share."""
    left, count = room, len(sizes)
    for one in sorted(sizes):
        if one * count > left:
            return max(left, 0) // count
        left, count = left - one, count - 1
    return max(sizes, default=0)


class Clipper:
    """Cuts parts of one answer, and remembers what it left out."""

    def __init__(self, whole: Artifact, cited: Digest) -> None:
        self._whole = whole
        self._cited = cited
        self.left_out: list[dict[str, Any]] = []
        """Each `at` a JSON pointer: a `from` and a `to` in `of` bytes, or all that is there."""
        self.links: list[dict[str, Any]] = []
        """To what was left out of `content`."""

    # --- texts --------------------------------------------------------------------------------------------------------

    def text(self, text: str, most: int, *at: str | int) -> str:
        """The text in about so many bytes of JSON; the same object if that would make it no shorter."""
        body, whole, part = text.encode(), size(text), self._whole.part(*at)
        keep = max(most - MARKED + LINK, _SMALLEST) * len(body) // whole
        while True:
            start, end = _head(body, keep - keep // 3), _tail(body, keep // 3)
            if start >= end:
                return text
            told = self._joined(body, start, end, part)
            length = size(told)
            if length <= most or keep <= _SMALLEST:
                break
            keep = max(min(keep * most // length, keep * 3 // 4), _SMALLEST)  # what JSON escapes is longer there
        if length >= whole:
            return text
        self.left_out.append({"at": part.pointer, "from": start, "to": end, "of": len(body)})
        return told

    def _joined(self, body: bytes, start: int, end: int, part: Artifact) -> str:
        head, tail = body[:start].decode(), body[end:].decode()
        said = f"bytes {start} to {end} of {len(body)} are left out here. All of it is recorded as {self._cited}"
        mark = f"[counterfoil: {said}; read on at {part.following(start)}]"
        return f"{head}{'' if head.endswith(chr(10)) or not head else chr(10)}{mark}\n{tail}"

    # --- what no client asked for -------------------------------------------------------------------------------------

    def member(self, name: str) -> None:
        """That member of the answer is left out."""
        self.left_out.append({"at": self._whole.part(name).pointer if len(name) <= _MIME else ""})

    # --- `content` ----------------------------------------------------------------------------------------------------

    def content(self, blocks: Sequence[Any], room: int) -> list[Any]:
        """The blocks in about so many bytes: the middle of long ones is left out, and of too many the ones between."""
        sizes = [size(block) + 1 for block in blocks]
        if sum(sizes) <= room:
            return list(blocks)
        first, last = _ends(sizes, room) if len(blocks) * MARKED > room else (len(blocks), len(blocks))
        kept = [*range(first), *range(last, len(blocks))]
        left = room - (MARKED if last > first else 0)
        share = shared([sizes[place] for place in kept], left)
        over = {place for place in kept if sizes[place] > share}
        # What is told whole or not at all leaves the others more than its share.
        fills = [MARKED if place in over and not _is_text(blocks[place]) else sizes[place] for place in kept]
        share = shared(fills, left - len(over) * LINK)
        told = {
            place: self._block(blocks[place], place, share) if place in over or sizes[place] > share else blocks[place]
            for place in kept
        }
        between = [self._between(first, last, len(blocks))] if last > first else []
        return [*(told[place] for place in range(first)), *between, *(told[at] for at in range(last, len(blocks)))]

    def _block(self, block: Any, place: int, most: int) -> Any:
        inner = block.get("resource") if isinstance(block, dict) else None
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(text := block.get("text"), str):
            bare = size({**block, "text": ""})
            if bare > max(most // 2, LEAST):
                return self._replaced(block, place)  # it is not its text that makes it long
            cut = self.text(text, most - bare, "content", place, "text")
            return block if cut is text else self._linked({**block, "text": cut}, len(text.encode()), place, "text")
        if isinstance(inner, dict) and isinstance(text := inner.get("text"), str):
            bare = size({**block, "resource": {**inner, "text": ""}})
            if bare > max(most // 2, LEAST):
                return self._replaced(block, place)
            cut = self.text(text, most - bare, "content", place, "resource", "text")
            shorter = {**block, "resource": {**inner, "text": cut}}
            return block if cut is text else self._linked(shorter, len(text.encode()), place, "resource", "text")
        return self._replaced(block, place)

    def _replaced(self, block: Any, place: int) -> Any:
        """What has no text is told whole or not at all: half of a picture is none."""
        kind, at = "block", tuple[str | int, ...](("content", place))
        told = block if isinstance(block, dict) else {}
        mime = told.get("mimeType")
        if isinstance(told.get("data"), str):
            kind, at = str(told.get("type")), (*at, "data")
        elif isinstance(inner := told.get("resource"), dict) and isinstance(inner.get("blob"), str):
            kind, at, mime = "resource", (*at, "resource", "blob"), inner.get("mimeType")
        mime = mime if isinstance(mime, str) and len(mime) <= _MIME else None
        of, part = size(block), self._whole.part(*at)
        if of <= MARKED:
            return block
        what = kind[:32] if mime is None else f"{kind[:32]}, {mime[:64]}"
        said = f"a block ({what}) of {of} bytes is left out here. It is recorded as part of {self._cited}"
        self.left_out.append({"at": part.pointer})
        self.links.append(link(part, what, mime="application/json" if mime is None else mime))
        return {"type": "text", "text": f"[counterfoil: {said}; read it at {part}]"}

    def _between(self, first: int, last: int, of: int) -> dict[str, Any]:
        part = self._whole.part("content")
        said = f"blocks {first} to {last} of {of}, counted from 0, are left out here. They are recorded"
        self.left_out.append({"at": part.pointer, "blocks": {"from": first, "to": last, "of": of}})
        self.links.append(link(part, "all blocks"))
        return {
            "type": "text",
            "text": f"[counterfoil: {said} as part of {self._cited}; read the first of them at {part.part(first)}]",
        }

    def _linked(self, block: dict[str, Any], of: int, *at: str | int) -> dict[str, Any]:
        self.links.append(link(self._whole.part("content", *at), "the whole text", of, "text/plain"))
        return block

    # --- `structuredContent` ------------------------------------------------------------------------------------------

    def structured(self, value: Any, room: int) -> Any:
        """The value with its long texts cut so that it takes about so many bytes, if they are what makes it long."""
        sizes = [one for text in _texts(value) if (one := size(text)) > LEAST]
        share = max(shared(sizes, room - (size(value) - sum(sizes))), LEAST)
        return self._shorter(value, share, ("structuredContent",))

    def _instead(self, value: str, share: int, at: tuple[str | int, ...]) -> str:
        """What says that all of it is left out: half of what is base64 is nothing."""
        if size(value) <= share:
            return value
        part = self._whole.part(*at)
        self.left_out.append({"at": part.pointer})
        said = f"{len(value)} bytes of base64 are left out here. They are recorded as part of {self._cited}"
        return f"[counterfoil: {said}; read them at {part}]"

    def _shorter(self, value: Any, share: int, at: tuple[str | int, ...]) -> Any:
        if isinstance(value, str):
            return value if size(value) <= share else self.text(value, share, *at)
        if isinstance(value, dict):
            return {
                key: self._instead(one, share, (*at, key))
                if is_base64(value, key)
                else self._shorter(one, share, (*at, key))
                for key, one in value.items()
            }
        if isinstance(value, list):
            return [self._shorter(one, share, (*at, place)) for place, one in enumerate(value)]
        return value


def _is_text(block: Any) -> bool:
    inner = block.get("resource") if isinstance(block, dict) else None
    return isinstance(block, dict) and isinstance((inner if isinstance(inner, dict) else block).get("text"), str)


def is_base64(holder: Any, key: str) -> bool:
    """Whether that member stands for bytes, as in MCP's blocks: `data` or `blob`, beside the type of them."""
    told = isinstance(holder, dict) and isinstance(holder.get("mimeType"), str)
    return told and key in {"data", "blob"} and isinstance(holder[key], str)


def link(part: Artifact, name: str, of: int | None = None, mime: str = "application/json") -> dict[str, Any]:
    """A block that leads to what was left out; clients since 2025-06-18 know such ones."""
    told = {"type": "resource_link", "uri": str(part), "name": name, "mimeType": mime}
    return told if of is None else {**told, "size": of}


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _ends(sizes: Sequence[int], room: int) -> tuple[int, int]:
    """How many blocks of the beginning, and from which on those of the end are told; one of each at least."""
    first, taken = 1, sizes[0]
    while first < len(sizes) - 1 and taken + sizes[first] <= room // 2:
        taken, first = taken + sizes[first], first + 1
    last, taken = len(sizes) - 1, sizes[-1]
    while last > first and taken + sizes[last - 1] <= room // 4:
        last, taken = last - 1, taken + sizes[last - 1]
    return first, max(last, first)


def _head(body: bytes, most: int) -> int:
    """Where the beginning ends that is told."""
    end = back(body, min(most, len(body)))
    line = body.rfind(b"\n", end * 3 // 4, end)
    return end if line < 0 else line + 1


def _tail(body: bytes, most: int) -> int:
    """Where the end begins that is told."""
    start = forward(body, max(len(body) - most, 0))
    line = body.find(b"\n", start, start + (len(body) - start) // 4)
    return start if line < 0 else line + 1


def back(body: bytes, place: int) -> int:
    """The place, or the beginning of the character that it is in."""
    while 0 < place < len(body) and body[place] & 0xC0 == 0x80:  # noqa: PLR2004 - a byte within a character [RFC 3629]
        place -= 1
    return place


def forward(body: bytes, place: int) -> int:
    """The place, or the end of the character that it is in."""
    while place < len(body) and body[place] & 0xC0 == 0x80:  # noqa: PLR2004 - as above
        place += 1
    return place
