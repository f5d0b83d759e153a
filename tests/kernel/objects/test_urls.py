import pytest

from tests.kernel.objects import Judged, judged

USER = "the URL has a user name before its host"
SPACES = "the URL has spaces, backslashes or characters that cannot be seen"
NO_HOST = "the URL names no host"
NO_SCHEME = "the URL names no scheme"
NUMBER = "the host is a number that readers take differently"
ODD = "the host of the URL has characters that no host has"
NAME = "the host is no name and no address"
REPLACED = "the host has characters that are replaced by others"
DOTS = "the path of the URL has dots or slashes that readers resolve differently"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com/a?b=c#d", True),
        ("HTTPS://EXAMPLE.com", True),
        ("https://example.com:8443/", True),
        ("https://example.com:/", True),
        ("https://example.com./", True),
        ("https://example.com?@evil.org", True),
        ("https://example.com#@evil.org", True),
        ("https://example.com/@evil.org", True),
        ("https://a.example.org", True),
        ("https://a.b.example.org", True),
        ("https://bücher.example.org", True),
        ("wss://example.com", True),
        ("https://example.org", False),
        ("https://evil.com", False),
        ("https://example.com.evil.org", False),
        ("https://notexample.com", False),
        ("https://evil-example.org", False),
        ("https://\u0435xample.com", False),  # a Cyrillic letter
        ("https://xn--xample-2of.com", False),
        ("https://93.184.216.34", False),
        ("https://[2606:2800::1]", False),
        ("https://example.com@evil.org", USER),
        ("https://evil.org@example.com", USER),
        ("https://example.com:443@evil.org", USER),
        ("https://@example.com", USER),
        ("https://example.com\\@evil.org", SPACES),
        ("https:\\\\example.com", SPACES),
        ("https://evil.org\\.example.com", SPACES),
        ("https://example.com\t.evil.org", SPACES),
        ("https://exa\nmple.com", SPACES),
        ("https://evil.org .example.org", SPACES),
        (" https://example.com", NO_SCHEME),
        ("https://example.com\u200b", SPACES),
        ("https:example.com", NO_HOST),
        ("https:/example.com", NO_HOST),
        ("https:///example.com", NO_HOST),
        ("//example.com", NO_SCHEME),
        ("example.com", NO_SCHEME),
        ("/relative", NO_SCHEME),
        ("", NO_SCHEME),
        ("javascript:alert(1)", NO_HOST),
        ("data:text/html,x", NO_HOST),
        ("file:///etc/passwd", NO_HOST),
        ("gopher://example.com", NO_HOST),
        ("https://example%2ecom", ODD),
        ("https://example.com%00.evil.org", ODD),
        ("https://exa|mple.com", ODD),
        ("https://example.com:80:80", "the port of the URL is no number"),
        ("https://example.com:+80", "the port of the URL is no number"),
        ("https://example.com:99999", "the port of the URL is no number"),
        ("https://example.com:\uff180", "the port of the URL is no number"),
        ("https://exa_mple..com", NAME),
        ("https://-a.example.org", NAME),
        ("https://exa*mple.org", NAME),
        ("https://", "the host is empty or too long"),
        ("https://?x", "the host is empty or too long"),
        ("https://" + "a." * 200 + "example.org", "the host is empty or too long"),
        ("https://2130706433", NUMBER),
        ("https://0x7f.1", NUMBER),
        ("https://1.2.3", NUMBER),
        ("https://1.2.3.04", NUMBER),
        ("https://\uff45xample.com", REPLACED),
        ("https://example。com", REPLACED),
        ("https://ⓔxample.com", REPLACED),
        ("https://faß.example.org", "the host is another one to older readers"),
        ("https://♥.example.org", "the host is no name that can be looked up"),
        ("https://evil.c\u2100.example.com", "the URL cannot be read"),
        ("https://[::1", "the URL cannot be read"),
        ("https://[::1]x", NAME),
        ("https://[fe80::1%25eth0]", ODD),
        ("https://example.com/" + "a" * 20000, "the URL is longer than 16384 characters"),
        (7, "`url.on_host` cannot take an integer and a list"),
    ],
)
def test_a_url_is_on_a_host_only_if_every_reader_finds_that_host(url: object, expected: Judged) -> None:
    assert judged('url.on_host(args.a, ["example.com", "*.example.org"])', url) == expected


