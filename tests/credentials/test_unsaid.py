"""What references stand for is in no log, and in no reason why a server cannot be used, whoever says it."""

import json
import logging
import sys
from pathlib import Path

import pytest

from gateway.outbound.references import expand, stood_for
from gateway.outbound.unsaid import Discreet, Unsaid
from gateway.outbound.upstream.spec import StdioSpec
from gateway.plan import specs_of
from gateway.settings import load_settings
from tests.upstream.links import reached

TOKEN = "tok-5f1c9a7e21"  # noqa: S105 - not one
SERVER = """
import json, os, sys
for line in sys.stdin:
    error = {"code": -32000, "message": f"no such key: {os.environ['KEY']}"}
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "error": error}), flush=True)
"""
PEM = "-----BEGIN KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ\n-----END KEY-----"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("plain", ()),
        ("${A}", (TOKEN,)),
        ("Bearer ${A}", (TOKEN,)),
        ("--x=${A} $${B} ${B:-default-b}.", (TOKEN, "default-b")),
        ("$${A}", ()),
        ("(.*)${A}", (TOKEN,)),
    ],
)
def test_what_a_reference_stands_for_is_found_in_what_became_of_it(text: str, found: tuple[str, ...]) -> None:
    assert stood_for(text, expand(text, {"A": TOKEN}, Path())) == found


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f"no such key: {TOKEN}!", "no such key: [secret]!"),
        (f"twice {TOKEN}{TOKEN}", "twice [secret][secret]"),
        ("MC4CAQAwBQYDK2VwBCIEIJ is no key", "[secret] is no key"),
        (f"{TOKEN[:9]}...", "[secret]..."),
        (f"{TOKEN[:9]} is not the end of it", f"{TOKEN[:9]} is not the end of it"),
        ("short is let be, and /run/secrets/x, crm.example:443, https://crm.example/mcp, 127.0.0.1:80", None),
    ],
)
def test_a_text_is_told_without_them(said: str, told: str | None) -> None:
    plain = ["short", "/run/secrets/x", "crm.example:443", "https://crm.example/mcp", "127.0.0.1:80"]
    unsaid = Unsaid([TOKEN, PEM, *plain])
    assert unsaid.out_of(said) == (said if told is None else told)
    assert TOKEN not in repr(unsaid)


def test_a_traceback_is_logged_without_them() -> None:
    try:
        raise ValueError(TOKEN)  # noqa: TRY301 - it is to be told
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "it failed", (), sys.exc_info())
    line = Discreet("%(name)s: %(message)s", Unsaid([TOKEN])).format(record)
    assert line.startswith("x: it failed\nTraceback")
    assert line.endswith("ValueError: [secret]")


@pytest.mark.anyio
async def test_a_server_that_says_why_it_does_not_come_up_shows_no_secret(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    entry = {"command": sys.executable, "args": [str(tmp_path / "server.py")], "env": {"KEY": "${KEY}"}}
    (tmp_path / "gateway.yaml").write_text(json.dumps({"upstreams": {"a": entry}}))
    settings = load_settings(tmp_path / "gateway.yaml", {"KEY": TOKEN})
    assert TOKEN not in repr(settings)
    (spec,) = specs_of(settings)
    assert isinstance(spec, StdioSpec)
    async with reached(spec) as upstream:
        assert upstream.house.health.reason == "initialize failed: -32000 no such key: [secret]"
