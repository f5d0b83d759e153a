"""Places: named in a configuration or by an option, never in a policy, which is refused where it names none."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.kernel.analysis import findings
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.outbound.looks import DatabasePlace, FolderPlace, Limits, Place, UrlPlace, misplaced, place_of
from gateway.outbound.policy_files import PolicyProblems, load_policy
from gateway.plan import plan_of
from gateway.reload import Reload, first, load_from
from gateway.runtime.policies import Policies, Trouble, condition_trouble
from gateway.settings import SettingsProblems, load_settings
from tests import world

pytestmark = pytest.mark.anyio

SECRET = "s3cr3t-0123456789"  # noqa: S105 - what must never be shown
ENVIRON = {"HOME": "/home/ann", "TOKEN": SECRET, "DB": f"postgresql://u:{SECRET}@db/orders", "DIR": "shop"}
ONE = "upstreams: {fs: {command: fs-server}}\n"


def load(folder: Path, places: str) -> Any:
    (folder / "shop").mkdir(exist_ok=True)
    (folder / "gateway.yaml").write_text(f"{ONE}places:\n{places}")
    return load_settings(folder / "gateway.yaml", ENVIRON)


def told(folder: Path, places: str) -> list[str]:
    with pytest.raises(SettingsProblems) as refused:
        load(folder, places)
    assert SECRET not in str(refused.value)
    return str(refused.value).replace(f"{folder}/gateway.yaml:", "").split("\n")


def test_places_of_each_kind_are_read_with_their_references(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "  repo: {folder: './${DIR}', env: {TOKEN: '${TOKEN}', MODE: test}, wrapper: [bwrap, '{work}'], ignore: [.git],"
        " limits: {memory_mb: 64, processes: 8}}\n"
        "  orders: {database: '${DB}'}\n"
        "  local: {database: 'sqlite:///a.db'}\n"
        "  status: {url: 'https://shop.example/api', headers: {Authorization: 'Bearer ${TOKEN}', Accept: x}}\n",
    )
    assert settings.places == {
        "repo": FolderPlace(
            "repo",
            tmp_path / "shop",
            {"TOKEN": SECRET, "MODE": "test"},
            ("bwrap", "{work}"),
            (".git",),
            Limits(memory_mb=64, processes=8),
            (SECRET, SECRET),
        ),
        "orders": DatabasePlace("orders", ENVIRON["DB"], (SECRET,)),
        "local": DatabasePlace("local", f"sqlite:///{tmp_path}/a.db"),
        "status": UrlPlace(
            "status",
            "https://shop.example/api",
            {"Authorization": f"Bearer {SECRET}", "Accept": "x"},
            (f"Bearer {SECRET}", SECRET),
        ),
    }
    assert SECRET not in repr(settings)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("{}", "places.x: say what it is: `folder`, `database` or `url`"),
        ("{folder: shop, url: 'http://a'}", "places.x.url: `url` and `folder` exclude each other"),
        ("{folder: gone}", "places.x.folder: there is no such folder"),
        ("{database: 'mysql://db'}", "places.x.database: a database is `sqlite:///relative.db`"),
        ("{database: 'postgresql://${TOKEN}@@x'}", "places.x.database: a database is `sqlite:///relative.db`"),
        ("{url: 'ftp://a'}", "places.x.url: an address that begins with `http://` or `https://` is wanted"),
        ("{url: 'https://u:${TOKEN}@a'}", "places.x.url: the address of a place has no user"),
        ("{url: 'https://a/b?c=d'}", "places.x.url: the address of a place has no user, no query and no fragment"),
        ("{url: 'https://a', env: {A: b}}", "places.x.env: `env` is only for a place with a `folder`"),
        ("{folder: shop, headers: {A: b}}", "places.x.headers: `headers` is only for a place with a `url`"),
        ("{folder: shop, warpper: [a]}", "places.x.warpper: no key `warpper` is known here (did you mean `wrapper`?)"),
        ("{folder: shop, limits: {processes: 0}}", "places.x.limits.processes: a number of at least 1 is wanted"),
        ("{folder: '${NO}'}", "places.x.folder: the variable `NO` is not set"),
        ("{url: 'https://a', headers: {A: \"a\\nb\"}}", "places.x.headers.A: a header's value is one line"),
        ("5", "places.x: a mapping of keys to values is wanted, not the number `5`"),
    ],
)
def test_every_mistake_is_told_in_its_place(tmp_path: Path, place: str, says: str) -> None:
    found = told(tmp_path, f"  x: {place}\n")
    assert len(found) == 1
    assert says in found[0]


def test_a_name_is_a_name(tmp_path: Path) -> None:
    assert any("`2nd` is no name" in line for line in told(tmp_path, "  2nd: {folder: shop}\n"))


def test_what_an_option_means(tmp_path: Path) -> None:
    assert place_of("a", "https://x/y", tmp_path) == UrlPlace("a", "https://x/y")
    assert place_of("a", "sqlite:///b.db", tmp_path) == DatabasePlace("a", f"sqlite:///{tmp_path}/b.db")
    assert place_of("a", ".", tmp_path) == FolderPlace("a", tmp_path)
    assert place_of("a", ENVIRON["DB"], tmp_path) == DatabasePlace("a", ENVIRON["DB"], (SECRET,))
    for wrong in ("", "gone", "sqlite:x", f"postgres://{SECRET}", f"http://u:{SECRET}@a", f"https://{SECRET} "):
        with pytest.raises(ValueError, match=r".") as refused:
            place_of("a", wrong, tmp_path)
        assert SECRET not in str(refused.value)


# --- a policy and the places that there are -------------------------------------------------------------------------

POLICY = """workflow: w
transitions: [{name: any, tools: ['*'], verify: it}]
verifiers:
  it:
    LOOK
