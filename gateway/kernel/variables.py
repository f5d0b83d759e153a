"""What expressions may name, by their kind."""

from collections.abc import Mapping

from gateway.model.flaws import Kind

VARIABLES: Mapping[Kind, Mapping[str, str]] = {
    "transition": {
        "args": "map(string, dyn)",
        "run.id": "string",
        "run.phase": "string",
        "run.workflow": "string",
        "run.calls": "int",
        "run.mutations": "int",
        "run.tokens": "int",
        "run.cost": "double",
        "run.reviews": "int",
        "run.elapsed_s": "double",
        "run.origin": "string",
        "run.parent": "string",
        "run.data": "list(string)",
        "principal.id": "string",
        "principal.tenant": "string",
        "principal.roles": "list(string)",
        "principal.scopes": "list(string)",
        "principal.authority": "list(string)",
        "tool.name": "string",
        "tool.upstream": "string",
        "tool.effect": "string",
        "tool.data_class": "string",
        "evidence": "map(string, dyn)",
        "accounts": "map(string, dyn)",
        "values": "map(string, dyn)",
        "now": "timestamp",
    },
    "verifier": {
        "args": "map(string, dyn)",
        "result": "map(string, dyn)",
        "evidence": "map(string, dyn)",
        "values": "map(string, dyn)",
        "now": "timestamp",
    },
    "probe": {
        "args": "map(string, dyn)",
        "values": "map(string, dyn)",
        "now": "timestamp",
    },
    "status": {
        "args": "map(string, dyn)",
        "result": "map(string, dyn)",
        "key": "string",
        "values": "map(string, dyn)",
        "now": "timestamp",
    },
    "query": {
        "args": "map(string, dyn)",
        "key": "string",
        "values": "map(string, dyn)",
        "now": "timestamp",
    },
}
"""What an expression may name, and of which type. Dotted names, so that a typing error is found at load.

`key` is what the gateway gave the upstream to know the call by. `run.data` are the data classes that the run has
seen, `values` the named constants of the policy. What stands in the maps is known at load too, by the tool's schema
and the policy (`shapes.py`)."""


ROOTS: Mapping[Kind, frozenset[str]] = {
    kind: frozenset(name.partition(".")[0] for name in names) for kind, names in VARIABLES.items()
}
"""The first names of all that an expression may name."""
