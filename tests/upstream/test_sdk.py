"""The SDK's rules for headers are its own, and come without the rest of it."""

import subprocess
import sys

import pytest
from mcp.shared import inbound

from gateway.outbound.upstream import sdk


def test_what_is_loaded_are_the_rules_of_the_sdk() -> None:
    assert sdk.NAME_BEARING_METHODS == inbound.NAME_BEARING_METHODS
    assert sdk.ERROR_CODE_HTTP_STATUS == inbound.ERROR_CODE_HTTP_STATUS
    assert sdk.encode_header_value("é") == inbound.encode_header_value("é")
    assert sdk.decode_header_value(sdk.encode_header_value("é")) == "é"


def test_what_the_sdk_does_not_have_is_missing_here_too() -> None:
    with pytest.raises(AttributeError):
        sdk.no_such_rule  # noqa: B018 - to be asked for is all that it is for


def test_a_gateway_does_not_load_the_sdk_for_them() -> None:
    words = (
        "import sys, gateway.app, gateway.serving; print([name for name in ('mcp', 'httpx2') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout == "[]\n"
