"""`counterfoil verify` and `keygen`: what they print, and how they end."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from typer.testing import CliRunner, Result

from gateway.cli.commands import app
from gateway.cli.verified import exit_code
from gateway.model.note import Note, key_id, verifier_key
from gateway.model.record import link, utc
from gateway.outbound.head_file import HeadFile
from gateway.outbound.ledger import open_ledger
from gateway.runtime.audit import Report
from tests import world
from tests.audit.ledgers import KEY, OTHER_KEY, every_kind, sealed
from tests.audit.tampered import reseal

PUBLIC = KEY.public.hex()


def run(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed ledger with every kind of event, and its head beside it."""
    path = tmp_path_factory.mktemp("verify") / "ledger.db"

    async def make() -> Note | None:
        opened = await open_ledger(str(path))
        await every_kind(opened)
        note = await sealed(opened)
        await opened.close()
        return note

    note = asyncio.run(make())
    assert note is not None
    assert HeadFile(path.with_name("head")).write(note)
    return path


@pytest.fixture
def broken(ledger: Path, tmp_path: Path) -> Path:
    """A copy, of which somebody has changed an amount and the bytes of a record."""
    path = tmp_path / "broken.db"
    path.write_bytes(ledger.read_bytes())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE event SET body = CAST(body || ' ' AS BLOB) WHERE run = 'run_3' AND seq = 2")
        db.execute("UPDATE payload SET body = ? WHERE body = ?", (b'{"n":8}', b'{"n":9}'))
    return path


def shown(told: Result, ledger: Path, head: Note | None = None) -> str:
    """The output, without what differs from one ledger to the next."""
    text: str = told.output
    origin = (head or HeadFile(ledger.with_name("head")).read() or Note("", 0, b"")).origin
    for secret, word in ((origin, "ORIGIN"), (key_id(origin, KEY.public).hex(), "KEY"), (str(ledger), "LEDGER")):
        text = text.replace(secret, word)
    return "\n".join(line.rstrip() for line in text.splitlines())


def test_a_clean_ledger_is_told_in_a_few_lines(ledger: Path) -> None:
    told = run("verify", "--ledger", ledger, "--key", PUBLIC, "--head", ledger.with_name("head"), "--judge")
    assert told.exit_code == 0
    lines = [line for line in shown(told, ledger).splitlines() if not line.startswith("unsettled ")]
    assert "\n".join(lines) == snapshot("""\
log       58 records of 4 runs, ORIGIN
payloads  30 stored
sealed    58 of 58 records by 1 checkpoint; 58 are signed by the key that was given
head      made over 58 records
judged    20 verdicts again

clean\
""")
    assert "unsettled 1 attempt, the oldest run_3.2, " in told.output


def test_a_broken_one_is_told_with_what_and_where(broken: Path, ledger: Path) -> None:
    told = run("verify", "--ledger", broken, "--key", PUBLIC)
    assert told.exit_code == 1
    head = HeadFile(ledger.with_name("head")).read()
    lines = shown(told, broken, head).splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("BROKEN"))
    assert "\n".join(line for line in lines[begin:] if "c1:" not in line) == snapshot("""\
BROKEN: 2 findings
  I1  run_3#2                           its bytes, at place 37, are not those that were recorded\
""")


def test_a_machine_gets_the_same(ledger: Path, broken: Path) -> None:
    clean = run("verify", "--ledger", ledger, "--key", PUBLIC, "--json")
    assert clean.exit_code == 0
    told = json.loads(clean.output)
    assert told["keys"] == [verifier_key(told["origin"], KEY.public)]
    assert (told["broken"], told["breaches"], told["runs"]) == (0, [], 4)
    assert [one["attempt"] for one in told["unknown"]] == ["run_3.2"]
    bad = run("verify", "--ledger", broken, "--json")
    assert bad.exit_code == 1
    found = json.loads(bad.output)
    assert found["broken"] == len(found["breaches"])
    assert {"invariant", "where", "says"} == set(found["breaches"][0])


def test_signatures_that_nobody_checked_are_said_to_be_unchecked(ledger: Path) -> None:
    assert "signed by KEY, which was not checked (`--key`)" in shown(run("verify", "--ledger", ledger), ledger)


def test_an_unsigned_ledger_says_so(tmp_path: Path, ledger: Path) -> None:
    path = tmp_path / "unsigned.db"
    path.write_bytes(ledger.read_bytes())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DELETE FROM checkpoint")
        told = run("verify", "--ledger", path)
        assert (
            "sealed    not yet: a gateway makes the first checkpoint within a minute, or when it ends in order"
            in told.output
        )
        reseal(db, None)
    told = run("verify", "--ledger", path)
    assert told.exit_code == 0
    assert "not signed: whoever can write the ledger can rewrite it" in told.output


