"""Addresses of mail, repositories, branches and plain texts."""

import pytest

from tests.kernel.objects import Judged, judged

PLAIN = "the address is not one plain `name@host`"
LOCAL = "the part before the `@` is not plain"
FULL = "the part after the `@` is no full name of a host"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("ada@example.com", True),
        ("Ada.Lovelace+tag@EXAMPLE.com", True),
        ("o'brien@example.com", True),
        ("ada@mail.example.com", False),
        ("ada@example.com.evil.org", False),
        ("ada@notexample.com", False),
        ("ada@ex\u0430mple.com", False),
        ("Ada <ada@example.com>", LOCAL),
        ("<ada@example.com>", LOCAL),
        ('"ada"@example.com', LOCAL),
        ('"ada@evil.org"@example.com', PLAIN),
        ("ada(comment)@example.com", LOCAL),
        ("ada@example.com(comment)", "the host is no name and no address"),
        ("ada@example.com, eve@evil.org", PLAIN),
        ("ada,eve@example.com", LOCAL),
        ("ada;eve@example.com", LOCAL),
        ("ada@example.com;eve", "the host is no name and no address"),
        ("ada@evil.org@example.com", PLAIN),
        ("@evil.org:ada@example.com", PLAIN),
        ("ada%evil.org@example.com", LOCAL),
        ("evil.org!ada@example.com", LOCAL),
        ("ada @example.com", LOCAL),
        ("ada@ example.com", "the host is no name and no address"),
        ("ada@example.com\nBcc: eve@evil.org", PLAIN),
        ("ada\r\nBcc:eve@example.com", LOCAL),
        ("-oQ/tmp@example.com", LOCAL),
        (".ada@example.com", LOCAL),
        ("a..da@example.com", LOCAL),
        ("ada.@example.com", LOCAL),
        ("äda@example.com", LOCAL),
        ("=?utf-8?q?ada=40evil.org?=@example.com", True),
        ("ada@[127.0.0.1]", "the host is no address"),
        ("ada@[::1]", FULL),
        ("ada@[fe80::1%x]", "the host names a zone of the network"),
        ("ada@127.0.0.1", FULL),
        ("ada@localhost", FULL),
        ("ada@example.com.", FULL),
        ("ada", PLAIN),
        ("@example.com", PLAIN),
        ("ada@", PLAIN),
        ("", PLAIN),
        ("a" * 400 + "@example.com", "the address is longer than 320 characters"),
        (["ada@example.com"], "`mail.domain` cannot take a list"),
    ],
)
def test_an_address_has_a_domain_if_it_is_one_plain_address(address: object, expected: Judged) -> None:
    assert judged('mail.domain(args.a) == "example.com"', address) == expected


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["a@example.com", "b@example.com"], True),
        ([], True),
        (["a@example.com", "b@evil.org"], False),
        (["a@example.com", "b@evil.org, c@example.com"], PLAIN),
        (["a@example.com", 1], "not all addresses are texts"),
        (["a@example.com"] * 1001, "there are more than 1000 addresses"),
        ("a@example.com", "`mail.domains` cannot take a string"),
    ],
)
def test_all_addresses_of_a_list_are_read(addresses: object, expected: Judged) -> None:
    assert judged('mail.domains(args.a).all(d, d == "example.com")', addresses) == expected


ELSEWHERE = "the repository is on another host"
NO_SLUG = "the repository is not named as `owner/name`"
CHARS = "the repository is named with characters that no name has"
WAY = "the repository is named in a way that is not judged"


