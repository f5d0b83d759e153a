"""Who comes in over HTTP, as whom, and what the others are told."""

import asyncio
import ipaddress
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.inbound.mcp import http, mint
from gateway.inbound.mcp.door import HEAD_KEY, Head
from gateway.inbound.mcp.doorkeeper import Doorkeeper, Oauth
from gateway.inbound.mcp.identity import ANONYMOUS
from gateway.model.party import Behalf
from gateway.model.principal import Principal
from gateway.outbound.agent_keys import AgentKeys, new_key
from gateway.outbound.oidc.access_tokens import AccessTokens
from gateway.outbound.oidc.key_set import DOWN_S
from gateway.outbound.proxies import ProxySettings
from gateway.serving import readiness
from tests.agents.asking import FAR, Front
from tests.agents.tokens import RESOURCE, Issuer
from tests.inbound.fake_gate import T0, ToldClock
from tests.inbound.served import KEY

pytestmark = pytest.mark.anyio

CI = Principal("ci", "local", frozenset({"deployer"}), frozenset({"repo:write"}))
METADATA = "http://127.0.0.1:8321/.well-known/oauth-protected-resource/mcp"
SAY = "say who you are: "
BY_RUN = "`Counterfoil-Run` with a token from `counterfoil run open`"


def keeper(**more: Any) -> Doorkeeper:
    return Doorkeeper(**{"run_key": KEY, "now": lambda: T0, "anonymous": False, **more})


def of(idp: Issuer, **more: Any) -> Doorkeeper:
    """One that takes that server's tokens."""
    told = idp.told(**more)
    tokens = AccessTokens(told, RESOURCE, now=idp.clock.now, monotonic=idp.clock.monotonic)
    return keeper(oauth=Oauth(told, tokens, RESOURCE), now=idp.clock.now)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def run_token(**more: Any) -> str:
    said = {"run": "run_1", "principal": CI, "workflow": "w", "expires_at": T0 + 60, "now": T0, **more}
    return mint(KEY, **said)


def keys(folder: Path, clock: ToldClock | None = None, **more: Any) -> tuple[str, AgentKeys]:
    """A key of `ci`, and the file that has it."""
    said = {"principal": "ci", "tenant": "local", "roles": ("deployer",), "scopes": ("repo:write",), **more}
    made = new_key(**{"id_": "ci-1", "expires": T0 + 60, **said})
    file = folder / "keys.yaml"
    file.write_text(f"keys:\n  - {made.entry.model_dump_json()}\n")
    return made.text, AgentKeys(file, (clock or ToldClock()).monotonic)


# --- nobody -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "headers", "status"),
    [
        (("127.0.0.1", 1), {}, 200),
        (("::1", 1), {}, 200),
        (None, {}, 200),
        (FAR, {}, 401),
        (("unix", 0), {}, 401),
        (("127.0.0.1", 1), {"x-forwarded-for": "203.0.113.9"}, 401),
        (("127.0.0.1", 1), {"forwarded": "for=203.0.113.9"}, 401),
        (("127.0.0.1", 1), {"via": "1.1 proxy"}, 401),
        (("127.0.0.1", 1), {"x-forwarded-proto": "https"}, 401),
        (("127.0.0.1", 1), {"x-forwarded-host": "gateway.example"}, 401),
        (("127.0.0.1", 1), {"cf-connecting-ip": "203.0.113.9"}, 401),
    ],
)
async def test_only_who_is_on_this_machine_comes_in_with_nothing(peer: Any, headers: Any, status: int) -> None:
    front = Front(keeper(anonymous=True))
    told = await front.call(headers, peer=peer)
    assert told.status == status
    if status == 401:
        assert told.why.startswith("only who is on this machine comes in without a credential")
        assert told.challenge == 'Bearer realm="counterfoil"'
        assert front.relay.begun == []


async def test_what_comes_as_only_a_proxy_speaks_is_not_from_this_machine(tmp_path: Path) -> None:
    text, file = keys(tmp_path)
    front = Front(keeper(anonymous=True, keys=file))
    assert (await front.call(version="1.0")).status == 401
    assert (await front.call(bearer(text), version="1.0")).status == 200


async def test_a_credential_that_nobody_asked_for_changes_nothing() -> None:
    front = Front(keeper(anonymous=True))
    assert (await front.call(bearer("meant-for-somebody-else"))).status == 200
    assert front.came.id == "anonymous"


