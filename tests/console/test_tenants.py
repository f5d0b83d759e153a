"""What reviewers of one tenant see of the console, and those of all."""

from dataclasses import replace

import pytest

from gateway.model.canonical import digest
from gateway.model.principal import Principal
from gateway.model.review import Reviewer
from tests import world
from tests.console.office import ANN, MAIL, STRANGER, fill, office, text_of

pytestmark = pytest.mark.anyio


async def test_a_reviewer_sees_what_is_their_tenants_and_nothing_else() -> None:
    async with office() as at:
        await fill(at)
        stranger = await at.visitor(STRANGER)
        assert "Nothing waits for you" in await stranger.read("/")
        for path in (f"/approvals/{at.asked['pay']}", "/runs/run_1", f"/values/{at.asked['pay']}"):
            assert (await stranger.get(path)).status_code == 404
        assert "run_1" not in await stranger.read("/runs")
        assert "0 records found" in text_of(await stranger.read("/search?kind=approval"))
        assert "Nothing stands on any account" in await stranger.read("/accounts")


async def test_whoever_sees_all_tenants_is_told_of_which_one_a_question_is_where_it_is_not_this_machines_own() -> None:
    async with office() as at:
        await fill(at)
        who = Principal("olga", "acme")
        await at.it.engine.open_run(run="run_a", principal=who, origin="token", attribution={})
        asked = world.proposal("mail", MAIL, run="run_a", principal=who)
        await at.it.engine.call(replace(asked, arguments_digest=digest(MAIL, at.it.ledger.salt)), world.PatientCaller())
        at.desk._inbox.stale()
        page = await (await at.visitor()).read("/")
        assert "<span>acme/olga</span>" in page
        assert "<span>local:user</span>" in page
        own = await at.visitor(Reviewer("acme", "otto", frozenset(), via="link"))
        assert "<span>olga</span>" in await own.read("/")


async def test_health_and_the_policies_of_others_are_for_those_who_see_all() -> None:
    async with office() as at:
        await fill(at)
        digest = (await at.it.book.state_of("run_1")).policy
        stranger, ann = await at.visitor(STRANGER), await at.visitor(ANN)
        for path in (f"/policies/{digest}", f"/policies/{digest}/diagram.svg", "/health", "/registry?workflow=test"):
            assert (await stranger.get(path)).status_code == 404, path
        assert "a mail leaves the house" not in await stranger.read("/policies")
        assert "a mail leaves the house" in await ann.read(f"/policies/{digest}")
        assert "Repairs a shop" in await ann.read("/policies")
        assert (await ann.get("/health")).status_code == 404
        assert "/console/health" not in await ann.read("/")
