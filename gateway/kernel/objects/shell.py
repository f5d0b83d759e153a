"""`shell.simple`, `shell.words`, `shell.commands`, `shell.runs_only`: a command line as bash would read it.

Judged is only what is made of plain words: names, options and quoted texts, joined by `;`, `&&`, `||`, `|`, new lines.
Whatever the shell would replace, split, expand or redirect has no answer, and neither has a text of which the parser
leaves out so much as one character: its grammar is an approximation, so it is believed only where it accounts for all.
"""

from functools import cache
from typing import Any

from gateway.kernel.objects.judged import PARSED, Function, Unjudged, bounded, hides, texts

MAX_LINE = 4_096
"""Characters of a line. What the grammar cannot make sense of takes the parser time with the square of its length:
0.1 s here, and 1.5 s for four times as much.
"""

_WRAPPERS = (
    ". alias ash bash bind builtin busybox chroot command complete coproc csh dash doas enable env eval "
    "exec fc fish flock hash ionice ksh mapfile nice nohup nsenter parallel rbash readarray runuser "
    "script setpriv setsid sh shopt source ssh stdbuf strace su sudo systemd-run taskset tcsh time "
    "timeout trap unbuffer unshare watch xargs zsh "
)
WRAPPERS = frozenset(_WRAPPERS.split())
"""Commands whose arguments are commands, or that change what a name runs. Many more can run one: `find -exec`,
`git -c`, `make`, every interpreter.
"""
_RUNNING = {"find": frozenset({"-exec", "-execdir", "-ok", "-okdir"}), "fd": frozenset({"-x", "-X", "--exec"})}

_JOINTS = frozenset({"program", "list", "pipeline"})
_BETWEEN = frozenset({";", "&&", "||", "|", "|&", "\n"})
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+@%=^#~")

Words = tuple[str, ...]


@cache
def _parser() -> Any:
    import tree_sitter  # noqa: PLC0415 - a library in C, loaded only by policies that ask about command lines
    import tree_sitter_bash  # noqa: PLC0415

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def read(line: str) -> tuple[list[Words], bool]:
    """The words of each command, and whether nothing is redirected."""
    bounded(line, "the command line", MAX_LINE)
    if hides(line.translate({9: " ", 10: " "})):
        raise Unjudged("the command line has characters that cannot be seen")
    source = line.encode()
    root = _parser().parse(source).root_node
    if root.has_error:
        raise Unjudged("the command line cannot be parsed")
    _tiles(root, source)
    found: list[Words] = []
    plain = True
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.type == "command":
            found.append(_command(node))
        elif node.type in _JOINTS:
            nodes.extend(reversed(node.children))
        elif node.type == "redirected_statement":
            plain = False
            nodes.append(node.children[0])
            for redirect in node.children[1:]:
                _harmless(redirect)
        elif node.is_named or node.type not in _BETWEEN:
            raise Unjudged("the command line is more than plain words can say")
    if not found:
        raise Unjudged("the command line has no command")
    return found, plain


def _tiles(root: Any, source: bytes) -> None:
    """Refuses what the parser has passed over: between its leaves there may be blanks and nothing else."""
    at = 0
    for start, end in _leaves(root):
        if source[at:start].strip(b" \t\n"):
            raise Unjudged("the command line is more than plain words can say")
        at = end
    if source[at:].strip(b" \t\n"):
        raise Unjudged("the command line is more than plain words can say")


def _leaves(root: Any) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    nodes = [root]
    while nodes:
        node = nodes.pop()
        # A quoted text is one leaf: the blanks in it are its own.
        if node.type in {"string", "raw_string"} or (not node.children and node.end_byte > node.start_byte):
            found.append((node.start_byte, node.end_byte))
        else:
            nodes.extend(reversed(node.children))
    return found


def _command(node: Any) -> Words:
    words: list[str] = []
    end = -1
    for child in node.children:
        if child.start_byte == end:
            raise Unjudged("the command line is more than plain words can say")
        end = child.end_byte
        words.append(_word(child.children[0] if child.type == "command_name" else child))
    if not words or not words[0] or "=" in words[0]:
        raise Unjudged("a command has no plain name")
    return tuple(words)


