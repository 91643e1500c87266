"""The Grafana dashboard and the alert rules name metrics and labels that there are, and can be loaded."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest

from sparkhaven.jobs.monitor.metrics.catalogue import PREFIX
from tests.support.monitoring.promql import METRICS, Named, faults, named
from tests.support.places import REPOSITORY

DASHBOARD = json.loads((REPOSITORY / "conf/grafana-dashboard.json").read_text())
ALERTS = (REPOSITORY / "conf/prometheus-alerts.yml").read_text()
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
DRAWN = [panel for panel in PANELS if panel["type"] != "row"]
ROWS = ["Overview", "Lag", "Epochs", "Bad rows", "Merges", "Storage", "Pins", "Errors"]
RULE = re.compile(
    r"      - alert: (?P<name>\w+)\n"
    r"        expr: (?P<expr>[^\n'\"#][^\n#]*)\n"
    r"        for: (?P<wait>\d+[mh])\n"
    r"        labels:\n          severity: (?P<severity>critical|warning)\n"
    r"        annotations:\n          summary: \"(?P<summary>[^\"\n]+)\"\n"
    r"          description: \"(?P<more>[^\"\n]+)\"\n"
)
RULES = list(RULE.finditer(ALERTS))


def shown(text: str) -> list[str]:
    """Labels between double braces."""
    return re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text)


def test_names_are_extracted() -> None:
    found = named('sum by (le, table) (rate(sparkhaven_a_bucket{x=~"$y", z="{,}"}[5m])) / 2e3 > sparkhaven_b')
    assert found == Named((("a_bucket", frozenset({"x", "z"})), ("b", frozenset())), frozenset({"le", "table"}))
    assert named("time() - max(sparkhaven_b) and on (stream) sparkhaven_c").grouped == {"stream"}
    for wrong in ("rat(sparkhaven_a)", "sparkhaven_a + rows", '{x="y"}', "sparkhaven_a{x}", "sparkhaven_a ; 1"):
        with pytest.raises(ValueError, match=r"unknown name|cannot read|without a metric"):
            named(wrong)


@pytest.mark.parametrize(
    ("expression", "legend", "fault"),
    [
        ("rate(sparkhaven_rows_totl[5m])", [], "no series sparkhaven_rows_totl"),
        ("sparkhaven_commit_seconds", [], "no series sparkhaven_commit_seconds"),
        ("sparkhaven_rows_total_bucket", [], "no series sparkhaven_rows_total_bucket"),
        ('sparkhaven_merge_rows{stream="x"}', [], "sparkhaven_merge_rows has no label stream"),
        ("sum by (reason) (sparkhaven_rows_total)", [], "no metric of it has the label reason"),
        ("sparkhaven_rows_total", ["column"], "no metric of it has the label column"),
        ("vector(0)", [], "names no metric"),
    ],
)
def test_wrong_expressions_are_seen(expression: str, legend: list[str], fault: str) -> None:
    assert faults(expression, legend) == [fault]


@pytest.mark.parametrize("panel", DRAWN, ids=lambda panel: panel["title"])
def test_a_panel(panel: dict[str, Any]) -> None:
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
    for target in panel["targets"]:
        assert target["datasource"] == panel["datasource"]
        assert faults(target["expr"], shown(target["legendFormat"])) == []
        selected = [labels for name, labels in named(target["expr"]).metrics if not name.startswith("log_")]
        assert all("table" in labels for labels in selected)  # the variables of the dashboard choose


def test_the_layout_of_the_dashboard() -> None:
    assert [panel["title"] for panel in PANELS if panel["type"] == "row"] == ROWS
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    boxes = [panel["gridPos"] for panel in PANELS]
    assert all(box["w"] > 0 < box["h"] and box["x"] >= 0 and box["x"] + box["w"] <= 24 for box in boxes)
    for one, other in combinations(boxes, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
    assert len({panel["title"] for panel in DRAWN}) == len(DRAWN)


def test_the_variables_of_the_dashboard() -> None:
    source, *others = DASHBOARD["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert [variable["name"] for variable in others] == ["table", "stream"]
    for variable in others:
        match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
        assert match is not None and match[2] == variable["name"] and variable["definition"] == match[0]
        assert faults(match[1], [match[2]]) == []


def test_the_dashboard_shows_every_metric_that_is_to_be_watched() -> None:
    drawn = "".join(target["expr"] for panel in DRAWN for target in panel["targets"])
    left = {name for name in METRICS if not re.search(rf"{PREFIX}{name}(?:_bucket|_sum|_count)?\b", drawn)}
    assert left == {"source_reachable", "merge_bytes", "table_figures_age_seconds"}  # alerts have two of them


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["name"])
def test_an_alert(rule: re.Match[str]) -> None:
    assert faults(rule["expr"], shown(rule["summary"] + rule["more"])) == []
    assert rule["summary"].endswith(".") and rule["more"].endswith(".")


def test_the_alerts_are_all_read() -> None:
    head = "groups:\n  - name: sparkhaven\n    rules:\n"
    body = re.sub(r"^#.*\n", "", ALERTS, flags=re.MULTILINE)
    assert body == head + "".join(rule[0] for rule in RULES)
    assert len({rule["name"] for rule in RULES}) == len(RULES) == ALERTS.count("alert:") > 10
