"""The repository itself: what a reviewer would look for on every page, looked for by a machine."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
MAX_LINES = 400

LEGAL_TEXT = {"LICENSE"}

# Spelled in pieces, so that this page passes its own check.
HOSTS = [".".join(name) for name in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"))]
PATHS = ["/".join(("", *parts)) for parts in (("work", "main"), ("work", "shared"), ("opt", "pypi"))]


@cache
def tracked() -> tuple[Path, ...]:
    """Every file that is, or would be, in a commit."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = {name for name in os.fsdecode(listed.stdout).split("\0") if name}
    return tuple(path for path in sorted(ROOT / name for name in names) if path.is_file())


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def gateway_files() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py" and path.is_relative_to(ROOT / "gateway")]


def named(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def test_every_module_opens_with_its_promise() -> None:
    silent = [path for path in gateway_files() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert named(silent) == []


def test_every_package_says_that_it_is_one() -> None:
    rooms = {path.parent for path in gateway_files()}
    assert named([room for room in sorted(rooms) if not (room / "__init__.py").exists()]) == []


def test_no_page_is_too_long_to_read() -> None:
    code = [path for path in tracked() if path.suffix == ".py"]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in code}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def test_no_file_names_a_registry_or_a_place_on_one_machine() -> None:
    forbidden = re.compile("|".join(re.escape(word) for word in [*HOSTS, *PATHS]).encode())
    found = {
        str(path.relative_to(ROOT)): sorted({word.decode() for word in forbidden.findall(path.read_bytes())})
        for path in tracked()
        if path.name not in LEGAL_TEXT
    }
    assert {name: words for name, words in found.items() if words} == {}


def test_no_floor_is_crossed() -> None:
    lint_imports = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    linted = subprocess.run(lint_imports, cwd=ROOT, capture_output=True, text=True, check=False)
    if linted.returncode:
        pytest.fail(linted.stdout + linted.stderr, pytrace=False)


CLOCKS = {"now", "utcnow", "today"}


def test_the_lower_floors_are_told_the_time() -> None:
    """They may name `datetime`, which the import contract cannot divide into the type and the clock."""
    asked = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in gateway_files()
        if {"model", "kernel", "ports"} & set(path.parts)
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in CLOCKS
    ]
    assert asked == []


def canonical(requirement: str) -> str:
    """The name that a requirement is about, as indexes compare it [PEP 503]."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def asked_for() -> set[str]:
    """The names of all that pyproject.toml asks for: to run, as an extra, to develop."""
    tables = [project()["project"]["optional-dependencies"], project()["dependency-groups"]]
    lines = [
        *project()["project"]["dependencies"],
        *(line for table in tables for part in table.values() for line in part),
    ]
    return {canonical(line) for line in lines}


def locked() -> dict[str, str]:
    """Each package of the lock, by name, with its version, its hashes, and who wants it."""
    entries = re.split(r"^(?=[a-z0-9])", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE)
    return {canonical(entry): entry for entry in entries if entry}


def test_the_lock_is_of_what_the_project_asks_for() -> None:
    """If not: `poe lock`."""
    assert {name for name, entry in locked().items() if " counterfoil (pyproject.toml" in entry} == asked_for()


def test_the_lock_pins_by_hash_and_names_no_address() -> None:
    entry_of_a_pin = re.compile(
        r"[a-z0-9-]+==\S+( ; [^\n]+)? \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+(    #[^\n]*\n)+"
    )
    assert [name for name, entry in locked().items() if not entry_of_a_pin.fullmatch(entry) or "://" in entry] == []


def test_ci_runs_the_very_command_that_the_readme_gives() -> None:
    command = re.search(r"^CHECK='(.*)'$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert command is not None
    assert command[1] in (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_wheel_holds_the_gateway_and_its_licence_and_nothing_else(tmp_path: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "build", "--wheel", "--quiet", "--out-dir", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    listed = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", wheel], capture_output=True, text=True, check=True
    ).stdout.splitlines()[1:]
    names = {line.split()[0] for line in listed}
    info = f"counterfoil-{project()['project']['version']}.dist-info"
    assert {name.split("/")[0] for name in names} == {"gateway", info}
    assert f"{info}/licenses/LICENSE" in names
    assert {str(path.relative_to(ROOT)) for path in gateway_files()} <= names
    assert "gateway/model/telemetry/registry.yaml" in names
