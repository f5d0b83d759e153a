"""Payloads that are encrypted at rest, or stored without their secrets, over each kind of ledger."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.model.canonical import Digest, canonical, digest, digest_bytes, parse
from gateway.outbound.ledger import GuardedLedger, open_ledger, open_sqlite
from gateway.outbound.payload_keys import BadPayloadKey, Keyring, key_id, keyring_in, new_payload_key, payload_key
from gateway.outbound.redaction import DetectingRedactor
from gateway.ports import DamagedRecord, Ledger, LockedPayload
from tests.audit.ledgers import every_kind, verified
from tests.ledger.making import Line, opened

KEY, NEWER = bytes(range(32)), bytes(reversed(range(32)))
CANARY = "canary-" + "7f3a9c"
VALUE = {"text": CANARY}


async def put(ledger: Ledger, value: object, run: str = "run_1") -> Digest:
    cited = digest(value, ledger.salt)
    await ledger.append(replace(Line(run).step(opened()), payloads={cited: canonical(value)}))
    return cited


async def test_an_encrypted_payload_is_read_back_with_its_key_and_lies_in_the_store_without_its_text(
    ledger: Ledger,
) -> None:
    guarded = GuardedLedger(ledger, Keyring([KEY]))
    cited = await put(guarded, VALUE)
    assert await guarded.payload(cited) == canonical(VALUE)
    assert await guarded.payloads() == [(cited, canonical(VALUE))]
    ((_, stored),) = await ledger.payloads()
    assert CANARY.encode() not in stored
    assert digest_bytes(stored, ledger.salt) != cited


async def test_without_the_key_it_is_said_which_one_is_lacking_and_nothing_is_called_damaged(ledger: Ledger) -> None:
    cited = await put(GuardedLedger(ledger, Keyring([KEY])), VALUE)
    for lacking in (ledger, GuardedLedger(ledger, Keyring([NEWER]))):
        with pytest.raises(LockedPayload, match=key_id(KEY).hex()) as raised:
            await lacking.payload(cited)
        assert not isinstance(raised.value, DamagedRecord)


async def test_what_an_older_key_encrypted_is_still_read_and_what_is_new_takes_the_newest(ledger: Ledger) -> None:
    first = await put(GuardedLedger(ledger, Keyring([KEY])), VALUE)
    rotated = GuardedLedger(ledger, Keyring([NEWER, KEY]))
    second = await put(rotated, {"text": "later"}, "run_2")
    assert await rotated.payload(first) == canonical(VALUE)
    assert await GuardedLedger(ledger, Keyring([NEWER])).payload(second) == canonical({"text": "later"})


async def test_what_was_stored_before_there_was_a_key_is_read_as_it_is(ledger: Ledger) -> None:
    cited = await put(ledger, VALUE)
    assert await GuardedLedger(ledger, Keyring([KEY])).payload(cited) == canonical(VALUE)


@pytest.mark.parametrize("change", ["flip", "move"])
async def test_an_encrypted_payload_that_was_changed_or_filed_elsewhere_is_damaged(path: Path, change: str) -> None:
    made = await open_ledger(f"sqlite:///{path}", keys=Keyring([KEY]))
    damaged, other = await put(made, VALUE), await put(made, {"text": "other"}, "run_2")
    await made.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        if change == "flip":
            ((body,),) = db.execute("SELECT body FROM payload WHERE digest = ?", (damaged,)).fetchall()
            db.execute("UPDATE payload SET body = ? WHERE digest = ?", (body[:-1] + bytes([body[-1] ^ 1]), damaged))
        else:
            db.execute(
                "UPDATE payload SET body = (SELECT body FROM payload WHERE digest = ?) WHERE digest = ?",
                (other, damaged),
            )
    again = await open_ledger(f"sqlite:///{path}", keys=Keyring([KEY]))
    with pytest.raises(DamagedRecord):
        await again.payload(damaged)
    assert [one.invariant for one in (await verified(again)).breaches if one.where == damaged] == ["I10"]
    await again.close()


async def test_a_whole_ledger_verifies_with_its_key_and_without_it_says_what_was_not_checked(path: Path) -> None:
    made = await open_ledger(f"sqlite:///{path}", keys=Keyring([KEY]))
    await every_kind(made)
    await made.close()
    known = await open_ledger(f"sqlite:///{path}", keys=Keyring([KEY]))
    report = await verified(known, keys=[])
    assert (report.count, report.locked, report.redacted) == (0, 0, 0)
    await known.close()
    unknown = await open_sqlite(path)
    blind = await verified(unknown, keys=[])
    assert (blind.count, blind.locked, blind.lacking) == (0, blind.payloads, {key_id(KEY).hex()})
    await unknown.close()


async def test_with_a_redactor_only_a_copy_is_stored_of_what_holds_a_secret_and_verify_says_so(ledger: Ledger) -> None:
    guarded = GuardedLedger(ledger, redactor=DetectingRedactor())
    secret, plain = {"password": CANARY}, {"text": "hello"}
    cited, kept = await put(guarded, secret), await put(guarded, plain, "run_2")
    assert await guarded.payload(cited) is None
    assert await guarded.payload(kept) == canonical(plain)
    assert all(CANARY.encode() not in stored for _, stored in await ledger.payloads())


async def test_a_redacted_ledger_of_every_kind_of_event_verifies(path: Path) -> None:
    made = await open_ledger(f"sqlite:///{path}", keys=Keyring([KEY]), redactor=DetectingRedactor())
    await every_kind(made)
    report = await verified(made, keys=[])
    assert (report.count, report.locked) == (0, 0)
    await made.close()


def test_keys_come_in_hex_in_base64_and_from_files(tmp_path: Path) -> None:
    made = new_payload_key()
    (tmp_path / "key").write_text(made + "\n")
    ring = keyring_in({"COUNTERFOIL_DATA_KEY": f"{tmp_path / 'key'}, {KEY.hex()}"})
    assert ring.ids == [key_id(payload_key(made)).hex(), key_id(KEY).hex()]
    assert payload_key("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=") == KEY
    with pytest.raises(BadPayloadKey) as raised:
        payload_key("hunter2")
    assert "hunter2" not in str(raised.value)


def test_what_is_stored_twice_is_never_the_same_bytes() -> None:
    ring = Keyring([KEY])
    cited = Digest("c1:one")
    assert ring.sealed(cited, b"{}") != ring.sealed(cited, b"{}")
    assert ring.opened(cited, ring.sealed(cited, b"{}")) == b"{}"
    assert parse(b"{}") == {}
