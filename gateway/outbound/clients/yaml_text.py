"""Values -> YAML that the strict reader of `outbound/yaml_files.py` takes, and that people like to read."""

import json
import re
from collections.abc import Mapping
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""What some reader takes for no text."""


def as_yaml(value: Mapping[str, Any], indent: int = 0) -> str:
    """The mapping in block style; lists and all texts on one line each. Empty for an empty one."""
    lines: list[str] = []
    for key, item in value.items():
        head = f"{' ' * indent}{_key(key)}:"
        if isinstance(item, Mapping):
            lines += [f"{head}\n", as_yaml(item, indent + 2)] if item else [f"{head} {{}}\n"]
        else:
            lines.append(f"{head} {_value(item)}\n")
    return "".join(lines)


def as_flow(value: Mapping[str, Any]) -> str:
    """The mapping's inside in flow style, on one line."""
    return ", ".join(f"{_key(key)}: {_value(item)}" for key, item in value.items())


def _key(key: str) -> str:
    return key if _PLAIN.fullmatch(key) and key.lower() not in _WORDS else _text(key)


def _value(value: Any) -> str:
    match value:
        case str():
            return _text(value)
        case list():
            return f"[{', '.join(_value(item) for item in value)}]"
        case Mapping():
            return f"{{{as_flow(value)}}}"
        case _:
            return json.dumps(value)


def _text(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() or char == " " else _escaped(char) for char in quoted)


def _escaped(char: str) -> str:
    return f"\\U{ord(char):08x}" if ord(char) > 0xFFFF else f"\\u{ord(char):04x}"  # noqa: PLR2004 - what \u can say
