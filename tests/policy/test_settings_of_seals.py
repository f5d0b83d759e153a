"""What gateway.yaml says of the ledger's seal."""

from pathlib import Path

import pytest

from gateway.outbound.head_file import HeadFile
from gateway.outbound.seal_keys import new_key, signed_by
from gateway.runtime.sealing import UNSIGNED
from gateway.settings import Settings, SettingsProblems, load_settings


def load(folder: Path, text: str) -> Settings:
    file = folder / "gateway.yaml"
    file.write_text(f"{text}\nupstreams: {{fs: {{command: fs-server}}}}\n", encoding="utf-8")
    return load_settings(file, {"HOME": "/home/ann"})


def test_a_seal_has_its_key_by_reference_and_its_head_outside(tmp_path: Path) -> None:
    (tmp_path / "seal.pem").write_text(new_key())
    told = load(tmp_path, "seal: {key: '${file:seal.pem}', head: outside/head, every_s: 5}").sealing
    assert told.key is not None
    assert signed_by(told.key.public, told.key.sign(b"x"), b"x")
    assert isinstance(told.head, HeadFile)
    assert (told.head.path, told.every_s) == (tmp_path / "outside" / "head", 5)


def test_a_seal_may_have_a_head_alone_or_nothing(tmp_path: Path) -> None:
    assert load(tmp_path, "seal: {head: head}").sealing.key is None
    assert load(tmp_path, "ledger: x.db").sealing == UNSIGNED


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "seal: {key: not-a-key-at-all}",
            "an Ed25519 private key is wanted, as PEM or as 64 hex digits; `counterfoil keygen` makes one",
        ),
        ("seal: {head: ''}", "the path names no file"),
    ],
)
def test_a_seal_that_cannot_be_used_is_told_without_its_key(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SettingsProblems) as raised:
        load(tmp_path, text)
    assert [problem.message for problem in raised.value.problems] == [says]
