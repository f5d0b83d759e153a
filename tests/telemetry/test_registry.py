"""The registry of names keeps the rules of OpenTelemetry, takes no names of others, and leaves nothing out."""

import re
from enum import Enum
from importlib import import_module
from typing import Any, get_args

import pytest

from gateway.kernel.decide import CHECKS, RESENDING, RESUMING
from gateway.model import events
from gateway.model.approval import Decision
from gateway.model.policy.parts import UNITS
from gateway.model.telemetry.names import LOG_EVENTS, METHODS
from tests.telemetry.names import BEGIN, PAGE, constants, whole
from tests.telemetry.registry import Attribute, registry

REGISTRY = registry()
GROUPS = {**REGISTRY.spans, **REGISTRY.metrics, **REGISTRY.events, "service": REGISTRY.service}


def test_what_is_made_of_the_registry_is_current() -> None:
    """If not: `poe names`."""
    assert [file.name for file, code in constants().items() if file.read_text() != code] == []


def test_the_tables_of_the_page_are_current() -> None:
    """If not: `poe names`."""
    page = PAGE.read_text()
    current = page.count(BEGIN) == 1 and whole(page) == page
    assert current


# --- the rules of names [OpenTelemetry: semantic conventions, naming] ------------------------------------------------


@pytest.mark.parametrize("names", [REGISTRY.attributes, REGISTRY.metrics, REGISTRY.events], ids=["a", "m", "e"])
def test_names_are_lower_case_words_joined_by_dots(names: dict[str, Any]) -> None:
    word = r"[a-z][a-z0-9]*(_[a-z0-9]+)*"
    assert [name for name in names if not re.fullmatch(rf"{word}(\.{word})+", name)] == []


@pytest.mark.parametrize("names", [REGISTRY.attributes, REGISTRY.metrics, REGISTRY.events], ids=["a", "m", "e"])
def test_no_name_is_the_namespace_of_another(names: dict[str, Any]) -> None:
    assert [(name, other) for name in names for other in names if other.startswith(f"{name}.")] == []


def test_what_is_ours_has_our_prefix_and_nothing_else_has() -> None:
    said = {key: one.origin for key, one in REGISTRY.attributes.items()} | {
        name: group.notes["origin"] for name, group in GROUPS.items()
    }
    assert {
        name: origin for name, origin in said.items() if (origin == "counterfoil") != name.startswith("counterfoil.")
    } == {}
    assert set(said.values()) == {"convention", "counterfoil"}


def constants_of(kind: str, namespace: str) -> set[str]:
    """What the installed conventions call an attribute or a metric of that namespace."""
    try:
        module = import_module(f"opentelemetry.semconv._incubating.{kind}.{namespace}_{kind}")
    except ModuleNotFoundError:
        return set()
    return {one for one in vars(module).values() if isinstance(one, str)}


def conventional(kind: str, name: str) -> bool:
    return name in constants_of(kind, name.split(".", maxsplit=1)[0])


def test_whatever_is_said_to_be_of_the_conventions_is_or_says_where_it_is_from() -> None:
    attributes = {key: one.source for key, one in REGISTRY.attributes.items() if one.origin == "convention"}
    metrics = {name: one.notes.get("source", "") for name, one in REGISTRY.metrics.items() if name.startswith("mcp.")}
    for kind, said in (("attributes", attributes), ("metrics", metrics)):
        assert {name for name, source in said.items() if not source and not conventional(kind, name)} == set()
        assert {name for name, source in said.items() if source and conventional(kind, name)} == set()  # not needed
    others = {**REGISTRY.spans, **REGISTRY.events}.values()
    assert [one.name for one in others if one.notes["origin"] == "convention" and not one.notes.get("source")] == []


def test_values_of_the_conventions_are_the_conventions_own() -> None:
    from opentelemetry.semconv._incubating.attributes.gen_ai_attributes import GenAiOperationNameValues  # noqa: PLC0415
    from opentelemetry.semconv._incubating.attributes.mcp_attributes import McpMethodNameValues  # noqa: PLC0415
    from opentelemetry.semconv.attributes.network_attributes import NetworkTransportValues  # noqa: PLC0415

    assert members("gen_ai.operation.name") <= values(GenAiOperationNameValues)
    assert members("network.transport") <= values(NetworkTransportValues)
    assert values(McpMethodNameValues) <= METHODS


def members(key: str) -> set[str]:
    return set(REGISTRY.attributes[key].members)


def values(told: type[Enum]) -> set[str]:
    return {str(one.value) for one in told}


# --- types, labels, levels ------------------------------------------------------------------------------------------


def test_every_attribute_has_a_type_and_a_stability_that_there_is() -> None:
    types = {"string", "int", "double", "boolean", "string[]", "enum"}
    assert [one.key for one in REGISTRY.attributes.values() if one.type not in types] == []
    assert [one.key for one in REGISTRY.attributes.values() if (one.type == "enum") != bool(one.members)] == []
    assert {one.stability for one in REGISTRY.attributes.values()} <= {"development", "stable"}


