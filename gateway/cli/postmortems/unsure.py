"""What is not known, and where to look."""

from collections import Counter
from collections.abc import Iterator

from gateway.cli.postmortems.case import Case
from gateway.inbound.told.markdown import code
from gateway.inbound.told.words import counted
from gateway.model.events import Effect
from gateway.model.run import AttemptState


def unsure(case: Case) -> Iterator[str]:
    """Each gap on a line of its own; then the commands that look further."""
    run = case.story.run
    yield from (f"- {line}" for line in _gaps(case))
    yield (
        "- Why the agent did what it did: a gateway sees its calls, and not its transcript. What it said of its own "
        "work (plans, notes, claims) is recorded, and proves nothing."
    )
    yield ""
    yield "Where to look:"
    yield ""
    for words, says in (
        (("show", run.id, "--checks"), "every check of every verdict, with what it saw"),
        (("explain", "--run", run.id), "why the last call was refused, and what could be done instead"),
        (("show", run.id, "--html", "--out", "run.html"), "all of this as a page"),
        (("verify",), "whether these records are what was recorded"),
    ):
        yield f"- {code(case.command(*words))}: {says}"


def _gaps(case: Case) -> Iterator[str]:
    run = case.story.run
    states = Counter(one.state for one in run.attempts.values())
    stands = Counter(one.says for one in case.story.stands)
    undelivered = sum(
        one.state is AttemptState.ANSWERED and not one.delivered and one.intent.effect is not Effect.READ
        for one in run.attempts.values()
        if not one.intent.compensates
    )
    found = (
        (states[AttemptState.UNKNOWN], "attempt", "whether it happened. `counterfoil reconcile` goes through them"),
        (states[AttemptState.ABANDONED], "read", "what it answered: its gateway died, and nothing hangs on it"),
        (stands["reported"], "reported effect", "whether it is there: nobody but its own server has looked"),
        (stands["attempted"], "attempted effect", "whether it did its work"),
        (undelivered, "answer of a call that changes something", "whether the client ever got it"),
        (
            sum(one.event.verdict == "inconclusive" for one in run.evidence.values()),
            "verifier",
            "what it would have found: its last look was inconclusive",
        ),
        (case.gone, "payload", "what was in it: it was erased or changed, and its digest alone is left"),
    )
    for count, what, unknown in found:
        if count:
            yield f"{counted(count, what)}: {unknown}."
    if case.policy is None:
        yield "The text of its policy: this version cannot read it in the ledger, so that budgets have no limits here."
