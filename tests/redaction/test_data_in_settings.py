"""`data` of gateway.yaml: what it says is taken, and what cannot be meant is told with its place."""

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from gateway.outbound.payload_keys import key_id
from gateway.outbound.redaction import PERSONAL
from gateway.settings import Settings, SettingsProblems, load_settings

KEY, OLD = "11" * 32, "22" * 32


def loaded(folder: Path, text: str, **environ: str) -> Settings:
    path = folder / "gateway.yaml"
    path.write_text(f"mcpServers: {{fx: {{command: fx}}}}\n{text}")
    return load_settings(path, environ)


def problems(folder: Path, text: str, **environ: str) -> list[str]:
    with pytest.raises(SettingsProblems) as raised:
        loaded(folder, text, **environ)
    return [str(one).replace(f"{folder}/gateway.yaml:", "") for one in raised.value.problems]


def test_where_nothing_is_said_all_is_redacted_and_nothing_encrypted_or_erased(tmp_path: Path) -> None:
    data = loaded(tmp_path, "").data
    assert (data.keys.ids, data.redaction.personal, data.stored_redacted) == ([], frozenset(PERSONAL), False)
    assert (data.days, data.days_of) == (None, {})


def test_what_is_said_is_taken(tmp_path: Path) -> None:
    (tmp_path / "old.key").write_text(f"{OLD}\n")
    text = """\
data:
  redact: {personal: [email], patterns: {customer: "KD-[0-9]{8}"}, fields: [date_of_birth], stored: true}
  encryption: {key: "${KEY}", old_keys: ["${file:old.key}"]}
  retention: {days: 90, classes: {mailbox: 7}}
"""
    data = loaded(tmp_path, text, KEY=KEY).data
    assert data.keys.ids == [key_id(bytes.fromhex(one)).hex() for one in (KEY, OLD)]
    assert data.redaction.personal == {"email"}
    assert data.redaction.patterns == {"customer": "KD-[0-9]{8}"}
    assert data.redaction.fields == {"date_of_birth"}
    assert (data.stored_redacted, data.days, data.days_of) == (True, 90, {"mailbox": 7})
    assert KEY not in repr(data)


def test_what_cannot_be_meant_is_told_with_its_place_and_without_the_secret(tmp_path: Path) -> None:
    text = """\
data:
  redact: {personal: [name], patterns: {bad: "[a-z", Bad: x}}
  encryption: {key: "${SHORT}", old_keys: [secret-in-the-file]}
  retention: {days: 0}
"""
    told = problems(tmp_path, text, SHORT="hunter2")
    assert told == snapshot(
        [
            "3:23: data.redact.personal.0: one of `email`, `phone`, `iban`, `card`, `ip` is wanted, not `name`",
            "3:46: data.redact.patterns.bad: not a pattern of RE2: missing ]: [a-z",
            "3:54: data.redact.patterns.Bad: a name of lower-case letters, digits and `_` is wanted, not `Bad`",
            "4:21: data.encryption.key: 32 bytes are wanted, in hex or base64 (`counterfoil keygen --data`)",
            "4:44: data.encryption.old_keys.0: 32 bytes are wanted, in hex or base64 (`counterfoil keygen --data`)",
            "4:44: data.encryption.old_keys.0: a key is referred to: `${NAME}`, `${file:/path}`",
            "5:21: data.retention.days: a number above 0 is wanted",
        ]
    )
    assert "hunter2" not in str(told)
    assert "secret-in-the-file" not in str(told)
