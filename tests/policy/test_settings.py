"""gateway.yaml is what it says, or every mistake in it is told; and no secret of it is ever shown."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from gateway.model.limits import Limits
from gateway.outbound.references import BadReference, expand
from gateway.settings import (
    ClientPatience,
    HttpUpstream,
    Listen,
    Settings,
    SettingsProblems,
    StdioUpstream,
    Timeouts,
    default_ledger_path,
    default_ledger_url,
    load_settings,
)

SECRET = "s3cr3t-0123456789-0123456789-0123456789"  # noqa: S105 - what must never be shown
ENVIRON = {"HOME": "/home/ann", "TOKEN": SECRET, "EMPTY": "", "BASE": "https://mail.example"}
ONE = "upstreams: {fs: {command: fs-server}}\n"


def load(folder: Path, text: str) -> Settings:
    file = folder / "gateway.yaml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file, ENVIRON)


def told(folder: Path, text: str) -> list[str]:
    """All that is wrong with the file, as lines without its name."""
    with pytest.raises(SettingsProblems) as refused:
        load(folder, text)
    return str(refused.value).replace(f"{folder}/gateway.yaml:", "").replace(str(folder), "DIR").split("\n")


def test_all_but_the_upstreams_has_a_default(tmp_path: Path) -> None:
    assert load(tmp_path, ONE) == Settings(
        listen=Listen("127.0.0.1", 8321),
        ledger="sqlite:////home/ann/.local/state/counterfoil/ledger.db",
        policies=None,
        workflow=None,
        run_token_key=None,
        patience=ClientPatience(),
        session_idle_s=None,
        upstreams=(StdioUpstream("fs", "fs-server", "fs-server", (), {}),),
    )


FULL = """
listen: {host: "::1", port: 9000}
ledger: sqlite:///data/ledger.db
policies: policies
workflow: repo-repair
run_tokens: {key: "${TOKEN}"}
patience: {default_s: 20, clients: {cursor: 45.5}}
sessions: {idle_s: 600}
approvals: {hold_s: 0}
limits: {connections: 500, request_bytes: 65536, request_s: 5, sessions: 10, answer_bytes: 1000000, listed: 100}
upstreams:
  fs:
    command: npx
    ask_secrets: true
    args: [-y, "${PACKAGE:-@scope/server}", "$${LITERAL}"]
    env: {API_KEY: "${env:TOKEN}", MODE: "${EMPTY:-}"}
    cwd: data
    timeouts: {start_s: 90}
  mail:
    url: "${BASE}/mcp"
    headers: {Authorization: "Bearer ${file:token.txt}"}
    timeouts: {connect_s: 2.5}
mcpServers:
  git: {type: stdio, command: mcp-server-git, args: [], alwaysAllow: [git_log], timeout: 500, autoApprove: true}
  web: {type: streamableHttp, serverUrl: "http://127.0.0.1:1/mcp", trust: true, description: x}
  old: {httpUrl: "https://old.example/mcp"}
  sse: {type: sse, url: "https://sse.example/sse"}
  off: {command: "${UNSET}", disabled: true}
  out: {url: "${UNSET}", enabled: false}
"""


def test_everything_that_can_be_said_is_taken_as_it_is_meant(tmp_path: Path) -> None:
    (tmp_path / "token.txt").write_text("from a file\n")
    hidden = {"API_KEY": SecretStr(SECRET), "MODE": SecretStr("")}
    assert load(tmp_path, FULL) == Settings(
        listen=Listen("::1", 9000),
        ledger=f"sqlite:///{tmp_path}/data/ledger.db",
        policies=tmp_path / "policies",
        workflow="repo-repair",
        run_token_key=SecretStr(SECRET),
        patience=ClientPatience(20, {"cursor": 45.5}),
        session_idle_s=600,
        hold_s=0,
        limits=Limits(500, 65536, 5, 10, 1_000_000, 100),
        secrets=(tmp_path / "token.txt",),
        upstreams=(
            StdioUpstream(
                name="fs",
                shown="npx -y ${PACKAGE:-@scope/server} $${LITERAL}",
                command="npx",
                args=("-y", "@scope/server", "${LITERAL}"),
                env=hidden,
                cwd=tmp_path / "data",
                timeouts=Timeouts(start_s=90),
                ask_secrets=True,
            ),
            HttpUpstream(
                name="mail",
                shown="${BASE}/mcp",
                url="https://mail.example/mcp",
                headers={"Authorization": SecretStr("Bearer from a file")},
                timeouts=Timeouts(connect_s=2.5),
            ),
            StdioUpstream("git", "mcp-server-git", "mcp-server-git", (), {}),
            HttpUpstream("web", "http://127.0.0.1:1/mcp", "http://127.0.0.1:1/mcp", {}, transport="http"),
            HttpUpstream("old", "https://old.example/mcp", "https://old.example/mcp", {}),
            HttpUpstream("sse", "https://sse.example/sse", "https://sse.example/sse", {}, transport="sse"),
        ),
    )


def test_a_block_is_taken_as_a_client_wrote_it_in_json(tmp_path: Path) -> None:
    written = '{"mcpServers": {"fs": {"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}}}}'
    assert load(tmp_path, written).upstreams == (
        StdioUpstream("fs", "npx -y x", "npx", ("-y", "x"), {"A": SecretStr("b")}),
    )


def test_no_secret_is_shown_by_what_is_loaded(tmp_path: Path) -> None:
    text = f"""
