"""`counterfoil schema`: the JSON Schemas that are public, for editors and client libraries."""

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import typer

from gateway.model.answer import Refusal
from gateway.model.packet import Packet
from gateway.model.record import Record
from gateway.model.status import Status
from gateway.outbound.policy_files import policy_schema, shared_schema


class What(StrEnum):
    """What has a published schema."""

    policy = "policy"
    shared = "shared"
    refusal = "refusal"
    record = "record"
    status = "status"
    packet = "packet"


def schema(
    what: Annotated[
        What,
        typer.Argument(
            help="Policy files, files that they include, typed refusals, ledger records, `gateway__status`, or packets."
        ),
    ],
) -> None:
    """Print a JSON Schema."""
    typer.echo(json.dumps(_SCHEMAS[what](), indent=2))


_SCHEMAS: Mapping[What, Callable[[], dict[str, Any]]] = {
    What.policy: policy_schema,
    What.shared: shared_schema,
    What.refusal: partial(Refusal.model_json_schema, mode="serialization"),
    What.record: partial(Record.model_json_schema, mode="serialization"),
    What.status: Status.model_json_schema,
    What.packet: partial(Packet.model_json_schema, mode="serialization"),
}
