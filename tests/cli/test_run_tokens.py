"""`counterfoil run open`: whose a token is."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.cli.commands import app
from gateway.inbound.mcp.tokens import verify
from gateway.model.principal import Principal

KEY = "k" * 40


def opened(folder: Path, *more: str) -> tuple[int, str, str]:
    """How it ended, what it printed, and what it said beside that."""
    config = folder / "gateway.yaml"
    config.write_text(json.dumps({"run_tokens": {"key": KEY}, "mcpServers": {"x": {"command": "true"}}}))
    done = CliRunner().invoke(app, ["run", "open", "--config", str(config), "--workflow", "starter", *more])
    return done.exit_code, done.stdout.strip(), done.stderr


def test_a_run_token_is_of_the_tenant_that_is_named(tmp_path: Path) -> None:
    _, token, _ = opened(tmp_path, "--principal", "ci", "--tenant", "acme", "--role", "deployer")
    assert verify(KEY.encode(), token, 0).principal == Principal("ci", "acme", frozenset({"deployer"}))
    _, token, _ = opened(tmp_path, "--principal", "ci")
    assert verify(KEY.encode(), token, 0).principal == Principal("ci", "local")


@pytest.mark.parametrize("named", [("--principal", "anonymous"), ("--principal", ""), ("--tenant", "")], ids=str)
def test_nobody_in_particular_gets_no_run_token(tmp_path: Path, named: tuple[str, str]) -> None:
    code, token, said = opened(tmp_path, *named)
    assert (code, token) == (2, "")
    assert "whoever shows a token has a name and a tenant, and is not `anonymous`" in said