run_tokens: {{key: "{SECRET}"}}
upstreams:
  a: {{command: "x-${{TOKEN}}", args: ["${{TOKEN}}"], env: {{A: "${{TOKEN}}"}}}}
  b: {{url: "https://h.example/?key=${{TOKEN}}", headers: {{A: "${{TOKEN}}"}}}}
"""
    assert SECRET not in repr(load(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "listen: {host: 0.0.0.0, prot: 80}\n" + ONE,
            [
                (
                    "1:16: listen.host: `0.0.0.0` is not a loopback address: only this machine may come in "
                    "(127.0.0.1), unless gateway.yaml says by which name others reach the gateway "
                    "(`agents: {url: …}`), who then must show who they are"
                ),
                "1:25: listen.prot: no key `prot` is known here (did you mean `port`?)",
            ],
        ),
        (
            "listen: {host: gateway.example}\n" + ONE,
            [
                (
                    "1:16: listen.host: `gateway.example` is not a loopback address: only this machine may come "
                    "in (127.0.0.1), unless gateway.yaml says by which name others reach the gateway "
                    "(`agents: {url: …}`), who then must show who they are"
                ),
            ],
        ),
        ("listen: {port: 65536}\n" + ONE, ["1:16: listen.port: a number of at most 65535 is wanted"]),
        (
            "ledger: mysql://ann:pw@h/db\n" + ONE,
            [
                (
                    "1:9: ledger: a ledger is `sqlite:///relative.db`, `sqlite:////absolute/path.db` or "
                    "`postgresql://user@host:5432/database`"
                ),
            ],
        ),
        ("ledger: 'sqlite:///'\n" + ONE, ["1:9: ledger: the address names no file"]),
        (
            "ledger: postgresql://ann:pw@h/db?sslmode=require&pool=5\n" + ONE,
            [
                (
                    "1:9: ledger: a ledger address for PostgreSQL takes no parameters but `database`, `dbname`, "
                    "`host`, `passfile`, `port`, `schema`, `sslcert`, `sslcrl`, `sslkey`, `sslmode`, `sslrootcert`, "
                    "`target_session_attrs`, `user`"
                ),
            ],
        ),
        ("workflow: a b\n" + ONE, ["1:11: workflow: a workflow's name is wanted, not `a b`"]),
        (
            "run_tokens: {key: short}\n" + ONE,
            ["1:19: run_tokens.key: a key of at least 32 characters is wanted, and this one has 5"],
        ),
        ("polices: x\n" + ONE, ["1:1: polices: no key `polices` is known here (did you mean `policies`?)"]),
        ("{}", ["1:1: no upstream is given; name one under `upstreams` or `mcpServers`"]),
        ("upstreams: {}\n", ["1:1: no upstream is given; name one under `upstreams` or `mcpServers`"]),
        ("mcpServers: {a: {command: x, disabled: true}}\n", ["1:1: mcpServers: every upstream is switched off"]),
        ("[]", ["1:1: a mapping of keys to values is wanted, not a list"]),
        ("upstreams: {a: npx}", ["1:16: upstreams.a: a mapping of keys to values is wanted, not the text `npx`"]),
        (
            "mcpServers: {My_Server: {command: x}}",
            [
                (
                    "1:14: mcpServers.My_Server: `My_Server` begins the names of tools, so it may only hold a-z, 0-9 "
                    "and `-`, at most 32 of them (did you mean `my-server`?)"
                ),
            ],
        ),
        (
            "mcpServers: {'___': {command: x}}",
            [
                (
                    "1:14: mcpServers.___: `___` begins the names of tools, so it may only hold a-z, 0-9 and `-`, at "
                    "most 32 of them"
                ),
            ],
        ),
        (ONE + "mcpServers: {fs: {command: x}}", ["2:14: mcpServers.fs: another upstream is named `fs`"]),
        (
            "upstreams: {a: {}}",
            ["1:13: upstreams.a: say `command`, to start a server, or `url`, to reach one"],
        ),
        (
            "upstreams: {a: {comand: x}}",
            [
                "1:13: upstreams.a: say `command`, to start a server, or `url`, to reach one",
                "1:17: upstreams.a.comand: no key `comand` is known here (did you mean `command`?)",
            ],
        ),
        (
            "upstreams: {a: {command: x, url: 'http://h', headers: {}}}",
            [
                "1:29: upstreams.a.url: `url` and `command` exclude each other",
                "1:46: upstreams.a.headers: `headers` is only for a server with a `url`",
            ],
        ),
        (
            "mcpServers: {a: {url: 'http://h', httpUrl: 'http://h', args: [x]}}",
            [
                "1:35: mcpServers.a.httpUrl: `httpUrl` and `url` exclude each other",
                "1:56: mcpServers.a.args: `args` is only for a server with a `command`",
            ],
        ),
        (
            "mcpServers: {a: {type: sse, command: x}}\npatience: {default_s: 0, clients: {x: -1}}",
            [
                "1:24: mcpServers.a.type: a server of the type `sse` has a `url`",
                "2:23: patience.default_s: a number above 0 is wanted",
                "2:39: patience.clients.x: a number above 0 is wanted",
            ],
        ),
        (
            "mcpServers: {a: {command: x}}\napprovals: {hold_s: 601}",
            ["2:21: approvals.hold_s: a number of at most 600 is wanted"],
        ),
        (
            "mcpServers: {a: {type: htpp, url: 'http://h'}}",
            [
                (
                    "1:24: mcpServers.a.type: one of `stdio`, `http`, `streamable-http`, `streamableHttp`, `sse` is "
                    "wanted, not `htpp` (did you mean `http`?)"
                ),
            ],
        ),
        (
            "mcpServers: {a: {type: http, command: x}, b: {type: stdio, url: 'http://h'}}",
            [
                "1:24: mcpServers.a.type: a server of the type `http` has a `url`",
                "1:53: mcpServers.b.type: a server of the type `stdio` has a `command`",
            ],
        ),
        (
            "mcpServers: {a: {command: x, excludeTools: [y], envFile: .env}}",
            [
                "1:30: mcpServers.a.excludeTools: which tools may be used is for the policy to say",
                "1:49: mcpServers.a.envFile: this file is not read; name its variables under `env`",
            ],
        ),
        (
            "mcpServers: {a: {command: x, args: [--port, 80], env: {PORT: 80}}}",
            [
                "1:45: mcpServers.a.args.1: a text is wanted, not the number `80`; write it in quotes",
                "1:62: mcpServers.a.env.PORT: a text is wanted, not the number `80`; write it in quotes",
            ],
        ),
        (
            "upstreams: {a: {url: 'ftp://h'}, b: {url: ''}, c: {url: 'http://'}, d: {url: 'http://h:x'}}",
            [
                f"1:{column}: upstreams.{name}.url: an address that begins with `http://` or `https://` is wanted"
                for column, name in ((22, "a"), (43, "b"), (57, "c"), (78, "d"))
            ],
        ),
        (
            'upstreams: {a: {url: "http://h", headers: {A: "x\\ny", B: "x\\0"}}}',
            [
                "1:47: upstreams.a.headers.A: a header's value is one line, without control characters",
                "1:58: upstreams.a.headers.B: the value holds a NUL character",
            ],
        ),
    ],
    ids=range(29),
)
def test_a_mistake_is_told_in_its_place_in_plain_words(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert told(tmp_path, text) == lines


REFERENCES = r"""
run_tokens: {key: "${TOKEN_OF_RUNS}"}
upstreams:
  a:
    command: "${file:/nowhere/command}"
    args:
      - "${input:token}"
      - 'it''s ${unclosed'
      - "a \"b\" ${EMPTY}"
      - >-
        first
        ${file:empty.txt}
    env: {A: "${file:binary.bin}", B: "${file:large.txt}", C: "${1}"}
