"""Drive real clients through a server, or compare what they see directly and through the gateway.

    python -m tests.real_clients [--only NAME]… [--profile PROFILE] [URL | -- COMMAND…]
    python -m tests.real_clients --diff [--front http|stdio] … [URL | -- COMMAND…]

Without a server it is our own, tests/servers/clients_server.py, over HTTP. A profile is what is asked for: `ours` of
that server, `everything` of @modelcontextprotocol/server-everything, `conformance` of any server for the conformance
suite. Packages are installed on first use into `.real-clients/` and `.npm-servers/`. It ends with 1 if a client broke
or saw a difference.
"""

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.real_clients.compare import compared
from tests.real_clients.drive import gateway, ours, see, wrapped
from tests.real_clients.table import CLIENTS, PROFILES, Client, Target
from tests.real_servers import CannotInstall


def main() -> int:
    """The number of clients that broke or saw a difference, as an exit code."""
    chosen, server = _arguments(sys.argv[1:])
    clients = [client for client in CLIENTS if not chosen.only or client.name in chosen.only]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, _ways(chosen, server, Path(folder)) as ways:
        for client in clients:
            try:
                seen = [see(client, way, PROFILES[chosen.profile]) for way in ways]
            except CannotInstall as error:
                seen = [{"broke": "not installed", "said": str(error).splitlines()[-5:]}]
            wrong += _tell(client, seen, diff=chosen.diff)
    return min(wrong, 1)


def _arguments(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    options, command = (argv[: argv.index("--")], [*argv[argv.index("--") + 1 :]]) if "--" in argv else (argv, [])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[client.name for client in CLIENTS])
    parser.add_argument("--profile", choices=sorted(PROFILES), default="ours")
    parser.add_argument("--diff", action="store_true")
    parser.add_argument("--front", choices=["http", "stdio"], help="of the gateway; by default as the server's")
    parser.add_argument("url", nargs="?")
    chosen = parser.parse_args(options)
    if chosen.url and command:
        parser.error("either a URL or a command")
    if chosen.front == "stdio" and not command:
        parser.error("a gateway on stdio before a URL has no direct counterpart on stdio")
    return chosen, command


@contextlib.contextmanager
def _ways(chosen: argparse.Namespace, command: list[str], folder: Path) -> Iterator[list[Target]]:
    """The server itself and, for a comparison, the gateway in front of it."""
    with contextlib.ExitStack() as stack:
        url = chosen.url or (None if command else stack.enter_context(ours()))
        ways: list[Target] = [{"url": url} if url else {"command": command}]
        if chosen.diff and (url or chosen.front == "http"):
            ways.append({"url": stack.enter_context(gateway([url] if url else ["--", *command], folder))})
        elif chosen.diff:
            ways.append({"command": wrapped(command, folder)})
        yield ways


def _tell(client: Client, seen: list[dict[str, Any]], *, diff: bool) -> bool:
    """Print it, and say whether it is wrong."""
    broke = any("broke" in one for one in seen)
    if broke:
        ways = zip(("direct", "through"), seen, strict=False)
        sys.stdout.write(f"{client.name}: broke {[way for way, one in ways if 'broke' in one]}\n")
        sys.stdout.write("".join(f"  {_short(one)}\n" for one in seen if "broke" in one))
        return True
    if not diff:
        sys.stdout.write(json.dumps({"client": client.name, "seen": seen[0]}, indent=1, ensure_ascii=False) + "\n")
        return False
    found = compared(*seen)
    sys.stdout.write(f"{client.name} ({seen[0]['package']}): {'differs' if found else 'same'}\n")
    for where, direct, through in found:
        sys.stdout.write(f"  {where}\n    direct   {_short(direct)}\n    through  {_short(through)}\n")
    sys.stdout.flush()
    return bool(found)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 400 else f"{text[:400]}…"


if __name__ == "__main__":
    sys.exit(main())
