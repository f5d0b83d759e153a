"""`… where id = :id` -> the names of its parameters, and the same statement as a driver wants it."""

import re
from collections.abc import Callable, Iterator

_TOKEN = re.compile(
    r"""
    (?P<skipped>
        [eE]'(?:[^'\\]|\\.|'')*'            # PostgreSQL's strings with escapes
      | '(?:[^']|'')*' | "(?:[^"]|"")*"     # texts, names
      | \$(?P<tag>[A-Za-z_]\w*)?\$.*?\$(?(tag)(?P=tag))\$
      | --[^\n]* | /\*.*?\*/
      | ::                                  # a cast
    )
  | (?<![\w:]):(?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)


def named(statement: str) -> Iterator[str]:
    """The names of the parameters, as often as each stands."""
    return (found["name"] for found in _TOKEN.finditer(statement) if found["name"])


def spelled(statement: str, spell: Callable[[str], str]) -> str:
    """The statement with each parameter as `spell` gives it."""
    return _TOKEN.sub(lambda found: spell(found["name"]) if found["name"] else found[0], statement)
