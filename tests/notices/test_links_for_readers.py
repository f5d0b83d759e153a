"""A channel that one person reads has links for that person alone."""

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

from gateway.inbound.console import Access, Keys
from gateway.model.events import Who
from gateway.reviewing import Reviewing
from gateway.settings import ConsoleSettings
from tests.notices.test_wording import ASKED, AT

KEYS = Keys.of(b"k" * 32)
ANN = Who(tenant="acme", id="ann", roles=("finance",))


async def never(_: str, __: float = 0.0) -> bool:
    return False


def test_a_link_lets_the_reader_answer_that_one_question_until_it_expires() -> None:
    now = AT.timestamp()
    made = Reviewing(ConsoleSettings(), KEYS, "https://gate.example").link_for(lambda: now)
    assert made(None, ASKED) == "https://gate.example/console/approvals/ap_1"
    assert made(ANN, replace(ASKED, state="withdrawn")) == "https://gate.example/console/approvals/ap_1"
    url = made(ANN, ASKED)
    ticket = parse_qs(str(urlsplit(url).query))["ticket"][0]
    access = Access(KEYS, lambda: now + 3 * 3600 - 1, never, never, "https://gate.example")
    by = access.ticket(ticket).reviewer
    assert (by.tenant, by.id, by.roles, by.approval, by.everywhere) == (
        "acme",
        "ann",
        frozenset({"finance"}),
        "ap_1",
        False,
    )
