import pytest

from tests.kernel.objects import Judged, judged

DOTDOT = "the path has a step `..`"
HIDDEN = "the path has spaces around it, or characters that cannot be seen"
COLON = "the path has a colon, as drives, streams and URLs have"
BACKSLASH = "the path has a backslash"
CODED = "the path is percent-encoded"
POSES = "the path has a character that looks like a slash or a dot"
ENDS = "a step of the path ends in a dot or a space"
SHORT = "a step of the path looks like a short name of Windows"
LINK = "the path goes through a link that the system keeps"
SHELL = "the path begins with what a shell replaces"
MIXED = "one of path and root is relative, the other absolute"
FOLDED = "the path differs from the root in upper and lower case or in its Unicode form only"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/work", True),
        ("/work/", True),
        ("/work/a.py", True),
        ("/work//a///b", True),
        ("/work/./a/.", True),
        ("/work/.env", True),
        ("/work/...a", True),
        ("/work/a b", True),
        ("/work/100%", True),
        ("/work/100%zz", True),
        ("/work/a~", True),
        ("/work/[id].tsx", True),
        ("/work/ärger/日本語ノート.md", True),
        ("/", False),
        ("/workshop", False),
        ("/work.bak/a", False),
        ("/etc/passwd", False),
        ("/etc/work/a", False),
        ("/proc/cpuinfo", False),
        ("/work/../etc/passwd", DOTDOT),
        ("/work/a/../b", DOTDOT),
        ("/work/..", DOTDOT),
        ("../work", DOTDOT),
        ("/work/. ./etc", ENDS),
        ("/work/.. /etc", ENDS),
        ("/work/..../etc", ENDS),
        ("/work/a./b", ENDS),
        ("/work/a.", ENDS),
        ("/work/..\\etc", BACKSLASH),
        ("\\work\\a", BACKSLASH),
        ("\\\\server\\work", BACKSLASH),
        ("C:/work/a", COLON),
        ("c:work", COLON),
        ("/work/a::$DATA", COLON),
        ("file:///work/a", COLON),
        ("//work/a", "the path begins with two slashes"),
        ("//server/work", "the path begins with two slashes"),
        ("~/work", SHELL),
        ("~root/work", SHELL),
        ("$HOME/work", SHELL),
        ("${HOME}", SHELL),
        ("/work/%2e%2e/etc", CODED),
        ("/work%2f..%2fetc", CODED),
        ("/work/%252e", CODED),
        ("/work/%C0%AE", CODED),
        ("/work/a\x00.txt", "`args.a` is no text"),
        ("/work/a\n", HIDDEN),
        ("/work/\r../etc", HIDDEN),
        (" /work/a", HIDDEN),
        ("/work/a ", HIDDEN),
        ("\ufeff/work/a", HIDDEN),
        ("/work/.\u200c./etc", HIDDEN),
        ("/work/a\u202egnp.exe", HIDDEN),
        ("/work/a\u00a0", HIDDEN),
        ("/work/a\u00a0b", HIDDEN),
        ("/work\u2215..\u2215etc", POSES),
        ("/work\uff0fetc", POSES),
        ("/work/\u2024\u2024/etc", POSES),
        ("/work/\uff0e\uff0e/etc", POSES),
        ("/work/\u2025/etc", POSES),
        ("/work\uff3ca", POSES),
        ("/work\u00a5a", POSES),
        ("/work/GIT~1/config", SHORT),
        ("/proc/self/root/work/a", LINK),
        ("/proc/1/cwd/a", LINK),
        ("/proc/self/fd/3", LINK),
        ("/PROC/self/root", LINK),
        ("/dev/fd/3/a", LINK),
        ("/System/Volumes/Data/work", LINK),
        ("/.vol/1/2", LINK),
        ("/WORK/a", FOLDED),
        ("/Work", FOLDED),
        ("/\uff57ork/a", FOLDED),
        ("/private/work/a", FOLDED),
        ("work/a", MIXED),
        (".", MIXED),
        ("", "the path is empty"),
        ("/" + "a" * 9000, "the path is longer than 8192 characters"),
        (7, "`path.within` cannot take an integer and a string"),
        (None, "`path.within` cannot take null and a string"),
        (["/work"], "`path.within` cannot take a list and a string"),
    ],
)
def test_a_path_is_within_a_root_only_if_all_read_it_so(path: object, expected: Judged) -> None:
    assert judged('path.within(args.a, "/work")', path) == expected


