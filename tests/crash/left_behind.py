"""What happened to real processes, put together from what outlived them: ledger, server's file, agents' memory."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway.model.canonical import canonical, digest, digest_bytes
from gateway.model.events import IntentRecorded
from gateway.model.policy import Policy
from gateway.model.record import decode
from gateway.outbound.ledger import open_ledger
from gateway.runtime.policies import spelled
from tests.crash.history import Answered, Effect, History, Received, Reply

Json = dict[str, Any]


async def history(folder: Path, address: str, policy: Json, heard: Sequence[Mapping[str, Json]]) -> History:
    """From the ledger, the server's file, and what the agents were told."""
    ledger = await open_ledger(address)
    try:
        records = [(decode(one.body), one.body) for one in await ledger.log(limit=100_000)]
        accounts = sorted({one.account for record, _ in records for one in getattr(record.event, "accounts", ())})
        known = Policy.model_validate(policy)
        lines = [json.loads(line) for line in read(folder / "effects")]
        owners = _owners(records, ledger.salt, lines)
        return History(
            records=records,
            tracked=await ledger.tracked(),
            levels=await ledger.levels(accounts),
            payloads=dict(await ledger.payloads(limit=100_000)),
            policies={digest_bytes(spelled(known), ledger.salt): known},
            received=[
                Received(number, one["tool"], {"ref": one["ref"]}, owner, owner is not None, one["key"])
                for number, (one, owner) in enumerate(zip(lines, owners, strict=True))
                if one["kind"] == "call"
            ],
            effects=[
                Effect(number, owner, one["tool"])
                for number, (one, owner) in enumerate(zip(lines, owners, strict=True))
                if one["kind"] == "effect"
            ],
            answered=[
                Answered(owner, digest_bytes(canonical(one["result"]), ledger.salt))
                for one, owner in zip(lines, owners, strict=True)
                if one["kind"] == "answer"
            ],
            replies=[_reply(name, told, ledger.salt, len(records)) for one in heard for name, told in one.items()],
            salt=ledger.salt,
        )
    finally:
        await ledger.close()


def read(path: Path) -> list[str]:
    """Its lines; none if nobody wrote any."""
    return path.read_text().splitlines() if path.exists() else []


def _owners(records: Sequence[tuple[Any, bytes]], salt: bytes, lines: Sequence[Json]) -> list[str | None]:
    """Whose each line of the server's is: by our key where it has one, else by its receipt, else by what it is about,
    each in its turn.
    """
    attempts: dict[tuple[str, str], list[str]] = defaultdict(list)
    unsent = {record.event.attempt for record, _ in records if record.event.kind == "attempt.unsent"}
    for record, _ in records:
        event = record.event
        if isinstance(event, IntentRecorded) and event.attempt not in unsent:
            attempts[event.tool, event.arguments].append(event.attempt)
    receipts = {
        record.event.attempt: record.event.result for record, _ in records if record.event.kind == "receipt.recorded"
    }
    turns: dict[tuple[str, str, str], int] = defaultdict(int)
    found: list[str | None] = []
    for one in lines:
        about = one["tool"], digest({"ref": one["ref"]}, salt)
        turn = turns[(*about, one["kind"])]
        turns[(*about, one["kind"])] += 1
        mine = attempts[about]
        told = digest_bytes(canonical(one["result"]), salt) if one["kind"] == "answer" else None
        said = next((name for name in mine if receipts.get(name) == told is not None), None)
        receipts.pop(said or "", None)  # of equal calls with equal answers, each has its own
        found.append(one["key"] or said or (mine[turn] if turn < len(mine) else None))
    return found


def _reply(name: str, told: Json, salt: bytes, place: int) -> Reply:
    tool, _, ref = name.partition("-")
    said, meta = told.get("structuredContent") or {}, told.get("_meta", {}).get("counterfoil/record", {})
    refused = "outcome" in said
    plain = {key: value for key, value in told.items() if key not in {"_meta", "resultType"}}
    return Reply(
        run=said.get("run", meta.get("run", "")),
        tool=tool,
        arguments=digest({"ref": ref}, salt),
        kind="refused" if refused else "result",
        place=place,
        asked=place,
        attempt=said.get("attempt", meta.get("attempt")),
        payload=None if refused else digest_bytes(canonical(plain), salt),
        outcome=said.get("outcome"),
        executed=said.get("executed"),
        key=name,
    )