def _word(node: Any) -> str:
    text: str = node.text.decode()
    match node.type:
        case "concatenation":
            return "".join(_word(part) for part in node.children)
        case "raw_string":
            return text[1:-1]
        case "string":
            if any(part.type not in {'"', "string_content"} for part in node.children) or not _fixed(text[1:-1]):
                raise Unjudged("a quoted text has something in it that the shell replaces")
            return text[1:-1]
        case "word" | "number":
            if not _literal(text):
                raise Unjudged("a word has something in it that the shell replaces")
            return text
        case _:
            raise Unjudged("the command line is more than plain words can say")


def _fixed(text: str) -> bool:
    return not any(char in text for char in '$`\\"')


def _literal(text: str) -> bool:
    """Whether bash, and every shell like it, takes the bare word as it stands."""
    if not all(char in _PLAIN or not char.isascii() for char in text) or text[:1] in {"~", "#", "="}:
        return False
    # A tilde is a tilde behind a letter, as in `HEAD~1`, and may be somebody's home elsewhere.
    return all(part[-1:].isalnum() for part in text.split("~")[:-1])


def _harmless(redirect: Any) -> None:
    """Refuses all but `2>&1` and its like, and what goes to /dev/null."""
    # The grammar takes the end of a word for a descriptor: `ls -2>&1` has the option `-2`.
    first, *rest = redirect.children
    if first.type == "file_descriptor" and (
        not first.text.isdigit() or redirect.prev_sibling.end_byte == first.start_byte
    ):
        raise Unjudged("the command line is more than plain words can say")
    children = rest if first.type == "file_descriptor" else [first, *rest]
    if redirect.type == "file_redirect" and len(children) == 2:  # noqa: PLR2004 - an arrow and where it points
        arrow, target = children[0].type, children[1].text
        if (arrow == ">&" and target in {b"1", b"2"}) or (arrow in {">", ">>", "&>"} and target == b"/dev/null"):
            return
    raise Unjudged("the command line redirects to or from somewhere")


# --- judgements -----------------------------------------------------------------------------------------------------


def simple(line: str) -> bool:
    """Whether it is made of plain words alone, without any redirection; false for all else, also what is no command."""
    try:
        return read(line)[1]
    except Unjudged:
        return False


def words(line: str) -> list[list[str]]:
    """The words of each command, without their quotes."""
    return [list(command) for command in read(line)[0]]


def commands(line: str) -> list[str]:
    """The names of the commands, each once; no answer if one of them is a path, or runs another that is not seen."""
    found = read(line)[0]
    for name, *arguments in found:
        if "/" in name:
            raise Unjudged("a command is named by its path")
        if name in WRAPPERS or not _RUNNING.get(name, frozenset()).isdisjoint(arguments):
            raise Unjudged("a command runs another, which is not judged")
    return list(dict.fromkeys(command[0] for command in found))


def runs_only(line: str, names: list[str]) -> bool:
    """Whether each command is one of these, spelled just so; also what runs another, if it is listed."""
    allowed = texts(names, "commands")
    found = read(line)[0]
    for name, *arguments in found:
        if name in allowed and not _RUNNING.get(name, frozenset()).isdisjoint(arguments):
            raise Unjudged("a command runs another, which is not judged")
    return all(command[0] in allowed for command in found)


FUNCTIONS = (
    Function("shell.simple", ((("string",), "bool"),), simple, prepare=_parser, rate=PARSED),
    Function("shell.words", ((("string",), "list(list(string))"),), words, prepare=_parser, rate=PARSED),
    Function("shell.commands", ((("string",), "list(string)"),), commands, prepare=_parser, rate=PARSED),
    Function("shell.runs_only", ((("string", "list(string)"), "bool"),), runs_only, prepare=_parser, rate=PARSED),
)
