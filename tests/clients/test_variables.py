"""How each client writes a variable, and what the gateway makes of it."""

from pathlib import Path

import pytest

from gateway.outbound.clients.table import client_named
from gateway.outbound.clients.variables import CannotSay, parts_of, variables_in
from gateway.outbound.references import expand

ENVIRON = {"V": "value", "HOME": "/home/anna", "INPUT_A_KEY": "asked"}


@pytest.mark.parametrize(
    ("client", "text", "written"),
    [
        ("claude-code", "${V}", "${V}"),
        ("claude-code", "a ${V:-d} b", "a ${V:-d} b"),
        ("claude-code", "$V ${1} ${env:V} ${", "$V $${1} $${env:V} $${"),
        ("cursor", "${env:V}-$V", "${V}-$V"),
        ("cursor", "${userHome}/x", "${HOME}/x"),
        ("cursor", "${workspaceFolder}/x", "/the/project/x"),
        ("vscode", "Bearer ${input:a-key}", "Bearer ${INPUT_A_KEY:-}"),
        ("gemini", "$V/${V}", "${V}/${V}"),
        ("gemini", "${V:-d} $1 $", "${V:-d} $1 $"),
        ("windsurf", "${file:/run/secrets/x} ${env:V} ${V}", "${file:/run/secrets/x} ${V} $${V}"),
        ("zed", "${V} $V", "$${V} $V"),
        ("claude-desktop", "${V} $${", "$${V} $$${"),
        ("codex", "${V}", "$${V}"),
    ],
)
def test_a_reference_becomes_ours_and_what_is_none_stays_a_text(client: str, text: str, written: str) -> None:
    parts = parts_of(text, client_named(client), Path("/the/project"))
    assert "".join(part.written for part in parts) == written
    if not any(part.is_reference for part in parts) and client in {"zed", "codex", "claude-desktop"}:
        assert expand(written, {}, Path()) == text


@pytest.mark.parametrize(
    ("client", "text", "why"),
    [
        ("cursor", "${workspaceFolder}", "`${workspaceFolder}` is another folder in each window"),
        ("cursor", "${pathSeparator}", "the gateway has nothing like `${pathSeparator}`"),
        ("vscode", "${env:V:default}", "the gateway has nothing like `${env:V:default}`"),
        ("vscode", "${command:x}", "the gateway has nothing like `${command:x}`"),
        ("windsurf", "${file:relative}", "the gateway has nothing like `${file:relative}`"),
        ("claude-code", "$${V}", "a `$` stands directly before a variable"),
    ],
)
def test_what_the_gateway_cannot_say_is_named(client: str, text: str, why: str) -> None:
    with pytest.raises(CannotSay) as caught:
        parts_of(text, client_named(client), None)
    assert str(caught.value) == why


def test_the_variables_of_a_configuration_are_found_and_whether_they_must_be_set() -> None:
    value = {"a": ["${A} ${B:-x}", "$${NO} ${file:/x} ${env:C}"], "b": {"c": "${B}", "d": 1}}
    assert variables_in(value) == {"A": True, "B": True, "C": True}
    assert variables_in("${A:-}") == {"A": False}