async def test_where_somebody_must_be_known_nobody_else_gets_in(tmp_path: Path) -> None:
    _, file = keys(tmp_path)
    front = Front(keeper(keys=file))
    told = await front.call()
    assert (told.status, told.challenge) == (401, 'Bearer realm="counterfoil"')
    assert told.why == f"{SAY}`Authorization: Bearer …` with a key from `counterfoil keys new`, or {BY_RUN}"
    assert told.json["id"] is None
    assert (await Front(keeper()).call()).why == SAY + BY_RUN


@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
async def test_every_verb_asks_who_it_is(tmp_path: Path, verb: str) -> None:
    _, file = keys(tmp_path)
    told = await Front(keeper(keys=file)).send({"mcp-session-id": "x"}, verb=verb)
    assert told.status == 401


@pytest.mark.parametrize(
    "query", [b"access_token=x", b"a=1&ACCESS_TOKEN=x", b"token=", b"api_key=x", b"%61ccess_token=x"]
)
async def test_a_credential_in_the_address_is_refused(query: bytes) -> None:
    front = Front(keeper(anonymous=True))
    told = await front.call(query=query)
    assert told.status == 400
    assert told.why == "a credential has no place in an address: send it in a header, and take this one for known"
    assert (await front.call(query=b"tab=2")).status == 200


# --- keys -------------------------------------------------------------------------------------------------------------


async def test_a_key_is_its_principal(tmp_path: Path) -> None:
    text, file = keys(tmp_path)
    front = Front(keeper(keys=file))
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert (await front.call({"authorization": f"{scheme} {text}"}, peer=FAR)).status == 200
        assert front.came == CI


@pytest.mark.parametrize(
    "shown",
    ["Bearer cfk_ci-1_" + "A" * 43, "Bearer cfk_", "Bearer cfk_ci-2_x", "Basic Y2k6eA==", "Bearer", "Bearer x.y.z", ""],
)
async def test_what_is_no_key_lets_nobody_in(tmp_path: Path, shown: str) -> None:
    _, file = keys(tmp_path)
    told = await Front(keeper(keys=file, anonymous=True)).call({"authorization": shown})
    assert (told.status, told.challenge) == (401, 'Bearer realm="counterfoil", error="invalid_token"')


async def test_two_credentials_in_one_header_are_none(tmp_path: Path) -> None:
    text, file = keys(tmp_path)
    told = await Front(keeper(keys=file)).call(bearer(text), twice=bearer(text))
    assert (told.status, told.why) == (400, "the header `authorization` stands there twice")


# --- access tokens ----------------------------------------------------------------------------------------------------


async def test_a_client_finds_out_by_itself_of_whom_to_get_a_token(idp: Issuer) -> None:
    front = Front(of(idp, required_scopes=("mcp",), step_up={"pay*": ("pay",)}))
    told = await front.call()
    assert told.status == 401
    assert told.challenge == f'Bearer realm="counterfoil", scope="mcp", resource_metadata="{METADATA}"'
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
        found = await front.send({}, path=path, verb="GET")
        assert (found.status, found.json) == (
            200,
            {
                "resource": RESOURCE,
                "authorization_servers": [idp.openid.url],
                "bearer_methods_supported": ["header"],
                "resource_name": "Counterfoil",
                "scopes_supported": ["mcp", "pay"],
            },
        )
        assert (await front.send({}, path=path)).status == 405
    assert (await Front(keeper()).send({}, path="/.well-known/oauth-protected-resource", verb="GET")).status == 404


async def test_whom_a_token_speaks_of_comes_in_and_another_does_not(idp: Issuer) -> None:
    front = Front(of(idp))
    assert (await front.call(bearer(idp.token()))).status == 200
    assert front.came == Principal("ci", scopes=frozenset({"mcp"}))
    told = await front.call(bearer(idp.token(aud="https://other.example")))
    assert (told.status, told.why) == (401, "the access token is meant for somebody else")
    assert told.challenge == f'Bearer realm="counterfoil", error="invalid_token", resource_metadata="{METADATA}"'


async def test_who_cannot_be_asked_is_no_reason_to_sign_in_anew(idp: Issuer) -> None:
    front = Front(of(idp))
    idp.openid.down = True
    told = await front.call(bearer(idp.token()))
    assert (told.status, told.headers["retry-after"], told.challenge) == (503, "5", None)
    idp.openid.down = False
    idp.clock.tell(DOWN_S)
    assert (await front.call(bearer(idp.token()))).status == 200


