"""What references of a configuration stand for, kept out of logs and troubles, whoever says it.

A server that fails prints the token that it was started with, or names the key that it does not take; so does a
traceback. Known by its letters, and by nothing else: what is said in another spelling is not found.
"""

import logging
import re
from collections.abc import Iterable

MIN_CHARS = 8
"""Of each line of a secret; a shorter one would take words out that mean nothing."""
PLACEHOLDER = "[secret]"
CUT = "..."
"""By which a text ends of which only the head is shown."""

_PLAIN = re.compile(r"(?:~|\.{1,2})?/[\w./ -]*|https?://[\w.:/-]+|(?:[\w-]+\.)+[\w-]+(?::\d+)?|\[?[0-9a-fA-F:]+\]?:\d+")
"""Paths, addresses and names of hosts: what references stand for, too, and people look for in logs."""


class Unsaid:
    """Texts that are in no log. Its `repr` shows nothing of them."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        lines = {line.strip() for text in texts for line in text.splitlines()}
        kept = (line for line in lines if len(line) >= MIN_CHARS and not _PLAIN.fullmatch(line))
        self._lines = sorted(kept, key=lambda line: (-len(line), line))

    def out_of(self, text: str) -> str:
        """The text without them; also without the beginning of one with which it was cut."""
        for line in self._lines:
            text = text.replace(line, PLACEHOLDER)
        return self._uncut(text) if text.endswith(CUT) else text

    def _uncut(self, text: str) -> str:
        head = text.removesuffix(CUT)
        for line in self._lines:
            for length in range(min(len(line), len(head)), MIN_CHARS - 1, -1):
                if head.endswith(line[:length]):
                    return f"{head[:-length]}{PLACEHOLDER}{CUT}"
        return text


NOTHING = Unsaid()


class Discreet(logging.Formatter):
    """Lines of a log, tracebacks and all, without them."""

    def __init__(self, form: str, unsaid: Unsaid) -> None:
        super().__init__(form)
        self._unsaid = unsaid

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return self._unsaid.out_of(super().format(record))
