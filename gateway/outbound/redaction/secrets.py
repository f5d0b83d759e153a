"""Secrets in a text. The library's detectors are sure of what they name; `SHAPES` adds what looks like a secret.

`redact-secret` leaves out documentation's example keys, short passwords and keys that are cut off; here they count.
"""

from collections.abc import Iterator

import redact_secret

from gateway.outbound.redaction.spans import Span

LIMITS = redact_secret.WholeInputLimits(max_input_bytes=256 * 1024 * 1024, max_findings=10_000_000)
"""No text of ours is as large: nothing is left out because there is much of it."""

_NAME = (
    r"(?:pass(?:word|wd|phrase)|pwd|secret|token|(?:api|access|secret|private|signing|auth)[_\-]?key|authorization"
    r"|credentials?|cookie)"
)
# A text in quotes goes to its quote, any other to what parts words; a reference to a variable is no secret.
_VALUE = (
    r"(?:(?P<placeholder>\[redacted [a-z0-9_]{1,64} #[0-9]{1,9}, [0-9]{1,9} characters\])"
    r"|\\?[\"'](?P<quoted>[^\"'\\\r\n]{3,})|(?P<bare>[^\s\"'\\,;&)}\]$<\[{(][^\s\"'\\,;&)}\]]{5,}))"
)

_SCHEME = r"(?:(?:bearer|basic|digest|token)\s{1,3})?"

ASSIGNED = rf"(?i){_NAME}\\?[\"']?\s{{0,3}}(?:=>|[:=])\s{{0,3}}{_SCHEME}{_VALUE}"
"""A name of a secret and what it is given: in a shell, a URL, a file of settings, a header, or JSON within a text."""

SHAPES = {
    "private_key": r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^\-]*(?:-----END [A-Z0-9 ]{0,50}-----)?",
    "aws_access_key_id": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "api_key": r"\b(?:sk|rk|pk)[-_](?:[a-z]{2,8}[-_])?[A-Za-z0-9_\-]{20,200}",
    "url_password": r"[a-zA-Z][a-zA-Z0-9+.\-]{1,20}://[^\s/?#@:\"']{0,200}:(?P<userinfo>[^\s/?#@\"']{1,400})@",
    "bearer_token": r"(?i)\b(?:bearer|basic)\s{1,3}(?P<carried>[A-Za-z0-9_\-.=+/~]{8,})",
    "cookie": r"(?im)\b(?:set-)?cookie\s{0,3}:\s{0,3}(?P<crumbs>[^\r\n\"']{3,})",
    "assigned_secret": ASSIGNED,
}
"""Patterns by kind; where one has a group, that is what is meant."""


def known(text: str) -> Iterator[Span]:
    """What the library recognizes, in characters; all of it, where it cannot say. `text` holds no lone surrogates."""
    try:
        found = redact_secret.scan(text, policy=_every, limits=LIMITS)
    except redact_secret.SecretScanError:
        yield Span(0, len(text), "unsearchable_text")
        return
    for one in found:
        yield Span(one.start, one.end, one.type)


def _every(_finding: object, _context: object) -> str:
    # A finding that it would only warn of, being less sure, is one for us.
    return "redact"