@pytest.mark.parametrize(("older_than", "code"), [(None, 0), (3600.0, 0), (7200.0, 0), (3599.0, 3), (0.0, 3)])
def test_outcomes_that_are_unknown_for_too_long_end_it_with_three(older_than: float | None, code: int) -> None:
    report = Report("origin", unknown=[("run_1.2", utc(world.T0))])
    assert exit_code(report, utc(world.T0 + 3600), older_than) == code
    assert exit_code(Report("origin"), utc(world.T0 + 3600), older_than) == 0


def test_the_age_of_what_is_unknown_is_an_option(ledger: Path) -> None:
    # What is unknown in it was sent in the year of the told clock, which may not have come yet.
    assert run("verify", "--ledger", ledger, "--max-unknown-age", 10**10).exit_code == 0


def test_a_configuration_says_which_ledger_key_and_head(ledger: Path, tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    seal = f"{{key: '{'11' * 32}', head: {ledger.with_name('head')}}}"
    config.write_text(f"ledger: {ledger}\nseal: {seal}\nupstreams: {{fs: {{command: x}}}}\n")
    told = run("verify", "--config", config)
    assert told.exit_code == 0
    assert "are signed by the key that was given" in told.output
    assert "head      made over" in told.output
    config.write_text(config.read_text().replace("11" * 32, "22" * 32))
    assert run("verify", "--config", config).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--ledger", "{tmp}/none.db"],
            "there is no ledger at `{tmp}/none.db` yet; `--ledger` names another, `--config` a gateway's",
        ),
        (
            ["--ledger", "{tmp}/text"],
            "`{tmp}/text` is not an SQLite file: give the ledger another path",
        ),
        (
            ["--ledger", "{ledger}", "--head", "{tmp}/none"],
            "there is no head at `{tmp}/none`; a gateway writes it with its first checkpoint",
        ),
        (
            ["--ledger", "{ledger}", "--head", "{tmp}/text"],
            "`{tmp}/text` is no checkpoint of a ledger: a checkpoint has an origin, a size and a root",
        ),
        (
            ["--ledger", "{ledger}", "--key", "xx"],
            "an Ed25519 public key is wanted: 64 hex digits, PEM, or `name+id+key`",
        ),
        (["--prove", "run_1"], "`run_1` is no record: say it as `RUN#STEP`, or name an attempt"),
        (["--proof", "{tmp}/text"], "`{tmp}/text` cannot be read as a proof: not JSON: expecting value at character 0"),
    ],
)
def test_what_cannot_be_read_ends_with_two(ledger: Path, tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "text").write_text(
        "no such thing, and longer than the header of a file of SQLite's is: a hundred bytes" * 2
    )
    told = run("verify", *(one.format(tmp=tmp_path, ledger=ledger) for one in arguments))
    assert (told.exit_code, told.output) == (2, f"counterfoil: {says.format(tmp=tmp_path)}\n")


def test_a_record_of_a_newer_version_is_not_guessed_at(tmp_path: Path, ledger: Path) -> None:
    path = tmp_path / "newer.db"
    path.write_bytes(ledger.read_bytes())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        (body,) = db.execute("SELECT body FROM event WHERE run = 'run_2' AND seq = 1").fetchone()
        newer = body.replace(b'"schema_version":1', b'"schema_version":2').replace(b"run.opened", b"run.unheard")
        db.execute("UPDATE event SET body = ?, link = ? WHERE run = 'run_2' AND seq = 1", (newer, link(newer)))
    told = run("verify", "--ledger", path)
    says = "record `run_2#1` was written by a newer version; verify with that one"
    assert (told.exit_code, told.output) == (2, f"counterfoil: {says}\n")