def test_one_host_may_stand_alone_and_lists_are_checked() -> None:
    assert judged('url.on_host(args.a, "bücher.example")', "http://xn--bcher-kva.example") is True
    assert judged("url.on_host(args.a, args.b)", "http://a.example", ["*.example", 1]) == "not all hosts are texts"
    below = "in the list of hosts: nothing is below an address"
    assert judged("url.on_host(args.a, args.b)", "http://1.2.3.4", ["*.1.2.3.4"]) == below
    unfit = "in the list of hosts: the host is no name and no address"
    assert judged("url.on_host(args.a, args.b)", "http://a.example", ["*"]) == unfit


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost", True),
        ("http://LOCALHOST.:80", True),
        ("http://a.localhost", True),
        ("http://router", True),
        ("http://printer.local", True),
        ("http://metadata.google.internal/computeMetadata", True),
        ("http://api.prod.svc.cluster.local", True),
        ("http://nas.home.arpa", True),
        ("http://127.0.0.1.nip.io", True),
        ("http://localtest.me", True),
        ("http://127.0.0.1", True),
        ("http://127.255.0.9", True),
        ("http://10.1.2.3", True),
        ("http://172.16.0.1", True),
        ("http://172.32.0.1", False),
        ("http://192.168.1.1", True),
        ("http://169.254.169.254/latest/meta-data", True),
        ("http://168.63.129.16", True),
        ("http://100.100.100.200", True),
        ("http://0.0.0.0", True),
        ("http://0", True),
        ("http://224.0.0.1", True),
        ("http://255.255.255.255", True),
        ("http://2130706433", True),
        ("http://0x7f000001", True),
        ("http://0x7f.0.0.1", True),
        ("http://0177.0.0.1", NUMBER),  # 127.0.0.1, or 177.0.0.1
        ("http://127.1", True),
        ("http://127.0.1", True),
        ("http://10.010.0.1", True),
        ("http://010.0.0.1", NUMBER),  # 8.0.0.1, or 10.0.0.1
        ("http://134744072", NUMBER),  # 8.8.8.8
        ("http://99999999999", NUMBER),
        ("http://1.2.3.4.5", NUMBER),
        ("http://256.0.0.1", NUMBER),
        ("http://0x", NUMBER),
        ("http://1.-1.1", NUMBER),
        ("http://١٢٧.0.0.1", NUMBER),
        ("http://8.8.8.8", False),
        ("http://8.8.8.8.", False),
        ("http://[::1]", True),
        ("http://[::]", True),
        ("http://[fe80::1]", True),
        ("http://[fd00:ec2::254]", True),
        ("http://[::ffff:127.0.0.1]", True),
        ("http://[::ffff:7f00:1]", True),
        ("http://[::ffff:8.8.8.8]", False),
        ("http://[64:ff9b::7f00:1]", True),
        ("http://[2002:7f00:1::]", True),
        ("http://[2606:4700::1111]", False),
        ("http://[nonsense]", "the URL cannot be read"),
        ("http://example.com", False),
        ("http://internal.example.com", False),
        ("http://localhost.example.com", False),
        ("http://user@127.0.0.1", USER),
        ("http://127.0.0.1\\.example.com", SPACES),
        ("http://①②⑦.0.0.1", NUMBER),
    ],
)
def test_a_url_is_private_by_its_host_however_that_is_written(url: str, expected: Judged) -> None:
    assert judged("url.private(args.a)", url) == expected


@pytest.mark.parametrize(
    ("url", "scheme", "host", "port", "path"),
    [
        ("HTTPS://Example.COM/A/b?c", "https", "example.com", 443, "/A/b"),
        ("http://[::0:1]:8080", "http", "::1", 8080, "/"),
        ("ws://bücher.example//x", "ws", "xn--bcher-kva.example", 80, "//x"),
    ],
)
def test_a_url_has_parts(url: str, scheme: str, host: str, port: int, path: str) -> None:
    assert judged("url.scheme(args.a) == args.b", url, scheme) is True
    assert judged("url.host(args.a) == args.b", url, host) is True
    assert judged("url.port(args.a) == args.b", url, port) is True
    assert judged("url.path(args.a) == args.b", url, path) is True


@pytest.mark.parametrize("path", ["/a/../b", "/./a", "/%2e%2E/a", "/a%2fb", "/a%5Cb", "/a%00", "/.."])
def test_a_path_that_readers_resolve_is_undecided(path: str) -> None:
    assert judged('url.path(args.a).startsWith("/")', f"https://example.com{path}") == DOTS


def test_a_scheme_is_read_where_no_host_is_named() -> None:
    assert judged('url.scheme(args.a) == "javascript"', "JavaScript:alert(1)") is True
    assert judged('url.scheme(args.a) == "javascript"', "java\nscript:alert(1)") == NO_SCHEME
    assert judged('url.scheme(args.a) == "a"', "1a:b") == NO_SCHEME
