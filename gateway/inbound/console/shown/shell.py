"""(a command line) -> its parts in their colours: each program, and what joins, leads or hides them."""

from collections.abc import Iterator
from functools import cache
from time import monotonic

import tree_sitter
import tree_sitter_bash

from gateway.inbound.console.shown.layers import Range

ACTS = {
    "rm": "removes files",
    "rmdir": "removes folders",
    "unlink": "removes a file",
    "shred": "destroys files",
    "dd": "writes whole devices",
    "mkfs": "makes a file system anew",
    "truncate": "empties files",
    "mv": "moves, and may overwrite",
    "chmod": "changes rights",
    "chown": "changes owners",
    "kill": "ends processes",
    "pkill": "ends processes",
    "killall": "ends processes",
    "sudo": "as another user",
    "su": "as another user",
    "doas": "as another user",
    "curl": "reaches the network",
    "wget": "reaches the network",
    "nc": "reaches the network",
    "ssh": "reaches another machine",
    "scp": "reaches another machine",
    "rsync": "may reach another machine",
    "eval": "runs what its text says",
    "exec": "runs what its text says",
    "source": "runs a file",
    "xargs": "runs a command for each line",
    "sh": "runs a script",
    "bash": "runs a script",
    "zsh": "runs a script",
    "python": "runs a program",
    "python3": "runs a program",
    "node": "runs a program",
    "perl": "runs a program",
}
_LEADERS = frozenset(("sudo", "doas", "su", "env", "nohup", "time", "xargs", "exec", "timeout", "nice", "command"))
"""Programs that run another one, which is named among their arguments."""
_STYLES = {
    "comment": "hl-c",
    "string": "hl-s",
    "raw_string": "hl-s",
    "ansi_c_string": "hl-s",
    "heredoc_body": "hl-s",
    "variable_name": "hl-n",
    "special_variable_name": "hl-n",
    "command_name": "sh-program",
    "number": "hl-m",
}
_JOINS = frozenset(("|", "|&", "&&", "||", ";", "&", "$(", "`", "<(", ">("))
_LEADS = frozenset((">", ">>", "&>", "&>>", ">|", "<", "<<", "<<<", "<<-", ">&", "<&"))


MAX_LOOKED = 4_000
"""Characters of a command line that are taken apart."""
MAX_S = 0.04
"""How long it may take. The grammar takes the square of an odd command's length, and nothing else runs meanwhile."""
_CHUNK = 1_024

UNREAD = "it is too odd to be taken apart: nothing in it is marked, read it letter by letter"


@cache
def _language() -> tree_sitter.Language:
    return tree_sitter.Language(tree_sitter_bash.language())


def _parsed(body: bytes) -> tree_sitter.Node | None:
    """The command line, taken apart; None where that takes too long. A parser of its own, for pages are made in threads
    at the same time.
    """
    until = monotonic() + MAX_S
    parser = tree_sitter.Parser(_language())
    try:
        tree = parser.parse(
            lambda at, _place: body[at : at + _CHUNK], progress_callback=lambda _at, _wrong: monotonic() > until
        )
    except ValueError:
        return None
    return tree.root_node


def command(text: str) -> tuple[tuple[Range, ...], tuple[str, ...]]:
    """Where each part of its beginning stands and what it is, and what somebody should look at first."""
    beyond = [f"only its first {MAX_LOOKED:,} characters were looked through"] if len(text) > MAX_LOOKED else []
    body = text[:MAX_LOOKED].encode("utf-8", "replace")
    root = _parsed(body)
    if root is None:
        return (), (UNREAD,)
    places = _Places(body)
    ranges = tuple(one for node in _walk(root) for one in _ranges(node, places))
    warned = [f"{one.says}" for one in ranges if "danger" in one.style]
    programs = sum(one.style.startswith("sh-program") for one in ranges)
    told = [f"{programs} commands"] if programs > 1 else []
    broken = ["it is no complete command line: read it letter by letter"] if root.has_error else []
    return ranges, tuple(dict.fromkeys([*beyond, *broken, *told, *warned]))


class _Places:
    """Bytes to characters."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._ascii = body.isascii()

    def of(self, at: int) -> int:
        return at if self._ascii else len(self._body[:at].decode("utf-8", "ignore"))


def _walk(root: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def _led(name: tree_sitter.Node, places: _Places) -> Iterator[Range]:
    """What `sudo` and its like run in their turn: each word that names a program which acts."""
    word = name.next_sibling
    while word is not None:
        said = (word.text or b"").decode("utf-8", "replace").rpartition("/")[2]
        if said in ACTS:
            yield Range(
                places.of(word.start_byte), places.of(word.end_byte), "led sh-program danger", f"`{said}` {ACTS[said]}"
            )
        word = word.next_sibling


def _ranges(node: tree_sitter.Node, places: _Places) -> Iterator[Range]:
    start, end = places.of(node.start_byte), places.of(node.end_byte)
    said = (node.text or b"").decode("utf-8", "replace")
    if node.type == "command_name":
        program = said.rpartition("/")[2]
        acts = ACTS.get(program.partition(".")[0])
        yield Range(start, end, "sh-program danger" if acts else "sh-program", f"`{program}` {acts}" if acts else "")
        if program in _LEADERS:
            yield from _led(node, places)
    elif node.type in _STYLES:
        yield Range(start, end, _STYLES[node.type])
    elif not node.is_named and node.type in _JOINS:
        yield Range(start, end, "sh-joins")
    elif not node.is_named and node.type in _LEADS:
        writes = ">" in node.type and "&" not in node.type
        yield Range(start, end, "sh-leads danger" if writes else "sh-leads", "writes to a file" if writes else "")
