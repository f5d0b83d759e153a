"""The fault server, and the promise that no test leaves a process behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.upstream.faults import Faults, alive, children


@pytest.fixture
def faults(tmp_path: Path) -> Iterator[Faults]:
    """The fault server with a log of its own. Each process of it, and of its group, is gone at the end of the test."""
    before = set(children())
    faults = Faults(tmp_path / "faults.log")
    yield faults
    assert [alive(pid) for pid in faults.entries("started")] == [[] for _ in faults.entries("started")]
    assert set(children()) <= before