@pytest.mark.parametrize(
    ("repository", "expected"),
    [
        ("ada/engine", True),
        ("Ada/Engine", True),
        ("ada/engine.git", True),
        ("https://github.com/ada/engine", True),
        ("https://GitHub.com/ada/engine.git/", True),
        ("ssh://git@github.com/ada/engine.git", True),
        ("git@github.com:ada/engine.git", True),
        ("git+ssh://git@github.com/ada/engine", True),
        ("eve/engine", False),
        ("https://github.com/eve/engine", False),
        ("https://evil.org/ada/engine", ELSEWHERE),
        ("git@evil.org:ada/engine", ELSEWHERE),
        ("https://github.com.evil.org/ada/engine", ELSEWHERE),
        ("https://github.com@evil.org/ada/engine", "the repository is named with a user"),
        ("https://git@github.com/ada/engine", "the repository is named with a user"),
        ("ssh://root@github.com/ada/engine", "the repository is named with a user"),
        ("github.com:ada/engine", WAY),
        ("git@github.com:/ada/engine", WAY),
        ("http://github.com/ada/engine", "the repository is reached by a scheme that is not judged"),
        ("file:///ada/engine", "the repository is reached by a scheme that is not judged"),
        ("ext::sh -c ls", WAY),
        ("https://github.com/ada/engine/tree/main", NO_SLUG),
        ("https://github.com/ada", NO_SLUG),
        ("engine", NO_SLUG),
        ("", NO_SLUG),
        ("https://github.com:443/ada/engine", "the host is no name and no address"),
        ("ada/../eve", NO_SLUG),
        ("ada/..", CHARS),
        ("../engine", CHARS),
        ("-ada/engine", CHARS),
        ("ada/eng ine", CHARS),
        ("ada/engine?x", CHARS),
        ("ada/engine%2f", CHARS),
        ("\u0430da/engine", CHARS),
        ("ada/engine.git.git", CHARS),
        ("ada/" + "e" * 2000, "the repository is longer than 1024 characters"),
    ],
)
def test_a_repository_has_a_slug_on_the_host_that_is_asked_for(repository: str, expected: Judged) -> None:
    assert judged('repo.slug(args.a, "github.com") == "ada/engine"', repository) == expected


def test_elsewhere_owners_may_be_groups_within_groups() -> None:
    assert judged('repo.slug(args.a, "gitlab.com") == "a/b/c"', "https://gitlab.com/a/b/c") is True
    assert judged('repo.slug(args.a, "gitlab.com") == "a/b"', "https://gitlab.com/a/b/-/tree") == CHARS


OTHER_REF = "the branch is a ref of another kind, an option, or none"
NO_CHARS = "the branch has characters that no branch has"
NO_NAME = "the branch has a name that git does not allow"


@pytest.mark.parametrize(
    ("branch", "expected"),
    [
        ("agent/fix-1", True),
        ("agent/a/b", True),
        ("refs/heads/agent/x", True),
        ("main", False),
        ("agent", False),
        ("Agent/x", False),
        ("my/agent/x", False),
        ("agent/x:main", NO_CHARS),
        ("agent/../main", NO_CHARS),
        ("agent/x main", NO_CHARS),
        ("agent/x\nmain", NO_CHARS),
        ("agent/x^", NO_CHARS),
        ("agent/@{-1}", NO_CHARS),
        ("agent//x", NO_CHARS),
        ("agent/*", NO_CHARS),
        ("agent\\x", NO_CHARS),
        ("+agent/x", OTHER_REF),
        ("--force", OTHER_REF),
        ("refs/tags/agent/x", OTHER_REF),
        ("refs/heads/refs/heads/main", OTHER_REF),
        ("HEAD", OTHER_REF),
        ("@", OTHER_REF),
        ("", OTHER_REF),
        ("/agent/x", OTHER_REF),
        ("agent/", NO_NAME),
        ("agent/.x", NO_NAME),
        ("agent/x.lock", NO_NAME),
        ("agent/x.", NO_NAME),
        ("a" * 2000, "the branch is longer than 1024 characters"),
    ],
)
def test_a_branch_is_a_plain_branch_or_undecided(branch: str, expected: Judged) -> None:
    assert judged('text.glob(repo.branch(args.a), "agent/*")', branch) == expected


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("", "", True),
        ("", "*", True),
        ("", "?", False),
        ("abc", "a*c", True),
        ("abc", "a?c", True),
        ("abc", "a*d", False),
        ("abcbc", "a*bc", True),
        ("abc", "ABC", False),
        ("a\nb", "a*b", True),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("[a]", "[a]", True),
        ("a" * 10_000, "*a" * 100 + "b", False),
        ("a" * 10_001, "*", "the text is longer than 10000 characters"),
        ("a", "*" * 257, "the pattern is longer than 256 characters"),
    ],
)
def test_a_text_fits_a_pattern_as_a_whole(text: str, pattern: str, expected: Judged) -> None:
    assert judged("text.glob(args.a, args.b)", text, pattern) == expected


def test_a_text_is_lowered() -> None:
    assert judged('text.lower(args.a) == "straße.git"', "STRAßE.GIT") is True
    assert judged('text.lower(args.a) == ""', "a" * 100_001) == "the text is longer than 100000 characters"
