"""The gateway's own tools as a client sees them: what is listed is what is checked."""

from typing import Any

import jsonschema_rs
import pytest

from gateway.inbound.mcp.own_tools import OWN_DEFINITIONS, OWN_TOOLS, BadArguments

SCHEMAS = [
    pytest.param(definition[part], id=f"{definition['name']} {part}")
    for definition in OWN_DEFINITIONS
    for part in ("inputSchema", "outputSchema")
    if part in definition
]


def parts(schema: Any) -> list[Any]:
    """All of the schema, in depth."""
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return [schema, *(part for one in inner for part in parts(one))]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_schemas_are_plain_objects_that_strict_clients_take(schema: dict[str, Any]) -> None:
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    assert schema["type"] == "object"
    assert [part for part in parts(schema) if isinstance(part, dict) and ("$ref" in part or "$defs" in part)] == []


@pytest.mark.parametrize("name", OWN_TOOLS)
def test_no_tool_takes_what_it_does_not_list(name: str) -> None:
    tool = OWN_TOOLS[name]
    assert tool.definition["inputSchema"]["additionalProperties"] is False
    with pytest.raises(BadArguments) as bad:
        tool.read({"nobody/knows~this": 1})
    assert {"path": "/nobody~1knows~0this", "expected": "extra inputs are not permitted"} in bad.value.violations
