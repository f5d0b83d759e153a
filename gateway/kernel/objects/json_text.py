"""`json.read`: what a text says that is JSON. Many servers answer JSON as text."""

from typing import Any

from gateway.kernel.objects.judged import Function, Unjudged, bounded
from gateway.model.canonical import NotStrictJson, parse

MAX_DEPTH = 32
"""Levels, within which the engine can look."""


def read(text: str) -> Any:
    """The value; for what is not JSON, or not unambiguous, none."""
    try:
        value = parse(bounded(text, "the text"), max_depth=MAX_DEPTH)
    except NotStrictJson:
        raise Unjudged("the text is no JSON") from None
    return value


FUNCTIONS = (Function("json.read", ((("string",), "dyn"),), read),)
