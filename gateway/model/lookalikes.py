"""(name) -> what is left of it to the eye. Two names of which that is one and the same are look-alikes. Pure, total.

It follows the skeleton of UTS 39, with two differences. Names are compared once as they are written and once without
regard to case, and a pair that is alike either way is one: `Iist` is read as `list`, and `LIST` is. And a capital `L`,
which no one takes for an `I` or a `1`, stays itself in the first comparison, so that `vatIt` is not `vatLt`.

ASCII is not exempt: `l`, `1`, `|` and `I` are one, `0` and `O`, `m` and `rn`. That a server means both `list_v1` and
`list_vl`, or both `modem` and `modern`, is rarer than that one of them is a trap.
"""

import unicodedata
from collections.abc import Mapping
from string import ascii_uppercase

from gateway.model.confusables import looks

LOOKED_AT = 512
"""Characters of a name that are compared: more than anyone reads, and four times what MCP lets a name have."""

_ROUNDS = 8
"""What one change leaves may ask for another; all that was tried has settled after four."""

_ONES = {"0": "o", "1": "l", "|": "l", "I": "l", "`": "'"}
_TWOS = {"m": "rn", '"': "''"}
"""Of UTS 39, what names have; `%`, which it takes for three characters, is left alone."""
_LOWER = {capital: capital.lower() for capital in ascii_uppercase}
_SEEN = str.maketrans(_LOWER | {"L": "L"} | _ONES)
_FOLDED = str.maketrans(_LOWER | _ONES | {"I": "i"})  # one character for each: the quick way of `translate`
_SHAPES = str.maketrans(_ONES | _TWOS)

_IGNORABLE = (
    range(0x34F, 0x350),
    range(0x115F, 0x1161),
    range(0x17B4, 0x17B6),
    range(0x180B, 0x1810),
    range(0x2065, 0x2066),
    range(0x2800, 0x2801),
    range(0x3164, 0x3165),
    range(0xFE00, 0xFE10),
    range(0xFFA0, 0xFFA1),
    range(0xFFF0, 0xFFF9),
    range(0xE0000, 0xE1000),
)
"""Default_Ignorable_Code_Point, as far as no category says it, and the empty pattern of Braille."""


def skeleton(name: str) -> str:
    """The name as the eye takes it in. Applied again it changes nothing; at most `LOOKED_AT` long."""
    if name.isascii() and name.isprintable():
        return _plain(name, _SEEN)
    return _settled(name[:LOOKED_AT])


def likeness(name: str) -> tuple[str, str]:
    """The name as the eye takes it in: as it is written, and without regard to case. One equal part is enough."""
    if name.isascii() and name.isprintable():
        return _plain(name, _SEEN), _plain(name, _FOLDED)
    return skeleton(name), skeleton(unicodedata.normalize("NFKC", name[:LOOKED_AT]).casefold())


def unseen(name: str) -> bool:
    """Whether something in the name cannot be seen, or changes how the rest is shown: invisible, a control or format
    character, one that turns the direction, one of private use, or a space that is none.
    """
    if name.isascii():
        return not name.isprintable()
    return any(_is_unseen(char) for char in name)


def spelled(name: str) -> str:
    """The head of the name in printable ASCII, so that what looks alike differs, with escapes."""
    head = name[:80].replace("\\", "\\\\").encode("ascii", "backslashreplace").decode()
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in head)


def _plain(name: str, table: Mapping[int, str]) -> str:
    return _spaced(name[:LOOKED_AT].translate(table).replace("m", "rn").replace('"', "''"))


def _settled(name: str) -> str:
    for _ in range(_ROUNDS):
        before, name = name, _once(name)
        if name == before:
            break
    return name


def _once(name: str) -> str:
    plain = "".join(char for char in unicodedata.normalize("NFKD", name) if not _is_unseen(char))
    shaped = plain.translate(_SHAPES).translate(looks())
    folded = "L".join(part.casefold() for part in shaped.split("L"))
    return _spaced(unicodedata.normalize("NFKD", folded))


def _spaced(text: str) -> str:
    """With single spaces, none at an end, and cut."""
    return (" ".join(text.split()) if " " in text else text)[:LOOKED_AT].rstrip(" ")


def _is_unseen(char: str) -> bool:
    if " " <= char <= "~":
        return False
    if not char.isprintable() and unicodedata.category(char) != "Cn":
        return True  # Cc, Cf, Cs, Co, Zl, Zp, and Zs but for the space itself
    point = ord(char)
    return any(point in some for some in _IGNORABLE)
