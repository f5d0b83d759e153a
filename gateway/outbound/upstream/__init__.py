"""Real MCP servers, over stdio and streamable HTTP, in both eras. Raw JSON objects end to end.

`catalogue` is the port; each upstream in it is kept by a `supervisor` over one connection (`stdio`, `http`), which
came about by `negotiate`. `wire`, `lines` and `sse` judge what comes in before anything reads it.
"""