"""
COMMAND = "command: {place: repo, run: [x], trusted: {place: kept, paths: [a]}}"


def policy(folder: Path, look: str) -> Path:
    file = folder / "p.yaml"
    file.write_text(POLICY.replace("LOOK", look))
    return file


@pytest.mark.parametrize(
    ("look", "says"),
    [
        (COMMAND, None),
        (COMMAND.replace("repo", "reop"), "5:22: verifiers.it.command.place: this gateway has no place `reop`"),
        (
            COMMAND.replace("repo", "shop"),
            "5:22: verifiers.it.command.place: the place `shop` is an address, and a folder is wanted",
        ),
        (
            COMMAND.replace("kept", "lost"),
            "5:55: verifiers.it.command.trusted.place: this gateway has no place `lost`",
        ),
        ("http: {place: shop}", None),
        (
            "http: {place: repo}",
            "5:19: verifiers.it.http.place: the place `repo` is a folder, and an address is wanted",
        ),
        (
            "{sql: {place: repo, query: select 1}, pass: [result.count == 1]}",
            "5:19: verifiers.it.sql.place: the place `repo` is a folder, and a database is wanted",
        ),
    ],
)
def test_a_policy_whose_places_are_not_there_is_refused_with_the_place(
    tmp_path: Path, look: str, says: str | None
) -> None:
    places: dict[str, Place] = {
        "repo": FolderPlace("repo", tmp_path),
        "kept": FolderPlace("kept", tmp_path),
        "shop": UrlPlace("shop", "http://a"),
    }
    file = policy(tmp_path, look)
    assert load_policy(file, condition_trouble).workflow == "w"
    check = Trouble(partial(misplaced, places=places))
    if says is None:
        assert load_policy(file, check).workflow == "w"
        return
    with pytest.raises(PolicyProblems) as refused:
        load_policy(file, check)
    assert str(refused.value) == f"{file}:{says}"


def test_a_gateway_does_not_start_with_a_policy_that_looks_nowhere(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    policy(tmp_path / "policies", "http: {place: shop}")
    config = {"upstreams": {"fs": {"command": "x"}}, "policies": "policies", "places": {"shop": {"url": "http://a"}}}
    file = tmp_path / "gateway.yaml"
    file.write_text(json.dumps(config))
    assert plan_of(load_settings(file)).places == {"shop": UrlPlace("shop", "http://a")}
    file.write_text(json.dumps({**config, "places": {}}))
    with pytest.raises(PolicyProblems) as refused:
        plan_of(load_settings(file))
    assert str(refused.value).endswith("verifiers.it.http.place: this gateway has no place `shop`")


async def test_a_changed_policy_that_looks_nowhere_is_not_taken(tmp_path: Path) -> None:
    file = policy(tmp_path, "http: {place: shop}")
    check = Trouble(partial(misplaced, places={"shop": UrlPlace("shop", "http://a")}))
    policies, source = first(partial(load_from, file, None, check))
    loaded = Policies(MemoryLedger(), policies, "w")
    reload, before = Reload(source, loaded, world.ToldClock()), loaded.in_force()
    policy(tmp_path, "http: {place: shpo}")
    await reload.take()
    assert loaded.in_force() == before
    assert "this gateway has no place `shpo`" in reload.trouble[0]


def test_the_examples_of_the_documentation_can_be_used(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "verifiers.md").read_text()
    blocks = dict(re.findall(r"```yaml\n# (\S+)\n(.*?)```", page, re.DOTALL))
    (tmp_path / "policies").mkdir()
    (tmp_path / "shop").mkdir()
    (tmp_path / "reviewed").mkdir()
    (tmp_path / "policies" / "shop.yaml").write_text(blocks["policies/shop.yaml"])
    (tmp_path / "gateway.yaml").write_text(blocks["gateway.yaml"].replace("/srv/reviewed", "reviewed"))
    environ = {**ENVIRON, "PATH": "/bin", "API_KEY": "k", "ORDERS_DB": "sqlite:///a.db", "BANK_TOKEN": "t"}
    plan = plan_of(load_settings(tmp_path / "gateway.yaml", environ))
    assert set(plan.places) == {"repo", "reviewed", "orders", "bank"}
    assert set(plan.policies["shop"].verifiers) == {"tests", "paid", "stored", "written", "sent"}
    assert [one.code for one in findings(plan.policies["shop"]) if one.severity == "error"] == []


def test_a_password_is_a_secret_as_it_is_written_and_as_it_is(tmp_path: Path) -> None:
    place = place_of("d", "postgresql://u:p%40ss%2Fword1@h/db", tmp_path)
    assert place.secrets == ("p%40ss%2Fword1", "p@ss/word1")
