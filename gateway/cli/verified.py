"""What was found in a ledger, for a person who has half a minute; and how the command ends."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from rich.text import Text

from gateway.cli.plain import ago, counted, visible
from gateway.kernel.merkle import BadProof
from gateway.model.note import Note, key_id
from gateway.model.record import decode
from gateway.outbound.seal_keys import signed_by
from gateway.runtime.audit import Proof, Report
from gateway.runtime.exporting import check

CLEAN, BROKEN, UNREADABLE, UNKNOWN = 0, 1, 2, 3
"""Exit codes."""


def exit_code(report: Report, now: datetime, max_unknown_s: float | None) -> int:
    """How the command ends."""
    if report.count:
        return BROKEN
    oldest = report.oldest_unknown_s(now)
    too_old = oldest is not None and max_unknown_s is not None and oldest > max_unknown_s
    return UNKNOWN if too_old else CLEAN


def told(report: Report, now: datetime, *, keys: bool) -> Iterator[Text]:
    """The report, line by line; what is broken comes last, where the eye is."""
    yield _line("log", f"{_many(report.records, 'record')} of {_many(report.runs, 'run')}, {report.origin}")
    yield _line("payloads", _payloads(report))
    yield _line("sealed", _sealed(report, keys=keys))
    if report.head is not None:
        yield _line("head", f"made over {_many(report.head, 'record')}")
    if report.judged or report.not_judged:
        lacking = f"; of {report.not_judged:,} the ledger no longer has what that needs" if report.not_judged else ""
        yield _line("judged", f"{_many(report.judged, 'verdict')} again{lacking}")
    if report.unknown:
        name, since = report.unknown[0]
        yield _line("unsettled", f"{_many(len(report.unknown), 'attempt')}, the oldest {name}, {ago(since, now)}")
    yield Text()
    if not report.count:
        yield Text("clean", style="bold green")
        return
    yield Text(f"BROKEN: {counted(report.count, 'finding')}", style="bold red")
    width = max(len(visible(one.where)) for one in report.breaches)
    for one in report.breaches:
        yield Text(f"  {one.invariant:<4}{visible(one.where):<{min(width, 32)}}  {visible(one.says)}")
    if report.count > len(report.breaches):
        yield Text(f"  and {report.count - len(report.breaches):,} more")


def _payloads(report: Report) -> str:
    parts = [f"{report.payloads:,} stored"]
    if report.erased:
        parts.append(f"{report.erased:,} erased")
    if report.locked:
        lacking = ", ".join(sorted(report.lacking))
        parts.append(f"{report.locked:,} not checked: they are encrypted with a key that was not given ({lacking})")
    if report.redacted:
        parts.append(f"{report.redacted:,} without their secrets, which nobody can check")
    if report.uncited:
        parts.append(f"{report.uncited:,} cited by nothing")
    return ", ".join(parts)


def _sealed(report: Report, *, keys: bool) -> str:
    if not report.sealed_up_to:
        if report.checkpoints:
            return "not at all: no checkpoint fits"
        return "not yet: a gateway makes the first checkpoint within a minute, or when it ends in order"
    many = f"{report.sealed_up_to:,} of {_many(report.records, 'record')} by {_many(report.checkpoints, 'checkpoint')}"
    if not report.signers:
        return f"{many}, not signed: whoever can write the ledger can rewrite it"
    signers = ", ".join(sorted(report.signers))
    if not keys:
        return f"{many}, signed by {signers}, which was not checked (`--key`)"
    return f"{many}; {report.signed_up_to:,} are signed by the key that was given"


def _line(name: str, says: str) -> Text:
    return Text(f"{name:<10}{visible(says)}")


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def proven(proof: Proof, keys: Sequence[bytes]) -> Iterator[Text]:
    """What the proof proves.

    Raises: BadProof.
    """
    note = proof.check()
    _check_signed(note, keys)
    try:
        record = decode(proof.body)
    except ValueError:
        raise BadProof("what it proves is no record that this version can read") from None
    return iter(
        [
            _line("record", f"{record.id}, {record.event.kind}, {record.at.isoformat(timespec='seconds')}"),
            _line("in", f"{note.origin}, number {proof.index + 1} of {note.size}"),
            _line("signed", _by(keys=bool(keys), signed=bool(note.signatures))),
        ]
    )


def _check_signed(note: Note, keys: Sequence[bytes]) -> None:
    by = {key_id(note.origin, key): key for key in keys}
    found = [one for one in note.signatures if one.key_id in by]
    if keys and not any(signed_by(by[one.key_id], one.signature, note.text.encode()) for one in found):
        raise BadProof("its checkpoint is not signed by the key that was given")


def proven_export(lines: Iterable[bytes], keys: Sequence[bytes]) -> Iterator[Text]:
    """What an export proves.

    Raises: BadExport, BadProof.
    """
    found = check(lines)
    if found.note is not None:
        _check_signed(found.note, keys)
    elif keys:
        raise BadProof("it has no checkpoint, so that nothing of it is signed")
    later = found.records - found.proven
    proven = f"{found.proven:,} in the log under its checkpoint" if found.note is not None else "none in a log"
    after = f", {later:,} that continue them and are not sealed yet" if later else ""
    words = (
        f"; of {found.redacted:,} the words were taken out, and only their place is proven" if found.redacted else ""
    )
    yield _line(
        "records", f"{_many(found.records, 'record')} of {_many(len(found.runs), 'run')}: {proven}{after}{words}"
    )
    yield _line("payloads", f"{found.payloads:,}, which only the ledger itself can be asked about")
    yield _line("in", found.origin if found.note is None else f"{found.origin}, of {found.note.size:,} records")
    yield _line("signed", _by(keys=bool(keys), signed=found.note is not None and bool(found.note.signatures)))


def _by(*, keys: bool, signed: bool) -> str:
    if keys:
        return "by the key that was given"
    return "by a key that was not checked (`--key`)" if signed else "by nobody"
