"""Which addresses name a ledger in a PostgreSQL server, what of them is shown, and how the server is reached."""

import sys
from pathlib import Path

import asyncpg
import pytest

from gateway.app import _ledger_option
from gateway.outbound.ledger import open_ledger
from gateway.outbound.ledger.postgres import address
from gateway.plan import plan_of
from gateway.ports import LedgerUnavailable, NotOurLedger
from gateway.settings import Settings, SettingsProblems, load_settings
from tests.postgres_server import USER, Server

FORM = "the ledger address is not of the form `postgresql://user@host:5432/database`"
ESCAPES = (
    f"{FORM}; in a password `@`, `/`, `?`, `#`, `:` and `%` are written `%40`, `%2F`, `%3F`, `%23`, `%3A` and `%25`"
)
SECRET = "s3cr3t"  # noqa: S105 - what must never be shown


@pytest.mark.parametrize(
    ("url", "shown", "schema"),
    [
        ("postgresql://h/db", "postgresql://h/db", "counterfoil"),
        ("postgres://h/db", "postgresql://h/db", "counterfoil"),
        ("postgresql:///db", "postgresql:///db", "counterfoil"),
        ("postgresql://u:s3cr3t@h:5433/db", "postgresql://u@h:5433/db", "counterfoil"),
        ("postgresql://u:s3cr3t%40x@[::1]:5433/db", "postgresql://u@[::1]:5433/db", "counterfoil"),
        ("postgresql://u@h/db?schema=it&password=s3cr3t", "postgresql://u@h/db?schema=it", "it"),
        (
            "postgresql://u:s3cr3t@a:1,b:2/db?sslmode=require",
            "postgresql://u@a:1,b:2/db?sslmode=require",
            "counterfoil",
        ),
        ("postgresql://u@/db?host=/var/run&port=1", "postgresql://u@/db?host=/var/run&port=1", "counterfoil"),
    ],
)
def test_an_address_is_shown_whole_but_for_its_password(url: str, shown: str, schema: str) -> None:
    parsed = address.parse(url)
    assert (parsed.shown, parsed.schema) == (shown, schema)
    assert address.shown(url) == shown
    assert SECRET not in repr(parsed)
    assert address.parse(shown).shown == shown
    assert ("s3cr3t" in parsed.dsn) == ("s3cr3t" in url)
    assert "schema" not in parsed.dsn
    assert parsed.several == ("," in url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql:", ESCAPES),
        ("postgresql://h", ESCAPES),
        ("postgresql://u:s3cr3t@s3cr3t@h/db", ESCAPES),
        ("postgresql://u:s3cr3t/s3cr3t@h/db", ESCAPES),
        ("postgresql://u:a?s3cr3t@h/db", FORM),
        ("postgresql://u:a/b?s3cr3t=s3cr3t@h/db", ESCAPES),
        ("postgresql://u:a#s3cr3t@h/db", ESCAPES),
        ("postgresql://u:[s3cr3t@h/db", FORM),
        ("postgresql://u:s3cr3t/db", f"{FORM}: its host or port is none"),
        ("postgresql://h:65x/db", f"{FORM}: its host or port is none"),
        ("postgresql://h/db?", None),
        ("postgresql://h/db?s3cr3t", FORM),
        *(
            (
                f"postgresql://h/db?schema={name}",
                "the `schema` of a ledger address is lower-case letters, digits and `_`, and not `pg_…`",
            )
            for name in ("", "a-b", "A", "pg_x", "1a", 'a"; DROP', "x" * 64)
        ),
    ],
)
async def test_an_address_that_could_be_read_in_two_ways_is_refused(url: str, message: str | None) -> None:
    if message is None:
        assert address.parse(url).shown == "postgresql://h/db"
        return
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        await open_ledger(url)
    assert str(raised.value) == message
    assert address.shown(url) == "postgresql:…"


def settings_of(folder: Path, text: str, password: str) -> Settings:
    file = folder / "gateway.yaml"
    file.write_text(text + "mcpServers: {a: {command: b}}\n")
    return load_settings(file, {"PASSWORD": password, "HOME": str(folder)})


