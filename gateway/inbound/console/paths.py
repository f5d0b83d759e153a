"""Where things are under `/console`; what the door itself serves needs no reviewer."""

ROOT = "/console"
ENTER = "/enter"
LEAVE = "/leave"
LOGIN = "/login"
CALLBACK = "/callback"
CONNECTIONS = "/connections"
"""Where people connect accounts of theirs at other providers. Beneath it, under an upstream's name, they come back."""
STYLE = "/door.css"
ASSISTANTS = "/mcp"
"""The operators' MCP server, for a reviewer's own assistant."""

OPEN = frozenset({ENTER, LOGIN, CALLBACK, STYLE})
"""All that can be asked for without being anybody."""


def question(approval: str) -> str:
    """The page of one question."""
    return f"{ROOT}/approvals/{approval}"
