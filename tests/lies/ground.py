"""A policy that believes no word of a liar, and the places at which its verifiers look."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.outbound.looks import DatabasePlace, FolderPlace, Place
from tests.servers.lying_server import World

CHECK = "import sys; sys.stdout.write(open('orders.json').read())"
ORDERS = {"type": "object", "required": ["orders"]}
IS_ONE = "size(result.{0}.filter(one, one.id == args.id)) == 1"
IS_RIGHT = "result.{0}.exists(one, one.id == args.id && one.text == args.text)"


def holds(where: str) -> list[str]:
    """What is asked of a list of orders: the one that was put stands there once, whole."""
    return [IS_ONE.format(where), IS_RIGHT.format(where)]


def verifiers(look: str = "look") -> dict[str, Any]:
    """One of each kind, which all ask the same: is the order there, whole and once? `own` asks the liar himself."""
    command = {"place": "shop", "run": [sys.executable, "-I", "-S", "-c", CHECK], "output": ORDERS}
    asked = {"query": "select id, text from orders where id = :id", "parameters_from": {"id": "args.id"}}
    return {
        "probe": {
            "probe": {"tool": look, "arguments_from": {"id": "args.id"}},
            "pass": holds("structuredContent.orders"),
        },
        "command": {"command": command, "pass": holds("json.orders")},
        "sql": {"sql": {"place": "orders", **asked}, "pass": holds("rows")},
        "file": {
            "file": {"place": "shop", "path_from": "'orders/' + args.id + '.txt'"},
            "pass": ["result.exists == true", "result.size == size(args.text)"],
        },
        "own": {"result": {}, "pass": ["result.structuredContent.size > 0 || result.structuredContent.state != ''"]},
    }


KINDS = ("probe", "command", "sql", "file")
"""Those that look from outside."""


def policy(kind: str, put: str = "put", look: str = "look", **more: Any) -> dict[str, Any]:
    """A workflow that is done once the order is proven to be there, by a verifier of that kind."""
    return {
        "workflow": "shop",
        "tools": {put: {"effect": "write"}, look: {"effect": "read"}},
        "phases": {"open": {}, "doubt": {}, "stored": {"accept": "independent"}},
        "transitions": [
            {
                "name": "put",
                "tools": [put],
                "verify": kind,
                "to": "stored",
                "on": {"verification_failed": "doubt", "error": "doubt", "invalid": "doubt"},
            },
            {"name": "look", "tools": [look]},
        ],
        "verifiers": verifiers(look),
        "success": {"evidence": [kind], "phase": "stored"},
        **more,
    }


def places(world: World) -> Mapping[str, Place]:
    """Where the verifiers look."""
    shop = FolderPlace("shop", world.folder)
    return {"shop": shop, "orders": DatabasePlace("orders", f"sqlite:///{world.database}")}


def world_at(folder: Path) -> World:
    """A world with nothing in it."""
    return World(folder / "world")
