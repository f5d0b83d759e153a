import time
from itertools import product
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
                    "`Delete` is not offered: its name looks like `\\uff44elete` of `u`",
                    "`\\uff44elete` is not offered: its name looks like `Delete` of `u`",
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
        {"_meta": {"ui": {"resourceUri": "notes://of-another"}, "openai/outputTemplate": "javascript:x"}},
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


LIKE_MAIL = ("send_mail", "SEND_MAIL", "s\u0435nd_mail", "send_mai1", "send_mal1", "send_rnail")


@pytest.mark.parametrize(
    ("vouched", "left"),
    [
        (frozenset[str](), ["a", "send_mal1", "z"]),
        (frozenset({"send_mail"}), ["a", "send_mail", "send_mal1", "z"]),
        (frozenset({"send_mail", "SEND_MAIL", "nobody's"}), ["a", "send_mail", "SEND_MAIL", "send_mal1", "z"]),
        (frozenset({"SEND_MAIl"}), ["a", "send_mal1", "z"]),
    ],
)
def test_of_a_group_only_what_is_vouched_for_stays_and_all_else_is_as_it_was(
    vouched: frozenset[str], left: list[str]
) -> None:
    names = name_all([("u", named("a", *LIKE_MAIL, "z"))], prefix=False, vouched=vouched)
    assert list(names.by_name) == left
    assert [tool.name for tool in names.withheld.values()] == [name for name in LIKE_MAIL if name not in left]


def test_what_is_withheld_says_what_it_looks_like_and_whose_that_is() -> None:
    names = name_all(
        [("a", named("pay")), ("b", named("p\u0430y", "ok\u200b"))],
        prefix=False,
        vouched=frozenset({"pay", "ok\u200b"}),
    )
    assert list(names.by_name) == ["pay"]
    assert names.troubles == {
        "b": (
            r"`ok\u200b` is not offered: its name has characters that cannot be seen",
            r"`p\u0430y` is not offered: its name looks like `pay` of `a`",
        )
    }
    alike = "its name looks like `pay` of `a`"
    assert names.withheld == {
        "p\u0430y": Tool("p\u0430y", "b", "p\u0430y", {"name": "p\u0430y"}, False, alike, withheld=True),
        "ok\u200b": Tool(
            *("ok\u200b", "b", "ok\u200b", {"name": "ok\u200b"}, False),
            "its name has characters that cannot be seen",
            withheld=True,
        ),
    }


def test_one_name_of_two_upstreams_is_of_neither_even_if_it_is_vouched_for() -> None:
    both = [("a", named("pay", "x")), ("b", named("pay", "Pay"))]
    names = name_all(both, prefix=False, vouched=frozenset({"pay"}))
    assert (list(names.by_name), list(names.withheld)) == (["x"], ["Pay"])
    assert names.troubles["a"] == ("`pay` could be `pay` of `a` and `pay` of `b`",)


@pytest.mark.parametrize("own", ["x", "\u0435x"])
def test_no_upstream_gets_near_the_gateways_own_names(own: str) -> None:
    near = [f"gateway__{own}", f"GATEWAY__{own}", f"g\u0430teway__{own}", f"\u200bgateway__{own}"]
    assert not name_all([("u", named(*near))], prefix=False).by_name
    assert not name_all([("u", named(*near))], prefix=False).withheld


def test_ten_thousand_tools_that_look_alike_are_withheld_in_few_words_and_little_time() -> None:
    spellings = ["".join(letters) for letters in product(*zip("deletefile1234", "DELETEFILE1234", strict=True))]
    begun = time.process_time()
    names = name_all([("u", named(*spellings, "other"))], prefix=False)
    assert time.process_time() - begun < 3.0
    assert list(names.by_name) == ["other"]
    assert len(names.troubles["u"]) == 101
    assert len(names.troubles["u"][0]) < 500


def test_five_thousand_plain_names_cost_no_noticeable_time() -> None:
    plain = named(*(f"read_the_record_of_customer_{number}_by_name" for number in range(5_000)))
    begun = time.process_time()
    names = name_all([("u", plain)], prefix=False)
    assert time.process_time() - begun < 0.5  # a hundredth of a millisecond each, when nobody else is busy
    assert len(names.by_name) == 5_000