async def test_a_token_with_too_little_is_told_what_it_lacks_and_keeps_what_it_has(idp: Issuer) -> None:
    front = Front(of(idp, required_scopes=("mcp",), step_up={"pay*": ("pay:write",), "*-all": ("all",)}))
    told = await front.call(bearer(idp.token(scope="repo")))
    assert (told.status, told.why) == (403, "the access token lacks a scope that this needs: `mcp`")
    needs = 'Bearer realm="counterfoil", error="insufficient_scope", scope="{}", resource_metadata="{}"'
    assert told.challenge == needs.format("mcp repo", METADATA)
    assert (await front.call(bearer(idp.token()))).status == 200
    told = await front.call(bearer(idp.token(scope="mcp own")), tool="pay-all")
    assert told.challenge == needs.format("all mcp own pay:write", METADATA)
    front.relay.tools["pay-all"] = front.relay.tools["echo"]
    assert (await front.call(bearer(idp.token(scope="all mcp pay:write")), tool="pay-all")).status == 200
    assert [one.message["params"]["name"] for one in front.relay.begun] == ["echo", "pay-all"]
    first = front.relay.begun[0]
    assert (first.lacks("echo"), first.lacks("refund-all")) == (frozenset(), frozenset({"all"}))


async def test_a_scope_that_no_header_can_say_stays_out_of_it(idp: Issuer) -> None:
    front = Front(of(idp, required_scopes=("mcp",)))
    told = await front.call(bearer(idp.token(scope='a"b c\\d ü ok')))
    assert 'scope="mcp ok"' in str(told.challenge)


# --- certificates -----------------------------------------------------------------------------------------------------

PROXIES = ProxySettings(
    "x-subject", (ipaddress.ip_network("10.0.0.0/24"), ipaddress.ip_network("fd00::/8")), {"CN=ci": CI}
)


@pytest.mark.parametrize(
    ("peer", "subject", "status"),
    [
        ("10.0.0.7", "CN=ci", 200),
        ("::ffff:10.0.0.7", "CN=ci", 200),
        ("fd00::1", " CN=ci ", 200),
        ("10.0.0.7", "CN=ci,O=x", 403),
        ("10.0.0.7", "cn=ci", 403),
        ("10.0.0.7", "", 401),
        ("10.0.1.7", "CN=ci", 401),
        ("127.0.0.1", "CN=ci", 401),
        ("unix", "CN=ci", 401),
    ],
)
async def test_a_subject_counts_only_from_a_proxy_that_is_trusted(peer: str, subject: str, status: int) -> None:
    front = Front(keeper(mtls=PROXIES))
    told = await front.call({"x-subject": subject, "x-forwarded-for": "203.0.113.9"}, peer=(peer, 1))
    assert told.status == status
    assert [one.principal for one in front.relay.begun] == ([CI] if status == 200 else [])
    assert (await Front(keeper()).call({"x-subject": subject}, peer=(peer, 1))).status == 401


async def test_who_comes_through_a_trusted_proxy_without_a_subject_is_not_from_this_machine() -> None:
    at_home = ProxySettings("x-subject", (ipaddress.ip_network("127.0.0.1"),), {"CN=ci": CI})
    assert (await Front(keeper(mtls=at_home, anonymous=True)).call()).status == 401


async def test_a_subject_that_stands_there_twice_is_none() -> None:
    told = await Front(keeper(mtls=PROXIES)).call(
        {"x-subject": "CN=ci"}, twice={"x-subject": "CN=x"}, peer=("10.0.0.7", 1)
    )
    assert told.status == 400


# --- several at once --------------------------------------------------------------------------------------------------


async def test_who_shows_several_is_one_and_has_no_more_than_each(tmp_path: Path) -> None:
    text, file = keys(tmp_path, roles=("deployer", "reader"), scopes=())
    front = Front(keeper(keys=file))
    narrow = run_token(principal=Principal("ci", roles=frozenset({"reader", "admin"}), scopes=frozenset({"repo:read"})))
    assert (await front.call({**bearer(text), "counterfoil-run": narrow})).status == 200
    assert front.came == Principal("ci", "local", frozenset({"reader"}), frozenset({"repo:read"}))
    assert front.relay.begun[-1].token is not None
    for other in (Principal("other"), Principal("ci", "another-tenant")):
        told = await front.call({**bearer(text), "counterfoil-run": run_token(principal=other)})
        assert told.status == 403
        assert told.why == "what came with the request speaks of two principals: show what belongs to one"