def test_everything_says_in_a_sentence_what_it_is() -> None:
    said = {**{key: one.brief for key, one in REGISTRY.attributes.items()}, **{n: g.brief for n, g in GROUPS.items()}}
    assert [name for name, brief in said.items() if not re.fullmatch(r"[A-Z`1].*\.", brief)] == []


def test_groups_name_registered_attributes_at_known_levels_and_no_attribute_is_idle() -> None:
    used = {key: level for group in GROUPS.values() for key, level in group.levels.items()}
    assert used.keys() == REGISTRY.attributes.keys()
    assert {level for level in used.values() if not level.startswith("if ")} <= {"required", "recommended", "opt_in"}


def test_content_is_everywhere_opt_in() -> None:
    content = {key for key, one in REGISTRY.attributes.items() if one.content}
    levels = {(key, level) for group in GROUPS.values() for key, level in group.levels.items() if key in content}
    assert {level for _, level in levels} == {"opt_in"}
    assert {key for group in GROUPS.values() for key, level in group.levels.items() if level == "opt_in"} == content


def test_labels_have_few_values() -> None:
    labels = {(name, key) for name, metric in REGISTRY.metrics.items() for key in metric.levels}
    assert {label for label in labels if not REGISTRY.attributes[label[1]].low} == set()


def test_metrics_are_named_and_measured_as_the_conventions_want() -> None:
    for name, metric in REGISTRY.metrics.items():
        buckets, instrument = metric.notes.get("buckets"), metric.said["instrument"]
        assert (buckets is not None) == (instrument == "histogram"), name
        assert buckets is None or buckets == sorted(set(buckets)), name
        assert instrument in {"counter", "updowncounter", "histogram", "gauge"}, name
        assert re.fullmatch(r"s|By|1|\{[a-z]+\}", metric.said["unit"]), name
        assert not re.search(r"total|seconds|bytes|_s$", name), name
        assert (metric.said["unit"] == "s") == name.endswith((".duration", "_age")), name
        # What is counted is a plural, whatever goes up and down is not.
        assert name.endswith("s") or instrument != "counter" or name in UNCOUNTABLE, name
        assert not name.endswith("s") or instrument != "updowncounter", name


UNCOUNTABLE = {"counterfoil.budget.cost", "counterfoil.telemetry.dropped"}


# --- against the code -----------------------------------------------------------------------------------------------

KINDS = {one.model_fields["kind"].default: one for one in get_args(get_args(events.Event)[0])}


def test_each_kind_of_event_has_its_log_event_and_no_log_event_is_of_none() -> None:
    assert LOG_EVENTS.keys() == KINDS.keys()
    assert list(LOG_EVENTS) == list(KINDS)
    expected = {kind: f"counterfoil.{kind}" for kind in KINDS} | {"evidence.recorded": "gen_ai.evaluation.result"}
    assert {kind: one.name for kind, one in LOG_EVENTS.items()} == expected


def test_how_bad_an_event_is_follows_from_its_kind_or_from_what_it_says() -> None:
    stopped = LOG_EVENTS["run.stopped"]
    assert {
        reason: stopped.severity_of({"counterfoil.stop.reason": reason})
        for reason in ("verified_success", "infeasible")
    } == {
        "verified_success": "info",
        "infeasible": "warn",
    }
    assert stopped.severity_of({}) == "warn"
    assert LOG_EVENTS["attempt.unknown"].severity_of({}) == "error"
    assert LOG_EVENTS["compensation.failed"].severity_of({}) == "error"
    for event in REGISTRY.events.values():
        for case in event.notes.get("severities", ()):
            assert set(case["values"]) <= members(case["ref"]), event.name
            assert case["ref"] in event.levels, event.name


def mirrored(attribute: Attribute) -> set[str]:
    module, _, name = attribute.mirrors.rpartition(".")
    return {str(one) for one in getattr(import_module(module), name)}


def test_members_are_those_of_the_code() -> None:
    mirrors = [one for one in REGISTRY.attributes.values() if one.mirrors]
    assert len(mirrors) >= 6
    assert {one.key: set(one.members) for one in mirrors} == {one.key: mirrored(one) for one in mirrors}
    assert members("counterfoil.decision.check") == CHECKS.keys() | RESUMING.keys() | RESENDING.keys()
    assert members("counterfoil.approval.state") == {"pending", *get_args(Decision)}


@pytest.mark.parametrize(
    ("key", "kind", "field"),
    [
        ("counterfoil.verifier.verdict", "evidence.recorded", "verdict"),
        ("gen_ai.evaluation.score.label", "evidence.recorded", "verdict"),
        ("counterfoil.query.verdict", "attempt.queried", "verdict"),
        ("counterfoil.notice.outcome", "notice.sent", "outcome"),
        ("counterfoil.finish.outcome", "finish.claimed", "outcome"),
    ],
)
def test_members_are_those_of_the_events(key: str, kind: str, field: str) -> None:
    assert members(key) == set(get_args(KINDS[kind].model_fields[field].annotation))


def test_every_budget_is_told() -> None:
    for part in ("charged", "remaining"):
        assert {key.rsplit(".", 1)[1] for key in REGISTRY.attributes if f".budget.{part}." in key} == set(UNITS)
    assert {f"counterfoil.budget.{unit}" for unit in UNITS} <= REGISTRY.metrics.keys()
