"""The dashboard and the alerts ask for what a gateway shows: their metrics, labels and values are in the registry."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import promql_parser as promql
import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from gateway.model.telemetry.kinds import Metric
from gateway.model.telemetry.names import Metrics
from gateway.outbound.telemetry_entry import TelemetryEntry
from tests.conftest import EXAMPLES
from tests.telemetry.registry import registry

FOLDER = EXAMPLES / "observability"
ALERTS = YAML(typ="safe").load(FOLDER / "alerts.yaml")["groups"]
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text())

OF_PROMETHEUS = {"job", "instance"}
"""Labels that the scrape itself adds."""

Shown = Mapping[str, set[str]]
"""Sample to the labels that it may have."""


def shown_in(text: str) -> dict[str, set[str]]:
    """Of a page of `/metrics`."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@cache
def all_shown() -> Shown:
    """By the exporter itself, which has names of its own, of every metric of the registry with every label."""
    collected = CollectorRegistry()
    provider = MeterProvider([PrometheusMetricReader(registry=collected)], shutdown_on_exit=False)
    meter = provider.get_meter("counterfoil")
    for metric in (one for one in vars(Metrics).values() if isinstance(one, Metric)):
        measured(meter, metric)
    text = generate_latest(collected).decode()
    provider.shutdown()
    return shown_in(text)


def measured(meter: Meter, metric: Metric) -> None:
    """It has one value, with every label."""
    labels = dict.fromkeys(metric.labels, "x")

    def observed(_: CallbackOptions) -> Iterator[Observation]:
        yield Observation(1, labels)

    match metric.instrument:
        case "counter":
            meter.create_counter(metric.name, metric.unit).add(1, labels)
        case "updowncounter":
            meter.create_up_down_counter(metric.name, metric.unit).add(1, labels)
        case "histogram":
            meter.create_histogram(metric.name, metric.unit).record(1, labels)
        case "gauge":
            meter.create_observable_gauge(metric.name, [observed], metric.unit)


class Asked(NamedTuple):
    """A query, and where it stands."""

    where: str
    query: str


def asked() -> Iterator[Asked]:
    for group in ALERTS:
        for rule in group["rules"]:
            yield Asked(rule["alert"], rule["expr"])
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield Asked(panel["title"], target["expr"])


ASKED = list(asked())


def parsed(query: str) -> promql.Expr:
    expr: promql.Expr = promql.parse(query.replace("$__rate_interval", "5m").replace("$job", "x"))
    return expr


def under(expr: promql.Expr, kind: type[Any]) -> list[Any]:
    found: list[Any] = []
    promql.walk(expr, lambda one: found.append(one) if isinstance(one, kind) else None)
    return found


def metrics_in(expr: promql.Expr) -> set[str]:
    return {one.name for one in under(expr, promql.VectorSelector)} - {"up"}


def test_what_is_asked_for_is_what_the_exporter_shows_of_the_registry() -> None:
    assert [one for one in ASKED if not metrics_in(parsed(one.query)) <= all_shown().keys()] == []
    assert [(one.where, label) for one in ASKED for label in strange_labels(parsed(one.query))] == []


def strange_labels(expr: promql.Expr) -> Iterator[str]:
    """Those that are asked for of a metric that does not have them."""
    for selector in under(expr, promql.VectorSelector):
        known = all_shown().get(selector.name, set()) | OF_PROMETHEUS
        yield from ({matcher.name for matcher in selector.matchers.matchers} - known)
    for aggregate in under(expr, promql.AggregateExpr):
        by = set(aggregate.modifier.labels) if aggregate.modifier else set()
        for name in metrics_in(aggregate.expr):
            yield from (by - all_shown().get(name, set()) - OF_PROMETHEUS)


def test_every_value_that_is_asked_for_is_one_that_its_attribute_has() -> None:
    enums = {key.replace(".", "_"): said.members for key, said in registry().attributes.items() if said.members}
    selectors = [selector for one in ASKED for selector in under(parsed(one.query), promql.VectorSelector)]
    matched = {(it.name, it.value) for selector in selectors for it in selector.matchers.matchers if it.name in enums}
    assert len(matched) > 3
    assert {(name, value) for name, value in matched if value not in enums[name]} == set()


@pytest.mark.parametrize("rule", [rule for group in ALERTS for rule in group["rules"]], ids=lambda rule: rule["alert"])
def test_each_alert_says_what_is_wrong_and_what_to_do_with_labels_that_it_has(rule: dict[str, Any]) -> None:
    assert set(rule["annotations"]) == {"summary", "action"}
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    (outer, *_) = [*under(parsed(rule["expr"]), promql.AggregateExpr), None]
    kept = {"job", "instance"} if outer is None else set(outer.modifier.labels)
    assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= kept


def test_every_alert_is_tried_by_the_rules_tests_for_ringing_and_for_silence() -> None:
    names = {rule["alert"] for group in ALERTS for rule in group["rules"]}
    quiet, *loud = YAML(typ="safe").load(FOLDER / "alerts_test.yaml")["tests"]
    assert {one["alertname"] for one in quiet["alert_rule_test"]} == names
    rung = {name for name in names if f'alertname="{name}"' in str([test["promql_expr_test"] for test in loud])}
    assert rung == names


def test_the_dashboards_panels_lie_side_by_side_and_each_says_what_it_shows() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"], panel["title"]
            assert panel["datasource"]["uid"] == "${datasource}"
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_prometheus_reads_the_alerts_and_scrapes_under_the_job_that_they_name() -> None:
    said = YAML(typ="safe").load(FOLDER / "prometheus.yml")
    assert [(FOLDER / name).exists() for name in said["rule_files"]] == [True]
    (scraped,) = said["scrape_configs"]
    assert f'up{{job="{scraped["job_name"]}"}} == 0' in {one.query for one in ASKED}


def test_the_page_has_every_alert_and_every_setting() -> None:
    page = (EXAMPLES.parent / "docs" / "telemetry.md").read_text()
    told = page.partition("| alert | ")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` ", told, re.MULTILINE) == [
        rule["alert"] for group in ALERTS for rule in group["rules"]
    ]
    settings = page.partition("| key | default | |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` ", settings, re.MULTILINE) == list(TelemetryEntry.model_fields)


def test_the_queries_of_the_page_are_those_that_the_script_asks() -> None:
    page = (EXAMPLES.parent / "docs" / "telemetry.md").read_text()
    script = (FOLDER / "backends.py").read_text()
    queries = re.findall(r'return f"(GET .*?|span\..*?)"$', script, re.MULTILINE)
    assert len(queries) == 2
    for query in queries:
        assert query.replace("{self.project}", "counterfoil").replace("{outcome}", "deny") in page
