"""The tokenizer of the extra `tokens`: it counts without a network, or says how to get it."""

import sys
import time

import pytest

from gateway.outbound.tokens import NoTokenizer, counter


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(NoTokenizer) as told:
        counter()
    assert str(told.value) == "no tokenizer is installed: pip install 'counterfoil[tokens]'"


def test_it_counts_what_a_result_says_and_is_named_with_its_version() -> None:
    pytest.importorskip("tiktoken")
    made = counter()
    assert made.source.startswith("tiktoken ")
    assert made.source.endswith(", cl100k_base")
    assert made.count(b"hello world") == 2
    assert made.count(b'{"a":[1,2,3]}') > len(b'{"a":[1,2,3]}') // 4, "JSON has more than a quarter of its bytes"
    assert made.count(b"<|endoftext|>") > 1, "what looks like a sign of the model's is text"
    assert made.count(b"\xff") >= 1


def test_a_text_without_any_space_is_counted_in_good_time() -> None:
    pytest.importorskip("tiktoken")
    began = time.monotonic()
    assert counter().count(b"a" * 1_000_000) > 1_000
    assert time.monotonic() - began < 10
