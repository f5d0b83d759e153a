"""Makes `gateway/model/confusables.py` from Unicode's own list, when that has a new version.

    python -m tests.model.confusables_table confusables.txt > gateway/model/confusables.py

The list is https://www.unicode.org/Public/security/latest/confusables.txt [UTS 39, section 4].
"""

import re
import sys
import textwrap
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import gateway.model.confusables

_LINE = re.compile(r"([0-9A-F]+) ;\s*([0-9A-F ]+?) ;\s*MA\b")
_WIDTH = 120


def entries(lines: Iterable[str]) -> dict[str, list[str]]:
    """By what they look like, the characters that do. Left out is what cannot come up: ASCII, of which
    `lookalikes` decides itself, and what has a decomposition, since that comes first.
    """
    found: dict[str, list[str]] = {}
    for line in lines:
        if (entry := _LINE.match(line)) is not None:
            source = chr(int(entry[1], 16))
            looks = unicodedata.normalize("NFKD", "".join(chr(int(point, 16)) for point in entry[2].split()))
            if not source.isascii() and unicodedata.normalize("NFKD", source) == source != looks:
                found.setdefault(looks, []).append(source)
    return found


def table(found: dict[str, list[str]]) -> str:
    """The entries as the module has them: code points in hexadecimal, so that nothing in it deceives its reader."""
    return " ".join(
        f"{'+'.join(f'{ord(char):x}' for char in looks)}:{','.join(f'{ord(char):x}' for char in sorted(found[looks]))}"
        for looks in sorted(found)
    )


def module(text: str, lines: Iterable[str]) -> str:
    """The text of the module with another table."""
    wrapped = "\n".join(textwrap.wrap(table(entries(lines)), _WIDTH, break_long_words=False, break_on_hyphens=False))
    head, begin, rest = text.partition('TABLE = """\n')
    return head + begin + wrapped + '\n"""' + rest.split('"""', 1)[1]


if __name__ == "__main__":
    old = Path(gateway.model.confusables.__file__).read_text(encoding="utf-8")
    sys.stdout.write(module(old, Path(sys.argv[1]).read_text(encoding="utf-8-sig").splitlines()))
