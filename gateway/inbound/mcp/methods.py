"""(the name of a method) -> whether it is the protocol's own, or would be taken for one that is. Pure, total.

A server may read the names of methods less strictly than we do: to it `tools/Call` may be a call, which nobody judged
and nobody recorded. So what seems to belong to MCP is ours to answer or nobody's [hardening T18; GHSA-4gph-2hhr-5mwg].
"""

import re

from gateway.model.lookalikes import likeness

_SPACES = (
    *("initialize", "ping", "server", "tools", "prompts", "resources", "completion", "logging", "tasks", "sampling"),
    *("elicitation", "roots", "subscriptions", "notifications", "rpc"),
)
"""What the names of MCP's methods begin with, in all its versions, and those of JSON-RPC itself."""

_CALLS = ("toolscall", "toolslist", "tasksget", "tasksresult", "taskslist", "promptsget", "resourcesread")
"""Methods that are known without what parts their names, too."""

_ALIKE = {one for name in (*_SPACES, *_CALLS) for one in likeness(name)}
_PARTS = re.compile(r"[^\w]+|_+")
MAX_METHOD = 256
"""Characters; a longer name is nobody's."""


def is_of_protocol(method: str) -> bool:
    """Whether it is one of MCP's own methods, of whatever version, or looks or reads like one."""
    if len(method) > MAX_METHOD:
        return True
    parts = [part for part in _PARTS.split(" ".join(likeness(method)[1].split())) if part]
    if not parts:
        return True
    whole = "".join(parts)
    return any(alike in _ALIKE for part in (parts[0], whole) for alike in likeness(part))