"""


def test_a_reference_that_stands_for_nothing_is_told_where_it_begins(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "binary.bin").write_bytes(b"\xff")
    (tmp_path / "large.txt").write_bytes(b"x" * 70_000)
    there_are = "there are `${NAME}`, `${NAME:-default}`, `${file:/path}`, `${keyring:service/name}` and `${command:…}`"
    assert told(tmp_path, REFERENCES) == [
        (
            "2:20: run_tokens.key: the variable `TOKEN_OF_RUNS` is not set, and there is no default "
            "(`${TOKEN_OF_RUNS:-default}`)"
        ),
        "5:15: upstreams.a.command: the file `/nowhere/command` cannot be read: no such file or directory",
        f"7:10: upstreams.a.args.0: `${{input:token}}` is asked for by an editor; {there_are}",
        "8:16: upstreams.a.args.1: a `${` is not closed; write `$${` if a text is meant",
        "9:18: upstreams.a.args.2: the variable `EMPTY` is empty, and there is no default (`${EMPTY:-default}`)",
        "12:9: upstreams.a.args.3: the file `empty.txt` is empty",
        "13:15: upstreams.a.env.A: the file `binary.bin` is not UTF-8",
        "13:40: upstreams.a.env.B: the file `large.txt` is larger than 64 kB",
        f"13:64: upstreams.a.env.C: `${{1}}` is no reference; {there_are}",
    ]


def test_no_message_shows_what_a_reference_stands_for(tmp_path: Path) -> None:
    text = """
