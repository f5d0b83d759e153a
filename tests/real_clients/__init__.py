"""Clients that others wrote, unmodified and without a model, driven through any MCP server."""
