"""The configuration files of MCP clients: found, read, and changed in the one place that is meant.

Nothing in a file is touched but the entries that move to the gateway: files are edited by span, so that comments, line
ends and odd formatting stay as they are, byte for byte.
"""