ledger: "${TOKEN}://x"
run_tokens: {key: "${TOKEN}"}
upstreams: {a: {url: "${TOKEN}", headers: {A: "${TOKEN}\\n"}}, b: {command: "${TOKEN}", type: "${TOKEN}"}}
"""
    lines = told(tmp_path, text)
    assert len(lines) == 4
    assert SECRET[:12] not in "\n".join(lines)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsProblems) as refused:
        load_settings(tmp_path / "gateway.yaml", ENVIRON)
    assert str(refused.value) == f"{tmp_path}/gateway.yaml:1:1: cannot be read: no such file or directory"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("memory:", "memory:"),
        ("ledger.db", "sqlite:///DIR/ledger.db"),
        ("sqlite:///ledger.db", "sqlite:///DIR/ledger.db"),
        ("sqlite:////var/ledger.db", "sqlite:////var/ledger.db"),
        ("/var/ledger.db", "sqlite:////var/ledger.db"),
        ("postgresql://ann@h/db?schema=it", "postgresql://ann@h/db?schema=it"),
    ],
)
def test_a_ledger_is_found_from_the_folder_of_the_file(tmp_path: Path, said: str, meant: str) -> None:
    assert load(tmp_path, f"ledger: '{said}'\n" + ONE).ledger.replace(str(tmp_path), "DIR") == meant


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"HOME": "/home/ann"}, "/home/ann/.local/state/counterfoil/ledger.db"),
        ({"HOME": "/home/ann", "XDG_STATE_HOME": "/var/state"}, "/var/state/counterfoil/ledger.db"),
        ({"HOME": "/home/ann", "XDG_STATE_HOME": "relative"}, "/home/ann/.local/state/counterfoil/ledger.db"),
        ({}, f"{Path.home()}/.local/state/counterfoil/ledger.db"),
    ],
)
def test_the_default_ledger_is_the_user_s_own(environ: dict[str, str], path: str) -> None:
    assert default_ledger_path(environ) == Path(path)
    assert default_ledger_url(environ) == f"sqlite:///{path}"


@given(st.text("${}:-aA/1_ ") | st.text())
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        expanded = expand(text, ENVIRON, Path("/nowhere"))
    except BadReference as refused:
        at = refused.offset
    else:
        at = text.find("${") if expanded == text and "$${" not in text else -1
    assert at == -1 or text[at] == "$"
