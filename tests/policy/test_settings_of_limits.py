"""`limits` of a configuration, and where its ledger is where nobody says."""

from pathlib import Path

import pytest

from gateway.settings import default_ledger_path, load_settings


def test_the_user_of_a_container_needs_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("Could not determine home directory."))
    )
    assert default_ledger_path({"XDG_STATE_HOME": "/var/lib"}) == Path("/var/lib/counterfoil/ledger.db")


def test_limits_of_calls_under_way_are_said_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "gateway.yaml").write_text(
        "mcpServers: {a: {command: b}}\nlimits: {concurrent: {in_all: null, per_principal: 3}, wait_s: 0}\n"
    )
    told = load_settings(tmp_path / "gateway.yaml").at_once
    assert (told.in_all, told.per_principal, told.per_upstream, told.wait_s) == (None, 3, 500, 0)
    assert told.denied == 600
