"""What an agent holds opens nothing at the console, and what a reviewer holds nothing at the agents' door."""

from pathlib import Path

import jwt
import pytest

from gateway.inbound.console import local_reviewer, mint
from gateway.inbound.console.revoking import OUT, REVOKED, of_credential, of_reviewer
from gateway.inbound.mcp import RUN_HEADER
from gateway.inbound.mcp import mint as mint_run
from gateway.inbound.mcp.revoked import KNOWN_S
from gateway.inbound.mcp.tokens import BadToken, verify
from gateway.model.principal import Principal
from gateway.model.review import Reviewer
from tests.console.ground import ANNA, KEYS, RUN_KEY, Standing, consoles, ticket_of
from tests.inbound.asked import asked_over_http
from tests.inbound.served import modern_headers
from tests.inbound.test_identity import CALL

pytestmark = pytest.mark.anyio

ACCESS_TOKEN = jwt.encode({"sub": "anna"}, "k" * 32, headers={"typ": "at+jwt"})
RUN_TOKEN = mint_run(
    RUN_KEY, run="run_1", principal=Principal("anna", "acme"), workflow="w", expires_at=2**31, now=0
)  # fmt: skip
REVIEWER_TOKEN, SAID = mint(KEYS.tokens, "reviewer", ANNA, now=0, lives_s=2**31)


async def test_a_token_lets_its_reviewers_programs_in_and_needs_no_form(it: Standing) -> None:
    http = it.browser().http
    shown = await http.get("/console", headers={"authorization": f"Bearer {REVIEWER_TOKEN}"})
    assert (shown.status_code, shown.headers.get("set-cookie")) == (200, None)
    assert (shown.json()["id"], shown.json()["via"], shown.json()["csrf"], shown.json()["link"]) == (
        "anna", "token", "", None,
    )  # fmt: skip
    decided = await http.post(
        "/console/decide", data={"decision": "approved"}, headers={"authorization": f"bearer {REVIEWER_TOKEN}"}
    )
    assert decided.status_code == 200
    assert it.decided == [("anna", "approved")]


async def test_a_token_says_who_sees_all_tenants(it: Standing) -> None:
    boss = Reviewer(tenant="acme", id="boss", roles=frozenset(), via="token", everywhere=True)
    text, _ = mint(KEYS.tokens, "reviewer", boss, now=it.clock.now(), lives_s=60)
    headers = {"authorization": f"Bearer {text}"}
    assert (await it.browser().http.get("/console", headers=headers)).json()["everywhere"] is True
    it.clock.tell(60)
    late = await it.browser().http.get("/console", headers=headers)
    assert (late.status_code, late.json()["error"]) == (401, "the token has expired")


@pytest.mark.parametrize("whole", [False, True])
async def test_a_token_that_is_revoked_lets_nobody_in_at_any_gateway_two_seconds_later(
    tmp_path: Path, *, whole: bool
) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    headers = {"authorization": f"Bearer {REVIEWER_TOKEN}"}
    name = of_reviewer(SAID.reviewer.tenant, SAID.reviewer.id) if whole else of_credential(SAID.id)
    async with consoles(url, url) as gateways:
        for it in gateways:
            assert (await it.browser().http.get("/console", headers=headers)).status_code == 200
        assert await gateways[0].access.once(name, 2**31)
        for it in gateways:
            it.clock.tell(KNOWN_S)
            answer = await it.browser().http.get("/console", headers=headers)
            assert (answer.status_code, answer.json()["error"]) == (401, OUT if whole else REVOKED)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {RUN_TOKEN}"},
        {"authorization": f"Bearer {ACCESS_TOKEN}"},
        {"authorization": "Bearer cfk_ci-1_0123456789"},
        {RUN_HEADER: RUN_TOKEN},
        {RUN_HEADER: "x"},
        {RUN_HEADER: RUN_TOKEN, "authorization": f"Bearer {REVIEWER_TOKEN}"},
        {"mcp-session-id": "5f0c"},
    ],
)
async def test_an_agents_credential_is_refused_whatever_else_comes_with_it(
    it: Standing, headers: dict[str, str]
) -> None:
    browser = await it.entered()
    for path in ("/console", "/console/decide", "/console/enter", "/console/nowhere"):
        answer = await browser.http.get(path, headers={"accept": "application/json", **headers})
        assert (answer.status_code, answer.json()["error"]) == (403, "this is an agent's credential")
    csrf = (await browser.who() or {})["csrf"]
    posted = await browser.http.post(
        "/console/decide", data={"csrf": csrf}, headers={"sec-fetch-site": "same-origin", **headers}
    )
    assert posted.status_code == 403
    assert it.decided == []


async def test_an_assistant_of_a_reviewer_may_have_an_mcp_session_of_its_own(it: Standing) -> None:
    headers = {"authorization": f"Bearer {REVIEWER_TOKEN}", "mcp-session-id": "5f0c"}
    assert (await it.browser().http.get("/console", headers=headers)).status_code == 200


@pytest.mark.parametrize("shown", ["Bearer", "Bearer x", "Basic YTpi", f"Bearer {ticket_of('?ticket=a.b.c')}", "x"])
async def test_any_other_credential_is_nobodys_though_a_session_comes_with_it(it: Standing, shown: str) -> None:
    browser = await it.entered()
    assert (await browser.http.get("/console", headers={"authorization": shown})).status_code == 401


async def test_no_token_is_good_for_another_use(it: Standing) -> None:
    link = ticket_of(it.link())
    answer = await it.browser().http.get("/console", headers={"authorization": f"Bearer {link}"})
    assert answer.status_code == 401
    for other in (REVIEWER_TOKEN, RUN_TOKEN):
        assert (await it.browser().press("/console/enter", {"ticket": other})).status_code == 401
    for other in (REVIEWER_TOKEN, link):
        for key in (RUN_KEY, KEYS.links, KEYS.tokens):
            with pytest.raises(BadToken):
                verify(key, other, 0)


async def test_an_agent_that_shows_a_reviewers_credential_is_refused_at_its_own_door() -> None:
    link, _ = mint(KEYS.links, "console", local_reviewer(), now=0, lives_s=2**31)
    async with asked_over_http() as (it, served):
        for text in (REVIEWER_TOKEN, link):
            for more, path in (
                ({"Authorization": f"Bearer {text}"}, "/mcp"),
                ({RUN_HEADER: text}, "/mcp"),
                ({}, f"/runs/{text}/mcp"),
            ):
                answer = await served.post(CALL, {**modern_headers("tools/call", "echo"), **more}, path=path)
                assert answer.status == 403
        told = await served.post(
            CALL, {**modern_headers("tools/call", "echo"), "Authorization": f"Bearer {REVIEWER_TOKEN}"}
        )
        assert told.json["error"]["message"].startswith("this is a reviewer's credential")
        assert it.gate.proposals == []
        other = await served.post(CALL, {**modern_headers("tools/call", "echo"), "Authorization": "Bearer of-theirs"})
        assert other.status == 200
