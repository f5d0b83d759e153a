"""Checkpoints as text, in the form that other tools read."""

from base64 import b64decode, b64encode
from hashlib import sha256

import pytest
from inline_snapshot import snapshot

from gateway.model.note import BadNote, Note, Signature, key_id, origin_of, read_note, verifier_key

ROOT = sha256(b"root").digest()
NOTE = Note("counterfoil/ledger/0011223344556677", 42, ROOT)
SIGNED = Note(
    NOTE.origin, 42, ROOT, (Signature("name", b"\1\2\3\4", b"s" * 64), Signature("other", b"abcd", b"t" * 64))
)


def test_a_note_is_three_lines_and_a_line_for_each_signature() -> None:
    assert str(NOTE) == snapshot("""\
counterfoil/ledger/0011223344556677
42
SBNJTRN+FjG7owHVrKtue7eqdM4RhdRWVl71HXN2d7I=
""")
    assert str(SIGNED).splitlines()[3:] == snapshot(
        [
            "",
            "— name AQIDBHNzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3M=",
            "— other YWJjZHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHQ=",
        ]
    )


@pytest.mark.parametrize("note", [NOTE, SIGNED])
def test_what_was_written_is_read_back(note: Note) -> None:
    assert read_note(str(note)) == note


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a checkpoint has an origin, a size and a root"),
        ("\n42\nxx\n", "a checkpoint has an origin, a size and a root"),
        (str(NOTE).replace("42", "042"), "its size is no number"),
        (str(NOTE).replace("42", "-1"), "its size is no number"),
        (str(NOTE).replace("42", "9" * 20), "its size is no number"),
        (str(NOTE) + "more\n", "it has lines that no checkpoint of ours has"),
        (str(NOTE).replace("SBNJ", "S!NJ"), "it holds what is no base64"),
        (str(NOTE).replace("SBNJ", ""), "its root is no SHA-256"),
        (str(NOTE).removesuffix("\n"), "it is not spelled as a checkpoint is"),
        (str(NOTE) + "\n", "it is not spelled as a checkpoint is"),
        (str(NOTE) + "\nno signature\n", "a line below it is no signature"),
        (str(NOTE) + "\n— name AAAA\n", "a line below it is no signature"),
        (str(SIGNED).replace("— name", "- name"), "a line below it is no signature"),
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadNote) as raised:
        read_note(text)
    assert str(raised.value) == says


def test_an_origin_tells_ledgers_apart_and_nothing_of_their_salt() -> None:
    assert origin_of(b"salt") == snapshot("counterfoil/ledger/1265b7cfb0ea455d")
    assert origin_of(b"salt") != origin_of(b"other")


def test_a_key_is_named_as_other_tools_name_it() -> None:
    """By C2SP signed-note: SHA-256 over name, line break, algorithm and key; four bytes of it."""
    public = bytes(range(32))
    expected = sha256(b"name\n\x01" + public).digest()[:4]
    assert key_id("name", public) == expected
    name, told, key = verifier_key("name", public).split("+", 2)
    assert (name, told, b64decode(key)) == ("name", expected.hex(), b"\x01" + public)
    assert key == b64encode(b"\x01" + public).decode()
