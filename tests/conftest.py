"""What every test may ask for: the event loop, and the command lines of real MCP servers."""

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import postgres_server, real_servers

# Speed is measured by tests/bench, beside something, and not here. Few examples for every day; thousands find more.
TRIES = int(os.environ.get("PROPERTY_EXAMPLES", "50"))
settings.register_profile("counterfoil", deadline=None, max_examples=TRIES)
settings.load_profile("counterfoil")

SERVERS = Path(__file__).parent / "servers"
EXAMPLES = Path(__file__).parent.parent / "examples"


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: a third of the time a test waits, for a process or on purpose."""
    return (os.cpu_count() or 1) * 3 // 2


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """One event loop for all: the gateway runs on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def filesystem_server() -> list[str]:
    """`@modelcontextprotocol/server-filesystem` on stdio; append the directories that it may touch."""
    return _npm(real_servers.FILESYSTEM)


@pytest.fixture(scope="session")
def everything_server() -> list[str]:
    """`@modelcontextprotocol/server-everything` on stdio: progress, logs, elicitation, sampling, list changes."""
    return [*_npm(real_servers.EVERYTHING), "stdio"]


@pytest.fixture(scope="session")
def git_server() -> list[str]:
    """`mcp-server-git` on stdio; append `--repository DIRECTORY` to confine it."""
    return [sys.executable, "-m", "mcp_server_git"]


@pytest.fixture(scope="session")
def time_server() -> list[str]:
    """`mcp-server-time` on stdio: reads only, with an output schema."""
    return [sys.executable, "-m", "mcp_server_time", "--local-timezone=UTC"]


@pytest.fixture(scope="session")
def effects_server() -> list[str]:
    """Our server with countable effects, on stdio; append the path of its log."""
    return [sys.executable, str(SERVERS / "effects_server.py")]


@pytest.fixture(scope="session")
def runner_server() -> list[str]:
    """The test runner of an example, on stdio; append the directory whose tests it runs."""
    return [sys.executable, str(EXAMPLES / "repo-repair" / "runner_server.py")]


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.Server]:
    """A PostgreSQL server of this test process, started when a test first asks. Never skipped: it comes by pip."""
    with postgres_server.running() as server:
        yield server


_SCHEMAS = itertools.count(1)


@pytest.fixture
def postgres_url(postgres: postgres_server.Server) -> str:
    """The address of a ledger that is not there yet, in a schema of its own."""
    return postgres.url(f"test_{next(_SCHEMAS)}")


def _npm(package: str) -> list[str]:
    try:
        return real_servers.npm_server(package)
    except real_servers.CannotInstall as error:
        if os.environ.get("CI"):
            pytest.fail(f"no real server to test against: {error}")
        pytest.skip(f"NOT TESTED AGAINST A REAL SERVER: {error}")
