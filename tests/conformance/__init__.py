"""The official MCP conformance suite, directly and through the gateway: `python -m tests.conformance`."""
