"""I3 to I7, I10, I20 and I22: what must hold between the ledger, the servers, and what clients were told."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta
from fnmatch import fnmatchcase

from gateway.model.canonical import parse
from gateway.model.events import Effect as EffectClass
from tests.crash.attempts import FREED, Lived, given_way, lived
from tests.crash.history import History, Reply


def no_call_without_intent(history: History) -> Iterator[str]:
    """I3. The ledger held the intent before a server saw the call."""
    for one in history.received:
        if one.attempt is None or not one.intended:
            yield f"call {one.number} of `{one.tool}` came without an intent ({one.attempt})"


def one_effect_a_key(history: History) -> Iterator[str]:
    """I4. One dispatch for each intent and each resumption; one effect for each key; nothing equal while it hangs."""
    attempts = lived(history)
    sent = Counter(one.attempt for one in history.received)
    done = Counter(one.attempt for one in history.effects if not one.twin)
    by_key: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for attempt in attempts.values():
        again = len(attempt.of_kind("attempt.resumed")) + len(attempt.of_kind("attempt.resent"))
        if sent[attempt.id] > 1 + again:
            yield f"`{attempt.id}` was sent {sent[attempt.id]} times, and may be {1 + again} times"
        if done[attempt.id] > 1:
            yield f"`{attempt.id}` had {done[attempt.id]} effects"
        if attempt.intent.key is not None and done[attempt.id] and attempt.intent.effect is not EffectClass.READ:
            key = attempt.intent.key
            by_key[attempt.run, attempt.intent.tool, key.source, key.value].append(attempt.id)
        yield from _sent_again(history, attempt)
    yield from (f"{' and '.join(names)} have one key and both an effect" for names in by_key.values() if names[1:])
    yield from _held(attempts)


def _sent_again(history: History, attempt: Lived) -> Iterator[str]:
    """Recovery sends again only what the upstream knows by our key, while it remembers it."""
    for _, event in attempt.of_kind("attempt.resent"):
        policy = history.policies.get(event.policy)
        named = policy.tools.items() if policy is not None else ()
        rule = next((one for pattern, one in named if fnmatchcase(event.tool, pattern)), None)
        told = rule.idempotency if rule is not None else None
        if told is None or told.key is None or told.valid_s is None:
            yield f"`{attempt.id}` was sent again, and its upstream honours no key"
        elif event.settles_at > attempt.record.at + timedelta(seconds=told.valid_s):
            yield f"`{attempt.id}` was sent again when its upstream may have forgotten its key"


def _held(attempts: dict[str, Lived]) -> Iterator[str]:
    holders: dict[str, list[Lived]] = defaultdict(list)
    given = given_way(attempts)
    for attempt in attempts.values():
        hold, key = attempt.intent.hold, attempt.intent.key
        if hold is None:
            continue
        for earlier in holders[hold]:
            owes = earlier.owes_at(attempt.place - 1)
            meant = key is not None and key.source == "caller" and earlier.run == attempt.run
            gave_way = given.get(earlier.id, attempt.place) < attempt.place
            if owes is not None and not (owes == "undelivered" and (meant or gave_way)):
                yield f"`{attempt.id}` was intended while its equal `{earlier.id}` was {owes}"
        holders[hold].append(attempt)


def no_success_without_receipt(history: History) -> Iterator[str]:
    """I5. What was shown as the upstream's answer is the recorded one, recorded before, and proven where it must be."""
    attempts = lived(history)
    for reply in history.replies:
        if reply.kind not in {"result", "error"}:
            continue
        attempt = attempts.get(reply.attempt or "")
        receipts = [] if attempt is None else attempt.of_kind("receipt.recorded")
        before = [event for place, event in receipts if place <= reply.place]
        if attempt is None or not before:
            yield f"a {reply.kind} of `{reply.tool}` was told without a receipt of `{reply.attempt}`"
        elif before[0].result != reply.payload:
            yield f"another {reply.kind} of `{attempt.id}` was told than is recorded"
        elif not _proven(attempt, reply):
            yield f"`{attempt.id}` was told as done, and its verifier had not passed it"


def _proven(attempt: Lived, reply: Reply) -> bool:
    failed = any(event.is_error for _, event in attempt.of_kind("receipt.recorded"))
    verdicts = [event.verdict for place, event in attempt.of_kind("evidence.recorded") if place <= reply.place]
    return attempt.intent.verifier is None or failed or verdicts == ["pass"]


