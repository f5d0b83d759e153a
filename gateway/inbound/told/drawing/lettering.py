"""How wide text is, without any font at hand: never less than a reader's own font makes it."""

import unicodedata

_NARROW = frozenset("iljtfrI.,:;'|!()[]{}` ")
_WIDE = frozenset("mwMW@%")


def width(text: str, size: float) -> float:
    """Of the text at this size, in a sans-serif font."""
    return sum(map(_em, text)) * size


def _em(char: str) -> float:
    # After DejaVu Sans, which is the widest of those that a reader is likely to have.
    if char in _NARROW:
        return 0.42
    if char in _WIDE or unicodedata.east_asian_width(char) in "WF":
        return 1.02
    return 0.72 if char.isupper() else 0.64


def wrapped(text: str, size: float, most: float, lines: int = 4) -> list[str]:
    """The text in lines of at most this width; what is left over after the last line is an ellipsis."""
    found, line = list[str](), ""
    for word in text.split():
        for piece in _pieces(word, size, most):
            longer = f"{line} {piece}".strip()
            if line and width(longer, size) > most:
                found.append(line)
                longer = piece
            line = longer
    found += [line] if line else []
    if len(found) > lines:
        last = found[lines - 1]
        while last and width(last + " …", size) > most:
            last = last[:-1]
        found = [*found[: lines - 1], last.rstrip() + " …"]
    return found


def _pieces(word: str, size: float, most: float) -> list[str]:
    """The word, cut where it would be too wide by itself."""
    found, piece = list[str](), ""
    for char in word:
        if piece and width(piece + char, size) > most:
            found.append(piece)
            piece = ""
        piece += char
    return [*found, piece]