@pytest.mark.parametrize(
    ("path", "roots", "expected"),
    [
        ("src/a.py", ["."], True),
        ("./src/a.py", ["src"], True),
        ("a.py", ["src"], False),
        ("/data/x", ["/work", "/data"], True),
        ("/etc/x", ["/work", "/data"], False),
        ("/work/a", [".", "/work"], True),
        ("/etc/a", [".", "/work"], MIXED),
        ("/work/a", ["/work/.."], "in the root: the path has a step `..`"),
        ("/work/a", [], False),
        ("/work/a", ["/work", 1], "not all roots are texts"),
        ("/work/a", ["/x"] * 1001, "there are more than 1000 roots"),
        ("/work/../a", ["/work"], DOTDOT),
        ("/work/a", [""], "in the root: the path is empty"),
    ],
)
def test_one_root_of_several_is_enough(path: str, roots: list[object], expected: Judged) -> None:
    assert judged("path.within(args.a, args.b)", path, roots) == expected


MIXED_GLOB = "one of path and pattern is relative, the other absolute"
FOLDED_GLOB = "the path differs from the pattern in upper and lower case or in its Unicode form only"


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("src/a.py", "src/*.py", True),
        ("src/x/a.py", "src/*.py", False),
        ("src/x/y/a.py", "src/**/*.py", True),
        ("src/a.py", "src/**/*.py", True),
        ("src/a.pyc", "src/**/*.py", False),
        ("./src//a.py", "src/*.py", True),
        ("/work/src/a.py", "src/*.py", MIXED_GLOB),
        ("src/a.py", "/src/*.py", MIXED_GLOB),
        ("/work/.git/hooks/x", "**/.git/**", True),
        (".git/hooks/x", "**/.git/**", True),
        (".git", "**/.git/**", True),
        (".GIT/x", "**/.git/**", FOLDED_GLOB),
        (".g\uff49t/x", "**/.git/**", FOLDED_GLOB),
        (".github/x", "**/.git/**", False),
        ("a/../.git/x", "**/.git/**", DOTDOT),
        ("src\\..\\.GIT", "**/.git/**", BACKSLASH),
        ("a.py", "?.py", True),
        ("ab.py", "?.py", False),
        ("anything/at/all", "**", True),
        ("/", "/**", True),
        ("src/.hidden", "src/*", True),
        ("a", "a/**/b", False),
        ("a/b", "a/**/**/b", True),
        ("src/a.py", "src/***.py", "the pattern has an empty step, `.`, `..`, or `**` beside other characters"),
        ("src/a.py", "src/../a.py", "the pattern has an empty step, `.`, `..`, or `**` beside other characters"),
        ("src/a.py", "", "the pattern has an empty step, `.`, `..`, or `**` beside other characters"),
        ("src/a.py", "C:/*", "the pattern has a backslash or a colon, and no path that has one is judged"),
        ("a" * 8000, "*a" * 100 + "b", False),
    ],
)
def test_a_pattern_takes_whole_paths_as_they_are_without_their_dots(path: str, pattern: str, expected: Judged) -> None:
    assert judged("path.glob(args.a, args.b)", path, pattern) == expected


def test_one_pattern_of_several_is_enough() -> None:
    assert judged('path.glob(args.a, ["docs/**", "*.md"])', "README.md") is True
    assert judged('path.glob(args.a, ["docs/**", "*.md"])', "src/a.py") is False


@pytest.mark.parametrize(
    ("path", "steps", "name", "extension"),
    [
        ("/work/a/b.tar.GZ", ["work", "a", "b.tar.GZ"], "b.tar.GZ", "gz"),
        ("./.env", [".env"], ".env", ""),
        ("Makefile", ["Makefile"], "Makefile", ""),
        ("/", [], "", ""),
        ("a/.b.c", ["a", ".b.c"], ".b.c", "c"),
    ],
)
def test_a_path_has_steps_a_name_and_an_extension(path: str, steps: list[str], name: str, extension: str) -> None:
    assert judged("path.steps(args.a) == args.b", path, steps) is True
    assert judged("path.name(args.a) == args.b", path, name) is True
    assert judged("path.extension(args.a) == args.b", path, extension) is True


def test_a_path_that_is_not_judged_has_no_name_either() -> None:
    for function in ("steps", "name", "extension"):
        assert judged(f"size(path.{function}(args.a)) == 0", "a/../b") == DOTDOT
