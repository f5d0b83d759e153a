"""Where a database and the parser are known to read a text differently: such a text is not parsed at all."""

from gateway.kernel.objects.judged import Unjudged, hides

MAX_DEPTH = 48
"""Brackets within brackets; the parser calls itself some ten times for each."""


def refuse_parting(text: str, dialect: str) -> None:
    """Raises `Unjudged` if the text has what the two read differently, by its looks: it may stand in a text, too."""
    # A return alone ends a line, and with it a comment, for some.
    if hides(text.replace("\r\n", " ").translate({9: " ", 10: " "})):
        raise Unjudged("the statement has characters that cannot be seen")
    low = text.lower()
    if "/*!" in text or "/*m!" in low or "/*+" in text or "--+" in text:
        raise Unjudged("the statement has a comment that the database may execute")
    if _nests(text):
        raise Unjudged("the statement has a comment within a comment, or one that does not end")
    if dialect == "mysql" and any(not part[:1].isspace() for part in text.split("--")[1:] if part):
        raise Unjudged("the statement has `--` without a space behind it, which is a comment only to some")
    if any(pair in text for pair in ("\\'", '\\"', "\\`")):
        raise Unjudged("the statement has a backslash before a quote")
    if _dollar_quoted(text) or "u&'" in low or 'u&"' in low or (dialect == "oracle" and "q'" in low):
        raise Unjudged("the statement has a quote of a rare kind")
    if _depth(text) > MAX_DEPTH:
        raise Unjudged("the statement is nested too deeply, or cannot be parsed")


def _nests(text: str) -> bool:
    """Whether a `/*` stands before the `*/` of another, or has none: some databases count them, and some do not."""
    parts = text.split("/*")[1:]
    return any("*/" not in part for part in parts)


def _dollar_quoted(text: str) -> bool:
    """Whether anything looks like `$$` or `$tag$`."""
    parts = text.split("$")
    return any(not part or part.replace("_", "a").isalnum() for part in parts[1:-1]) and len(parts) > 2  # noqa: PLR2004


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in text:
        if char in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")]}":
            depth -= 1
    return deepest
