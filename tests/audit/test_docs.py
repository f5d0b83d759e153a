"""docs/ledger.md tells the invariants as the code has them, and commands that exist."""

import re
from pathlib import Path

from typer.testing import CliRunner

from gateway.cli.commands import app
from gateway.kernel.audit import INVARIANTS
from gateway.settings import load_settings

PAGE = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text()


def test_the_table_is_that_of_the_code() -> None:
    table = "".join(f"| {number} | {one.promise} |\n" for number, one in INVARIANTS.items())
    found = re.search(r"\|---\|---\|\n((?:\| I.*\n)+)", PAGE)
    assert found is not None
    assert found[1] == table


def test_every_option_that_it_names_exists() -> None:
    shown = CliRunner().invoke(app, ["verify", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    options = {
        word for line in re.findall(r"counterfoil verify[^`\n#]*", PAGE) for word in re.findall(r"--[a-z-]+", line)
    }
    assert {option for option in options if option not in shown} == set()
    assert {"--key", "--head", "--judge", "--prove", "--proof"} <= options


def test_the_configuration_that_it_shows_is_one(tmp_path: Path) -> None:
    (tmp_path / "seal.pem").write_text("11" * 32)
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "gateway.yaml").write_text(block + "upstreams: {fs: {command: x}}\n")
    told = load_settings(tmp_path / "gateway.yaml", {"HOME": "/"}).sealing
    assert (told.key is not None, told.head is not None, told.every_s) == (True, True, 60)