def test_a_password_in_a_ledger_s_address_is_put_in_and_never_shown(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "ledger: 'postgresql://ann:${PASSWORD}@h/db'\n", SECRET)
    assert settings.ledger == f"postgresql://ann:{SECRET}@h/db"
    assert SECRET not in repr(settings)
    assert SECRET not in repr(plan_of(settings))


def test_a_password_that_breaks_a_ledger_s_address_is_not_shown(tmp_path: Path) -> None:
    for broken in ("{}@{}", "{}/{}", "{}?{}", "{}#{}", "[{}{}"):
        password = broken.format(SECRET, SECRET)
        text = "ledger: 'postgresql://ann:${PASSWORD}@h/db'\n"
        with pytest.raises(SettingsProblems) as refused:
            settings_of(tmp_path, text, password)
        assert SECRET not in str(refused.value)


def test_what_a_person_is_told_to_type_names_the_ledger_without_its_password() -> None:
    told = _ledger_option(f"postgresql://u:{SECRET}@h/db?schema=it&sslmode=require")
    assert told == " --ledger 'postgresql://u@h/db?sslmode=require&schema=it'"


async def test_a_server_that_cannot_be_reached_is_said_in_one_line(tmp_path: Path) -> None:
    for url, shown in (
        (f"postgresql://u:{SECRET}@127.0.0.1:1/db", "postgresql://u@127.0.0.1:1/db"),
        (f"postgresql://u:{SECRET}@/db?host={tmp_path}", f"postgresql://u@/db?host={tmp_path}"),
    ):
        with pytest.raises(LedgerUnavailable) as raised:
            await open_ledger(url)
        assert str(raised.value) == (
            f"the ledger `{shown}` cannot be reached: see that the server runs and takes connections from here"
        )


async def test_a_part_of_an_address_that_the_driver_refuses_is_not_shown() -> None:
    with pytest.raises(LedgerUnavailable) as raised:
        await open_ledger(f"postgresql://u:{SECRET}@127.0.0.1/db?sslmode=sometimes")
    assert str(raised.value) == (
        "the ledger `postgresql://u@127.0.0.1/db?sslmode=sometimes` cannot be reached: "
        "a part of its address is not valid"
    )


async def test_without_the_driver_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("asyncpg", "gateway.outbound.ledger.postgres."))]:
        if name != "gateway.outbound.ledger.postgres.address":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(
        ValueError, match=r"^a ledger in PostgreSQL needs a driver: pip install 'counterfoil\[postgres\]'$"
    ):
        await open_ledger("postgresql://127.0.0.1/db")


async def test_a_wrong_user_database_or_right_is_said(postgres: Server) -> None:
    admin = await asyncpg.connect(postgres.dsn)
    await admin.execute("CREATE ROLE guest LOGIN")
    said = {}
    for name, url in {
        "user": postgres.url().replace(USER, "nobody_we_know"),
        "database": postgres.url().replace("/postgres?", "/none?"),
        "right": postgres.url("never_made").replace(USER, "guest"),
    }.items():
        with pytest.raises(LedgerUnavailable) as raised:
            await open_ledger(url)
        said[name] = str(raised.value).split("` ", 1)[1]
    assert await admin.fetchval("SELECT to_regnamespace('never_made')") is None
    await admin.execute("DROP ROLE guest")
    await admin.close()
    assert said == {
        "user": "does not let this user in: check the user, the password and the server's `pg_hba.conf`",
        "database": "has no such database: create it",
        "right": "does not allow this user what a ledger needs: make the user the owner of the ledger's schema",
    }


async def test_what_only_reads_makes_no_ledger(postgres: Server, postgres_url: str) -> None:
    shown = address.shown(postgres_url)
    with pytest.raises(NotOurLedger) as raised:
        await open_ledger(postgres_url, make=False)
    assert str(raised.value) == f"there is no ledger at `{shown}` yet; `--ledger` names another"
    admin = await asyncpg.connect(postgres.dsn)
    assert await admin.fetchval("SELECT to_regnamespace($1)", address.parse(postgres_url).schema) is None
    await admin.close()
