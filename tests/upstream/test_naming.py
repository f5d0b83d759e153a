from typing import Any

import pytest

from gateway.model.tool import Tool
from gateway.outbound.upstream.naming import Template, address_all, app_addresses, name_all
from gateway.outbound.upstream.offering import Troubles


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def test_a_single_upstream_keeps_its_names_whatever_they_are() -> None:
    names = name_all([("u", named("b", "a tool / with é"))], prefix=False)
    assert [one.tool for one in names.by_name.values()] == [
        Tool("b", "u", "b", {"name": "b"}),
        Tool("a tool / with é", "u", "a tool / with é", {"name": "a tool / with é"}),
    ]


def test_federated_names_stand_in_the_order_of_the_configuration() -> None:
    names = name_all([("z", named("b", "a")), ("y", named("b"))], prefix=True)
    assert list(names.by_name) == ["z__b", "z__a", "y__b"]
    assert names.by_name["z__a"].tool == Tool("z__a", "z", "a", {"name": "a"})


@pytest.mark.parametrize(
    ("offers", "prefix", "troubles"),
    [
        ([("u", named("ok", "no way"))], True, {"u": ("`u__no way` has other characters than A-Z a-z 0-9 _ -",)}),
        (
            [("a__b", named("c")), ("a", named("b__c")), ("u", named("ok"))],
            True,
            {
                "a__b": ("`a__b__c` could be `c` of `a__b` and `b__c` of `a`",),
                "a": ("`a__b__c` could be `c` of `a__b` and `b__c` of `a`",),
            },
        ),
        (
            [("u", named("ok", "Delete", "\uff44elete"))],
            False,
            {
                "u": (
                    "`Delete` could be `Delete` of `u` and `\uff44elete` of `u`",
                    "`\uff44elete` could be `Delete` of `u` and `\uff44elete` of `u`",
                )
            },
        ),
        (
            [("u", named("ok", "Gateway__x\u202e"))],
            False,
            {"u": ("`Gateway__x?` is a name of the gateway's own",)},
        ),
    ],
)
def test_what_could_be_taken_for_another_is_not_offered_and_both_are_named(
    offers: list[tuple[str, list[dict[str, Any]]]],
    prefix: bool,  # noqa: FBT001 - a row of the table
    troubles: dict[str, tuple[str, ...]],
) -> None:
    names = name_all(offers, prefix=prefix)
    assert names.troubles == troubles
    assert list(names.by_name) == ["u__ok" if prefix else "ok"]


def test_a_name_fits_together_with_the_prefix_that_clients_put_before_it_and_stays_the_same() -> None:
    fits, long, longer = "x" * 43, "x" * 44, "x" * 200
    names = name_all([("u", named(fits, long, longer))], prefix=True)
    assert {one.own_name: name for name, one in names.by_name.items()} == {
        fits: f"u__{fits}",
        long: f"u__{'x' * 36}_188a99",
        longer: f"u__{'x' * 36}_bd9927",
    }
    assert all(len(f"mcp__counterfoil__{name}") <= 64 for name in names.by_name)
    assert names.troubles["u"][0] == f"`u__{long}` is too long, and offered as `u__{'x' * 36}_188a99`"
    assert name_all([("u", named(long))], prefix=True).by_name.keys() < names.by_name.keys()


def test_an_address_is_never_changed_and_belongs_to_the_first_that_lists_it() -> None:
    both = address_all([("a", [{"uri": "x:1", "n": None}]), ("b", [{"uri": "x:1"}, {"uri": "x:2"}, {}])], "uri")
    assert both.items == ({"uri": "x:1", "n": None}, {"uri": "x:2"})
    assert both.owners == {"x:1": "a", "x:2": "b"}
    assert both.doubles == {"b": ("`x:1` is listed by `a` too, which is asked for it",)}


@pytest.mark.parametrize(
    ("template", "address", "fits"),
    [
        ("x:1", "x:1", True),
        ("x:1", "x:12", False),
        ("x:{a}", "x:", True),
        ("x:{a}", "x:a/b", True),
        ("x:{a}/z", "x:a/b/z", True),
        ("x:{a}/z", "x:a/b", False),
        ("x:{a}/m/{b}/z", "x:1/m/2/z", True),
        ("x:{a}/m/{b}/z", "x:1/2/z", False),
        ("aba{x}aba", "ababa", False),
        ("{a}", "", True),
    ],
)
def test_an_address_may_have_come_from_a_template(template: str, address: str, fits: bool) -> None:  # noqa: FBT001
    assert Template(template).matches(address) is fits


def test_a_template_that_could_make_a_pattern_run_for_ever_does_not() -> None:
    assert not Template("{a}b" * 500 + "c").matches("b" * 50_000)


def test_the_resources_of_apps_are_known_by_the_tools_that_name_them() -> None:
    tools: list[dict[str, Any]] = [
        {"_meta": {"ui": {"resourceUri": "ui://a"}}},
        {"_meta": {"ui/resourceUri": "ui://b", "openai/outputTemplate": "ui://c"}},
        {"_meta": {"ui": {"resourceUri": 1}}},
        {"_meta": None},
        {},
    ]
    assert app_addresses(tools) == ["ui://a", "ui://b", "ui://c"]


def test_ten_thousand_tools_of_one_name_are_withheld_in_few_words() -> None:
    names = name_all([("u", named(*["same"] * 10_000)), ("v", named("same"))], prefix=False)
    assert not names.by_name
    assert len(names.troubles["u"]) == 101
    assert names.troubles["u"][-1] == "9900 more are like these"
    (said,) = names.troubles["v"]
    assert said.endswith("`same` of `u` and 9993 more")


def test_an_upstream_with_ever_new_troubles_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    troubles = Troubles()
    for number in range(10_000):
        troubles.tell({"u": [f"trouble {number}", f"trouble {number // 2}"], "v": ["its own"]})
    assert caplog.messages[:2] == ["u: trouble 0", "v: its own"]
    assert len(caplog.messages) < 400
    assert caplog.messages[-1] == "u: it has more troubles than are said here"
