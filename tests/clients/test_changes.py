"""Several files changed as one, and what is known of them afterwards."""

import stat
from pathlib import Path

import pytest

from gateway.outbound.clients import changes
from gateway.outbound.clients.changes import Change, apply, take_back
from gateway.outbound.clients.importing import undoing
from gateway.outbound.clients.sheet import Unusable

BEFORE = b'{\n  "a": 1,\n  "mcpServers": {\n    "x": {}\n  },\n  "z": 1\n}\n'
AFTER = b'{\n  "a": 1,\n  "mcpServers": {\n    "counterfoil": {"command": "counterfoil"}\n  },\n  "z": 1\n}\n'


def changed(folder: Path, before: bytes = BEFORE, after: bytes = AFTER) -> Path:
    file = folder / "c.json"
    file.write_bytes(before)
    apply([Change(file, before, after, 0o644)], folder / "records")
    return file


def test_a_change_keeps_the_mode_and_leaves_nothing_beside_the_file(tmp_path: Path) -> None:
    file = changed(tmp_path)
    assert file.read_bytes() == AFTER
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.json", "records"]


def test_if_one_file_cannot_be_written_all_are_as_they_were(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two" / "file"
    one.write_text("a")
    two.parent.write_text("in the way")
    with pytest.raises(Unusable, match="cannot be written"):
        apply([Change(one, b"a", b"b", 0o644), Change(two, None, b"b")], tmp_path / "records")
    assert one.read_text() == "a"
    assert undoing(tmp_path / "records") == []


def test_a_file_that_changed_while_a_person_was_asked_stops_everything(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    two.write_text("newer")
    with pytest.raises(Unusable, match="was changed in the meantime"):
        apply([Change(one, b"a", b"b"), Change(two, b"older", b"c")], tmp_path / "records")
    assert one.read_text() == "a"


@pytest.mark.parametrize(
    ("now", "then"),
    [
        (AFTER.replace(b'"a": 1', b'"a": 2'), BEFORE.replace(b'"a": 1', b'"a": 2')),
        (AFTER.replace(b'"z": 1', b'"z": {"y": 1}'), BEFORE.replace(b'"z": 1', b'"z": {"y": 1}')),
        (BEFORE, BEFORE),
        (None, BEFORE),
    ],
)
def test_what_others_changed_elsewhere_is_kept(now: bytes | None, then: bytes, tmp_path: Path) -> None:
    file = changed(tmp_path)
    file.unlink() if now is None else file.write_bytes(now)
    (taken,) = undoing(tmp_path / "records")
    assert taken.lost is None
    take_back([taken.change], tmp_path / "records")
    assert file.read_bytes() == then
    assert undoing(tmp_path / "records") == []


@pytest.mark.parametrize(
    "now",
    [
        AFTER.replace(b'"command": "counterfoil"', b'"command": "mine"'),
        AFTER.replace(b"\n  },", b',\n    "y": {}\n  },').replace(b'"counterfoil"}', b'"counterfoil", "env": {}}'),
        b"",
    ],
)
def test_what_others_changed_in_our_place_is_not_taken_back(now: bytes, tmp_path: Path) -> None:
    file = changed(tmp_path)
    file.write_bytes(now)
    (taken,) = undoing(tmp_path / "records")
    assert taken.lost == AFTER
    assert taken.change.after == now


def test_a_merge_that_no_client_could_read_is_not_made(tmp_path: Path) -> None:
    before, after = BEFORE.replace(b'    "x": {}\n', b""), AFTER  # taking our line away would leave a comma
    file = changed(tmp_path, before, after)
    file.write_bytes(AFTER.replace(b'"counterfoil"}\n', b'"counterfoil"}\n    , "y": {}\n'))
    (taken,) = undoing(tmp_path / "records")
    assert taken.lost == after


def test_a_file_on_one_line_is_known_again_by_our_entry(tmp_path: Path) -> None:
    before, after = BEFORE.replace(b"\n", b" "), AFTER.replace(b"\n", b" ")
    file = changed(tmp_path, before, after)
    file.write_bytes(after.replace(b'"a": 1', b'"a": 22'))
    (taken,) = undoing(tmp_path / "records")
    assert taken.change.after == before.replace(b'"a": 1', b'"a": 22')


def test_what_init_made_and_somebody_changed_is_kept(tmp_path: Path) -> None:
    made = tmp_path / "made.yaml"
    apply([Change(made, None, b"a: 1\n")], tmp_path / "records")
    made.write_text("a: 2\n")
    (taken,) = undoing(tmp_path / "records")
    assert (taken.lost, taken.change.after) == (b"a: 1\n", b"a: 2\n")


def test_two_inits_are_taken_back_together(tmp_path: Path) -> None:
    file = changed(tmp_path)
    apply([Change(file, AFTER, b"third", 0o644)], tmp_path / "records")
    (taken,) = undoing(tmp_path / "records")
    assert taken.change.after == BEFORE


def test_a_record_that_is_broken_says_where_the_backups_are(tmp_path: Path) -> None:
    changed(tmp_path)
    (tmp_path / "records" / "1" / changes.RECORD).write_text("{")
    with pytest.raises(Unusable, match="the backups in it are the files as they were"):
        undoing(tmp_path / "records")
    assert (tmp_path / "records" / "1" / "0.before").read_bytes() == BEFORE


def test_without_a_place_for_the_record_nothing_is_changed(tmp_path: Path) -> None:
    file = tmp_path / "one"
    file.write_text("a")
    (tmp_path / "records").write_text("in the way")
    with pytest.raises(Unusable, match="all files are as they were"):
        apply([Change(file, b"a", b"b")], tmp_path / "records")
    assert file.read_text() == "a"


def test_an_undo_that_fails_half_way_can_be_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = changed(tmp_path), tmp_path / "d.json"
    two.write_bytes(BEFORE)
    apply([Change(two, BEFORE, AFTER, 0o644)], tmp_path / "records")
    replace = Path.replace

    def refused(self: Path, target: Path) -> Path:
        if target == two:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    found = [taken.change for taken in undoing(tmp_path / "records")]
    with monkeypatch.context() as full:
        full.setattr(Path, "replace", refused)
        with pytest.raises(
            Unusable, match=r"cannot be written \(no space left on device\); mend that and run it again"
        ):
            take_back(sorted(found, key=str), tmp_path / "records")
    take_back([taken.change for taken in undoing(tmp_path / "records")], tmp_path / "records")
    assert (one.read_bytes(), two.read_bytes()) == (BEFORE, BEFORE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.json", "d.json", "records"]


def test_a_file_that_is_too_large_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_BYTES", 3)
    (tmp_path / "big").write_text("1234")
    with pytest.raises(Unusable, match="is larger than"):
        changes.content(tmp_path / "big")
