"""A checkpoint as text that any other tool can read and cosign [C2SP tlog-checkpoint, signed-note].

Three lines, which are what is signed: the log's origin, its size, the root of its tree in base64. Then an empty line
and a line for each signature. A note without signatures is the three lines alone.
"""

import binascii
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from hashlib import sha256

ED25519 = b"\x01"
"""How signed notes number the algorithm."""

_DASH = "\u2014 "
"""How the line of a signature begins."""

_SIGNATURE_BYTES = 64
_ID_BYTES = 4
_ROOT_BYTES = 32


class BadNote(ValueError):
    """The text is no checkpoint."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One line of a note: who signed, by which key, and what."""

    name: str
    key_id: bytes
    """Four bytes that tell keys of one name apart; no proof of anything."""
    signature: bytes


@dataclass(frozen=True, slots=True)
class Note:
    """A checkpoint's text, taken apart."""

    origin: str
    size: int
    root: bytes
    signatures: tuple[Signature, ...] = ()

    @property
    def text(self) -> str:
        """What is signed."""
        return f"{self.origin}\n{self.size}\n{b64encode(self.root).decode()}\n"

    def __str__(self) -> str:
        """The whole note, as it is stored."""
        lines = [f"{_DASH}{one.name} {b64encode(one.key_id + one.signature).decode()}\n" for one in self.signatures]
        return "\n".join((self.text, "".join(lines))) if lines else self.text


def origin_of(salt: bytes) -> str:
    """What the log of the ledger with this salt is called. Tells one from another, and nothing of the salt."""
    return f"counterfoil/ledger/{sha256(b'counterfoil ledger origin' + salt).hexdigest()[:16]}"


def key_id(name: str, public: bytes) -> bytes:
    """As a signature's line has it [C2SP signed-note, signatures]."""
    return sha256(name.encode() + b"\n" + ED25519 + public).digest()[:_ID_BYTES]


def verifier_key(name: str, public: bytes) -> str:
    """The public key in the form in which tools for signed notes take it."""
    return f"{name}+{key_id(name, public).hex()}+{b64encode(ED25519 + public).decode()}"


def read_note(text: str) -> Note:
    """The checkpoint that the text is; its signatures are read, and not checked.

    Raises: BadNote.
    """
    body, _, below = text.partition("\n\n")
    lines = (body if below else body.removesuffix("\n")).split("\n")
    if len(lines) < 3 or not lines[0]:  # noqa: PLR2004 - origin, size, root; more lines are extensions
        raise BadNote("a checkpoint has an origin, a size and a root")
    if not re.fullmatch(r"0|[1-9][0-9]{0,18}", lines[1]):
        raise BadNote("its size is no number")
    if len(lines) > 3:  # noqa: PLR2004 - as above
        raise BadNote("it has lines that no checkpoint of ours has")
    root = _decoded(lines[2])
    if len(root) != _ROOT_BYTES:
        raise BadNote("its root is no SHA-256")
    note = Note(lines[0], int(lines[1]), root, tuple(_signature(line) for line in below.splitlines()))
    if str(note) != text:
        raise BadNote("it is not spelled as a checkpoint is")
    return note


def _signature(line: str) -> Signature:
    name, _, signed = line.removeprefix(_DASH).partition(" ")
    found = _decoded(signed) if line.startswith(_DASH) and name else b""
    if len(found) != _ID_BYTES + _SIGNATURE_BYTES:
        raise BadNote("a line below it is no signature")
    return Signature(name, found[:_ID_BYTES], found[_ID_BYTES:])


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadNote("it holds what is no base64") from None
