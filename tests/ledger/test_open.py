"""Which addresses name a ledger."""

from pathlib import Path

import pytest

from gateway.outbound.ledger import MemoryLedger, SqliteLedger, open_ledger
from gateway.ports import Ledger, LedgerUnavailable

SUPPORTED = (
    "use `sqlite:///relative.db`, `sqlite:////absolute/path.db`, a plain path, `postgresql://user@host:5432/database`, "
    "or `memory:`"
)


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:///{tmp}/some/where.db", "some/where.db"),
        ("sqlite:///relative.db", "relative.db"),
        ("{tmp}/plain.db", "plain.db"),
        ("./a:b.db", "a:b.db"),
        ("with space and ?#%.db", "with space and ?#%.db"),
    ],
)
async def test_an_address_names_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, file: str) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = await open_ledger(url.format(tmp=tmp_path))
    assert isinstance(ledger, SqliteLedger)
    assert (tmp_path / file).is_file()
    await ledger.close()


async def test_an_address_may_name_the_memory() -> None:
    assert isinstance(await open_ledger("memory:"), MemoryLedger)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "mysql://user:secret@host/db",
            f"a ledger address that starts with `mysql:` is not supported: {SUPPORTED}",
        ),
        ("memory://", f"a ledger address that starts with `memory:` is not supported: {SUPPORTED}"),
        ("sqlite://host/db", f"a ledger address that starts with `sqlite:` is not supported: {SUPPORTED}"),
        ("sqlite:relative.db", f"a ledger address that starts with `sqlite:` is not supported: {SUPPORTED}"),
        ("sqlite:///l.db?mode=ro", f"a ledger address takes no parameters: {SUPPORTED}"),
        ("sqlite:///", f"the ledger address names no file: {SUPPORTED}"),
        ("sqlite:///:memory:", f"the ledger address names no file: {SUPPORTED}"),
        (":memory:", f"the ledger address names no file: {SUPPORTED}"),
        ("", f"the ledger address names no file: {SUPPORTED}"),
    ],
)
async def test_any_other_address_is_refused_with_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        await open_ledger(url)
    assert str(raised.value) == message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url", [" postgresql://bob:S3CRET@h/db", "postgresql://bob:S3CRET@h/db ", "a/postgresql://bob:S3CRET@h"]
)
async def test_an_address_that_was_mistyped_makes_no_file_and_shows_no_password(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, LedgerUnavailable)) as raised:
        await open_ledger(url)
    assert "S3CRET" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


async def test_a_new_ledger_is_not_strange(ledger: Ledger) -> None:
    assert await ledger.strange() == []
