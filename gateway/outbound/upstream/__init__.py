"""Real MCP servers, over stdio and streamable HTTP, in both eras. Raw JSON objects end to end.

`catalogue` is the port. Of each upstream in it a `supervisor` holds the links: the house's, and in the older era one
for each party. A `link` keeps one connection (`stdio`, `http`, `http_sse`), which came about by `negotiate`, and what
is offered over it (`lists`, `subscriptions`). A `call` is one request under way; `calls` knows them all, and so for
whom it is what an upstream tells and asks meanwhile (`questions`, `rounds`). `wire`, `lines` and `sse` judge what
comes in before anything reads it.
"""