async def test_three_that_have_nothing_in_common_give_nothing(tmp_path: Path) -> None:
    text, file = keys(tmp_path, roles=("deployer",), scopes=("a",))
    front = Front(keeper(keys=file, mtls=PROXIES))
    named = run_token(principal=Principal("ci", roles=frozenset({"admin"}), scopes=frozenset({"b"})))
    shown = {**bearer(text), "x-subject": "CN=ci", "counterfoil-run": named}
    assert (await front.call(shown, peer=("10.0.0.7", 1))).status == 200
    assert front.came == Principal("ci")


async def test_a_run_token_alone_lets_its_principal_in() -> None:
    front = Front(keeper())
    assert (await front.call({"counterfoil-run": run_token()}, peer=FAR)).status == 200
    assert front.came == CI


async def test_a_run_token_in_the_wrong_header_is_told_so_and_shown_to_nobody(idp: Issuer) -> None:
    told = await Front(of(idp, keys="none", introspection=idp.introspected())).call(bearer(run_token()))
    assert (told.status, told.why) == (401, "a run token is shown in the header `Counterfoil-Run`")
    assert idp.openid.asked_about == 0


async def test_what_was_shown_stays_at_the_door(tmp_path: Path) -> None:
    text, file = keys(tmp_path)
    front = Front(keeper(keys=file))
    await front.call({**bearer(text), "counterfoil-run": run_token(), "cookie": "a=b", "user-agent": "x"})
    assert {"authorization", "cookie", "counterfoil-run"} & {*front.relay.begun[0].headers} == set()
    assert front.relay.begun[0].headers["user-agent"] == "x"


# --- streams ----------------------------------------------------------------------------------------------------------


async def test_who_listens_hears_no_more_once_they_would_not_be_let_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "STANDS_S", 0.005)
    clock = ToldClock()
    text, file = keys(tmp_path, clock)
    front = Front(keeper(keys=file, now=clock.now))
    listening = asyncio.ensure_future(front.ask("subscriptions/listen", {}, bearer(text)))
    await asyncio.sleep(0.05)
    assert not listening.done()
    clock.tell(60)
    async with asyncio.timeout(5):
        assert (await listening).status == 200
    assert front.relay.begun[0].withdrawal.gone


async def test_a_call_that_waits_is_asked_again_whether_its_key_still_lets_it_in(tmp_path: Path) -> None:
    clock = ToldClock()
    text, file = keys(tmp_path, clock)
    front = Front(keeper(keys=file, now=clock.now))
    assert (await front.call(bearer(text))).status == 200
    (sent,) = front.relay.begun
    assert await sent.sender() == sent.principal
    clock.tell(60)
    assert await sent.sender() is None


async def test_from_afar_nobody_learns_what_stands_behind_a_gateway() -> None:
    said = {"upstreams": {"shop": {"state": "healthy"}}}
    for peer, headers, told in (
        ("127.0.0.1", {}, said),
        ("203.0.113.9", {}, {"ready": True}),
        ("127.0.0.1", {"x-forwarded-for": "203.0.113.9"}, {"ready": True}),
    ):
        scope = {"client": (peer, 1), HEAD_KEY: Head(headers, frozenset())}
        assert readiness(scope, said, able=True) == told


# --- on whose behalf --------------------------------------------------------------------------------------------------


async def test_an_access_token_goes_on_in_memory_only_where_an_upstream_is_shown_it(
    idp: Issuer, tmp_path: Path
) -> None:
    token, (key, known) = idp.token(), keys(tmp_path)
    told = idp.told()
    oauth = Oauth(told, AccessTokens(told, RESOURCE, now=idp.clock.now, monotonic=idp.clock.monotonic), RESOURCE)
    for on_behalf, by_token in ((True, True), (True, False), (False, False)):
        asks = {"on_behalf": on_behalf, "by_token": by_token}
        front = Front(keeper(oauth=oauth, keys=known, now=idp.clock.now, **asks))
        for shown in (bearer(token), bearer(token) | {"counterfoil-run": run_token()}, bearer(key)):
            assert (await front.call(shown)).status == 200
        behalf = Behalf("local", "ci", SecretStr(token) if by_token else None) if on_behalf else None
        by_key = Behalf("local", "ci", by_token=False) if on_behalf else None
        assert [one.behalf for one in front.relay.begun] == [behalf, behalf, by_key]
        assert token not in "".join(f"{one!r} {one.headers!r}" for one in front.relay.begun)


async def test_whoever_is_nobody_in_particular_is_called_for_in_nobodys_name() -> None:
    front = Front(keeper(anonymous=True, on_behalf=True))
    assert (await front.call({})).status == 200
    assert (await front.call({"counterfoil-run": run_token(principal=ANONYMOUS)})).status == 200
    assert [one.behalf for one in front.relay.begun] == [None, None]