def no_result_of_another_call(history: History) -> Iterator[str]:
    """I6. Nobody gets the result of a call with another tool or other arguments."""
    attempts = lived(history)
    for reply in history.replies:
        attempt = attempts.get(reply.attempt or "")
        if attempt is None or reply.kind == "refused":
            continue
        if (attempt.intent.tool, attempt.intent.arguments) != (reply.tool, reply.arguments):
            yield f"a call of `{reply.tool}` was told the {reply.kind} of `{attempt.id}`, which was another call"


def no_denied_effect(history: History) -> Iterator[str]:
    """I7. What is said or recorded not to have happened did not happen."""
    attempts = lived(history)
    done = {one.attempt for one in history.effects}
    for attempt in attempts.values():
        state = attempt.state_at(len(history.records))
        if state in {"unsent", "refuted"} and attempt.id in done:
            yield f"`{attempt.id}` is recorded as {state}, and had an effect"
    for reply in history.replies:
        if reply.executed is not False:
            continue
        if reply.attempt in done:
            yield f"a client was told that `{reply.attempt}` was not executed, and it had an effect"
        for attempt in attempts.values():
            # What was intended after it asked, by its asking again, is another attempt.
            if _same_call(attempt, reply) and attempt.id in done and attempt.place <= reply.asked:
                yield f"a client was told `{reply.outcome}`, not executed, of `{attempt.id}`, which had an effect"


def _same_call(attempt: Lived, reply: Reply) -> bool:
    key, intent = attempt.intent.key, attempt.intent
    mine = key is not None and key.source in {"caller", "call_id"} and key.value == reply.key
    return mine and attempt.run == reply.run and (intent.tool, intent.arguments) == (reply.tool, reply.arguments)


def receipts_are_evidence(history: History) -> Iterator[str]:
    """I10. A receipt is what the server answered, or proven from outside; what breaks its schema moves nothing."""
    told = {(one.attempt, one.payload): one.valid for one in history.answered}
    done = {one.attempt for one in history.effects}
    for attempt in lived(history).values():
        for place, event in attempt.of_kind("receipt.recorded"):
            if event.source != "upstream":
                if attempt.id not in done:
                    yield f"the receipt of `{attempt.id}` is by a {event.source}, and there was no effect"
            elif (attempt.id, event.result) not in told:
                yield f"the receipt of `{attempt.id}` holds what its server never answered"
            elif event.schema_valid and not told[attempt.id, event.result]:
                yield f"the receipt of `{attempt.id}` calls an answer valid that breaks its schema"
            if event.is_error or event.schema_valid is False:
                yield from _moved_by(attempt, place)
            if attempt.state_at(place - 1) in FREED and not event.late:
                yield f"the receipt of `{attempt.id}` came late and does not say so"


def _moved_by(attempt: Lived, receipt: int) -> Iterator[str]:
    seq = next(record.seq for place, record, _ in attempt.said if place == receipt)
    for _, event in attempt.of_kind("phase.moved"):
        if event.target == attempt.intent.target and seq in event.because:
            yield f"`{attempt.id}` moved the phase by an answer that proves nothing"


def no_canary(history: History) -> Iterator[str]:
    """I20. No secret stands in any stored byte."""
    for canary in history.canaries:
        for record, body in history.records:
            if canary in body:
                yield f"a canary stands in `{record.id}`"
        for digest, body in history.payloads.items():
            if canary in body:
                yield f"a canary stands in the payload `{digest}`"


def sent_as_judged(history: History) -> Iterator[str]:
    """I22. What reached the server is, value for value, what was judged and hashed."""
    attempts = lived(history)
    for one in history.received:
        attempt = attempts.get(one.attempt or "")
        body = None if attempt is None else history.payloads.get(attempt.intent.arguments)
        if attempt is None or body is None:
            continue  # I3 speaks of calls without intent; an erased payload proves nothing
        if one.tool != attempt.intent.tool or not _equal(dict(one.arguments), parse(body)):
            yield f"call {one.number} of `{one.tool}` is not what was judged as `{attempt.id}`"
        if one.key is not None and one.key != attempt.id:
            yield f"call {one.number} of `{one.tool}` has the key `{one.key}`, and is `{attempt.id}`"


def _equal(one: object, other: object) -> bool:
    """As JSON: 1, 1.0 and true are three values."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return type(one) is type(other) and one == other
