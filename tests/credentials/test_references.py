"""Secrets from a keyring and from commands, and warnings of those that are written out."""

import os
import shlex
import sys
import types
from pathlib import Path

import pytest

from gateway.outbound import secret_sources
from gateway.outbound.literal_secrets import ADVICE
from gateway.outbound.references import BadReference, expand
from gateway.settings import load_settings


def expanded(text: str, folder: Path, environ: dict[str, str] | None = None) -> str:
    return expand(text, {"PATH": os.environ["PATH"], **(environ or {})}, folder, commands=True)


def trouble(text: str, folder: Path, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(BadReference) as told:
        expanded(text, folder, environ)
    return told.value.message


# --- commands ---------------------------------------------------------------------------------------------------------


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def test_a_command_is_run_without_a_shell_and_what_it_prints_is_trimmed(tmp_path: Path) -> None:
    assert expanded("Bearer ${command:printf '  %s\\n\\n' '$HOME;`id`'}", tmp_path) == "Bearer $HOME;`id`"
    (tmp_path / "here").touch()
    assert expanded("${command:ls}", tmp_path) == "here"


def test_a_command_is_run_once_however_often_it_is_named(tmp_path: Path) -> None:
    once = "${command:" + python("open('ran', 'a').write('x'); print('s')") + "}"
    assert [expanded(once + once, tmp_path) for _ in range(2)] == ["ss", "ss"]
    assert (tmp_path / "ran").read_text() == "x"


def test_a_command_gets_no_variable_of_ours_that_is_not_named(tmp_path: Path) -> None:
    environ = {"SECRET": "cAnArY", "VAULT": "v", "HOME": "/h"}
    asked = "import os; print(*(os.environ.get(n) for n in ('SECRET', 'TOKEN', 'HOME', 'ADDR')))"
    told = expanded("${command:TOKEN=$VAULT ADDR=here " + python(asked) + "}", tmp_path, environ)
    assert told == "None v /h here"


TROUBLES = [
    ("nobody-has-this-command", "the command `nobody-has-this-command` cannot be started: no such file or directory"),
    ("false cAnArY", "the command `false` ended with status 1; run it by hand to see why"),
    ("true cAnArY", "what the command `true` prints is empty"),
    ("sleep 9", "the command `sleep` took longer than 0.05 s"),
    ("printf '\\377'", "what the command `printf` prints is not UTF-8"),
    ("head -c 70000 /dev/zero", "what the command `head` prints is larger than 64 kB"),
    ("echo 'a", "the command of a `${command:…}` has a quote that is not closed"),
    ("", "a `${command:…}` names a command and its arguments"),
    ("head -c 9 x | base64", "a `${command:…}` is run without a shell, to which `|` would mean something"),
    ("cat /dev/zero", "what the command `cat` prints is larger than 64 kB"),
    ("A=$UNSET true", "the variable `UNSET` is not set, and a command is to get it"),
]


@pytest.mark.parametrize(("command", "why"), TROUBLES)
def test_what_is_wrong_with_a_command_is_said_without_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, why: str
) -> None:
    if command.startswith("sleep"):
        monkeypatch.setattr(secret_sources, "COMMAND_S", 0.05)
    assert trouble(f"${{command:{command}}}", tmp_path) == why


def test_a_command_stands_in_gateway_yaml_alone(tmp_path: Path) -> None:
    with pytest.raises(BadReference, match=r"stands only in gateway\.yaml"):
        expand("${command:echo x}", {}, tmp_path)


# --- the keyring ------------------------------------------------------------------------------------------------------


@pytest.fixture
def _keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """A keyring as the library is to us: one function, which may raise what it likes."""
    held = {("https://crm.example/a", "token"): "s3cret"}

    def get_password(service: str, name: str) -> str | None:
        if service == "locked":
            raise RuntimeError("cAnArY")
        return held.get((service, name))

    library = types.ModuleType("keyring")
    library.get_password = get_password  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", library)


@pytest.mark.usefixtures("_keyring")
def test_a_keyring_is_asked_for_a_service_and_a_name(tmp_path: Path) -> None:
    assert expanded("Bearer ${keyring:https://crm.example/a/token}", tmp_path) == "Bearer s3cret"
    assert trouble("${keyring:crm/x}", tmp_path) == (
        "the keyring holds nothing as `crm/x`; put it there with `keyring set crm x`"
    )
    assert trouble("${keyring:locked/x}", tmp_path) == "the keyring cannot be asked for `locked/x` (RuntimeError)"
    for odd in ("crm", "/x", "crm/"):
        assert trouble(f"${{keyring:{odd}}}", tmp_path).startswith("a `${keyring:…}` names a service and a name")


def test_without_the_library_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert trouble("${keyring:crm/token}", tmp_path) == (
        "a keyring needs the extra `keyring`: `pip install 'counterfoil[keyring]'`"
    )


# --- what is written out ----------------------------------------------------------------------------------------------

WRITTEN_OUT = """
ledger: postgresql://me:s3cretpw@db.example/x
run_tokens: {key: 0123456789abcdef0123456789abcdef}
upstreams:
  a:
    url: https://me:s3cretpw@crm.example/mcp
    headers: {Authorization: Bearer abc, X-Api-Key: abc, X-Tenant: acme}
  b:
    command: x
    args: [--token, abc, --verbose, --api-key=abcdefgh, --name, abc]
    env: {API_KEY: abc, DB_PASSWORD: "${DB:-hunter2}", LOG_LEVEL: debug, A: ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789}
  c:
    url: https://crm.example/mcp
    auth: {type: client_credentials, token_url: https://as.example/token, client_id: me, client_secret: abc}
"""
REFERRED_TO = """
ledger: postgresql://me:${A}@db.example/x
upstreams:
  a:
    url: https://me:${A}@crm.example/mcp
    headers: {Authorization: "Bearer ${A}", X-Api-Key: "${file:secret}", X-Tenant: acme}
  b:
    command: x
    args: [--token, "${A}", --token-file, /run/secrets/x, --password, --verbose]
    env: {API_KEY: "${env:A}", GOOGLE_APPLICATION_CREDENTIALS: /run/secrets/x.json, USE_TOKEN: "true", SECRET: ""}
  c:
    url: https://crm.example/mcp
    auth: {type: client_credentials, token_url: https://as.example/token, client_id: me, client_secret: "${A}"}
"""


def test_a_secret_that_is_written_out_is_warned_about_with_its_place_and_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "gateway.yaml").write_text(WRITTEN_OUT)
    warnings = load_settings(tmp_path / "gateway.yaml", {}).warnings
    assert [one.path for one in warnings] == [
        "ledger",
        "run_tokens.key",
        "upstreams.a.url",
        "upstreams.a.headers.Authorization",
        "upstreams.a.headers.X-Api-Key",
        "upstreams.b.args.1",
        "upstreams.b.args.3",
        "upstreams.b.env.API_KEY",
        "upstreams.b.env.DB_PASSWORD",
        "upstreams.b.env.A",
        "upstreams.c.auth.client_secret",
    ]
    assert {one.message for one in warnings} == {ADVICE}
    assert str(warnings[1]).endswith(f"gateway.yaml:3:19: run_tokens.key: {ADVICE}")


def test_a_reference_is_no_secret_that_is_written_out(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("abc")
    (tmp_path / "gateway.yaml").write_text(REFERRED_TO)
    assert load_settings(tmp_path / "gateway.yaml", {"A": "s3cretpw"}).warnings == ()
