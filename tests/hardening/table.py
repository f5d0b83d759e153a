"""The threats of `table.yaml`, as values: `python -m tests.hardening.table` writes the table of `docs/hardening.md`.

Each row has tests, as `file::name` below `tests/`, and `test_table.py` sees to it that they are there.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from gateway.outbound.yaml_files import read

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("table.yaml")
PAGE = ROOT / "docs" / "hardening.md"
BEGIN, END = "<!-- rows: written by `python -m tests.hardening.table` -->", "<!-- end of rows -->"


@dataclass(frozen=True)
class Row:
    """One threat."""

    id: str
    threat: str
    answer: str
    tests: tuple[str, ...]
    setting: str = ""


def rows() -> tuple[Row, ...]:
    """All of them, in order."""
    return tuple(Row(**{**row, "tests": tuple(row["tests"])}) for row in read(TABLE).value)


def written(page: str) -> str:
    """The page with its table as it must be."""
    lines = ["| | threat | what the gateway does | setting | test |", "|---|---|---|---|---|"]
    for row in rows():
        more = f" and {len(row.tests) - 1} more" if len(row.tests) > 1 else ""
        lines.append(f"| {row.id} | {row.threat} | {row.answer} | {row.setting} | `{row.tests[0]}`{more} |")
    table = "\n".join([BEGIN, "", *lines, "", END])
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: table, page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
    sys.stdout.write(f"{len(rows())} rows\n")