def test_a_page_that_is_damaged_never_passes_for_a_clean_ledger(tmp_path: Path, ledger: Path) -> None:
    whole, path, size = ledger.read_bytes(), tmp_path / "damaged.db", 4096
    ended = {}
    for start in range(size, len(whole), size):
        path.write_bytes(whole[:start] + b"\xaa" * size + whole[start + size :])
        told = run("verify", "--ledger", path, "--key", PUBLIC, "--head", ledger.with_name("head"))
        assert told.exception is None or isinstance(told.exception, SystemExit), told.exception
        ended[start // size + 1] = told.exit_code
        for more in ("-wal", "-shm"):
            path.with_name(path.name + more).unlink(missing_ok=True)
    with closing(sqlite3.connect(ledger)) as db:
        used = pages_of(db, "event", "payload", "accounts", "attempt", "checkpoint", "meta")
    assert {page: code for page, code in ended.items() if page in used and code not in {1, 2}} == {}
    assert set(ended.values()) <= {0, 1, 2}


def pages_of(db: sqlite3.Connection, *tables: str) -> set[int]:
    """Where these tables begin."""
    marks = ", ".join("?" * len(tables))
    return {page for (page,) in db.execute(f"SELECT rootpage FROM sqlite_master WHERE name IN ({marks})", tables)}  # noqa: S608


# --- one record -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["run_1#3", "run_1.2", "run_3#1"])
def test_one_record_is_proven_without_the_ledger(ledger: Path, tmp_path: Path, named: str) -> None:
    made = run("verify", "--ledger", ledger, "--prove", named)
    assert made.exit_code == 0
    file = tmp_path / "proof.json"
    file.write_text(made.output)
    told = run("verify", "--proof", file, "--key", PUBLIC)
    assert told.exit_code == 0
    assert f"record    {named.replace('.', '#')}, " in told.output
    assert "signed    by the key that was given" in told.output
    assert "signed    by a key that was not checked (`--key`)" in run("verify", "--proof", file).output
    wrong = run("verify", "--proof", file, "--key", OTHER_KEY.public.hex())
    says = "its checkpoint is not signed by the key that was given"
    assert (wrong.exit_code, wrong.output) == (1, f"counterfoil: {says}\n")


def test_a_proof_of_what_is_not_in_the_ledger_is_not_to_be_had(ledger: Path) -> None:
    told = run("verify", "--ledger", ledger, "--prove", "run_1#999")
    assert told.exit_code == 1
    assert told.output.startswith("counterfoil: no record `run_1#999` is under the newest checkpoint, which is over ")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"record": "e30="}, "the record is not under the root of the checkpoint"),
        ({"index": 3}, "the record is not under the root of the checkpoint"),
        ({"index": -1}, "a log of 58 records has no record -1"),
        ({"path": []}, "the proof is too short"),
        ({"checkpoint": "x"}, "its checkpoint cannot be read: a checkpoint has an origin, a size and a root"),
        ({"counterfoil_proof": 2}, "it is of a form that this version does not know"),
        ({"path": None}, "it is no proof of this gateway's"),
        ({"record": "!"}, "it is no proof of this gateway's"),
    ],
)
def test_a_proof_that_was_changed_proves_nothing(
    ledger: Path, tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    told = json.loads(run("verify", "--ledger", ledger, "--prove", "run_1#3").output)
    file = tmp_path / "proof.json"
    file.write_text(json.dumps({**told, **change}))
    found = run("verify", "--proof", file)
    assert (found.exit_code, found.output) == (1, f"counterfoil: {says}\n")


# --- keys -----------------------------------------------------------------------------------------------------------


def test_a_key_is_made_once_private_and_its_public_half_printed(tmp_path: Path) -> None:
    file = tmp_path / "seal.pem"
    made = run("keygen", file)
    assert made.exit_code == 0
    assert len(bytes.fromhex(made.output.strip())) == 32
    assert file.stat().st_mode & 0o777 == 0o600
    assert run("keygen", "--public", file).output == made.output
    text = file.read_text()
    again = run("keygen", file)
    says = f"`{file}` is there already, and is left as it is; `--public` prints its public key"
    assert (again.exit_code, again.output) == (2, f"counterfoil: {says}\n")
    again = run("keygen", "--data", file)
    assert again.output == f"counterfoil: `{file}` is there already, and is left as it is; name another file\n"
    assert file.read_text() == text


def test_a_key_that_cannot_be_made_or_read_is_said(tmp_path: Path) -> None:
    for arguments, says in (
        ([tmp_path / "none" / "key"], f"`{tmp_path}/none/key` cannot be used: no such file or directory"),
        (["--public", tmp_path / "none"], f"`{tmp_path}/none` cannot be used: no such file or directory"),
    ):
        told = run("keygen", *arguments)
        assert (told.exit_code, told.output) == (2, f"counterfoil: {says}\n")
    (tmp_path / "text").write_text("x")
    told = run("keygen", "--public", tmp_path / "text")
    assert (told.exit_code, told.output) == (2, f"counterfoil: `{tmp_path}/text` holds no Ed25519 private key\n")
