"""What is answered with a JSON-RPC error."""

from collections.abc import Mapping
from typing import Any

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
INVALID_REQUEST = -32600
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
RESOURCE_NOT_FOUND = -32002
"""Up to 2025-11-25; a 2026-07-28 server says `INVALID_PARAMS`."""
URL_ELICITATION = -32042
"""2025-11-25 only: the client must visit addresses, and then repeat the request."""


class Fault(Exception):
    """The request is answered with this error, as it is."""

    def __init__(self, code: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.error: Mapping[str, Any] = {"code": code, "message": message, **more}

    @classmethod
    def of(cls, error: Mapping[str, Any]) -> "Fault":
        """An upstream's own error, with all that it had."""
        fault = cls(error["code"], error["message"])
        fault.error = error
        return fault
