"""The dashboard is one that Grafana can load, of metrics that exist; panels say what they show, and in what unit."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kanonflow.schemas.avro_schema import rejected_schema
from tests.deploy.test_alerts import ALERTS, MANUAL, names_in, names_in_code, rules

pytestmark = pytest.mark.thorough

DASHBOARD = json.loads((ALERTS.parent / "dashboard.json").read_text())
UNITS = {"rowsps", "ops", "ms", "bytes", "percentunit", "short", "bool_yes_no"}
"""Of Grafana's."""
REJECTED = "rows_rejected_"
(REASON,) = (field for field in rejected_schema()["fields"] if field["name"] == "reason")
REASONS = set(re.findall(r"\w+_?\w*", REASON["doc"])) - {"or"}
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    """All queries."""
    return [target["expr"] for panel in PANELS for target in panel["targets"]]


def test_panels_show_metrics_that_exist_and_that_prometheus_sees() -> None:
    """As of alerts: distributions read 0 there. What Flink tells itself is what the alerts go by."""
    plain, distributions = names_in_code()
    used = {name for expression in expressions() for name in names_in(expression)}
    assert len(used) > 30
    assert {name for name in used if name.startswith(REJECTED)} == {f"{REJECTED}{each}" for each in REASONS}
    plain |= {f"{REJECTED}{each}" for each in REASONS}
    assert used <= plain, sorted(used - plain)
    assert not used & distributions
    flinks = {
        name
        for expression in expressions()
        for name in re.findall(r"\bflink_\w+", expression)
        if "kanonflow" not in name
    }
    ruled = {name for rule in rules() for name in re.findall(r"\bflink_\w+", rule["expr"])}
    assert flinks <= ruled | {"flink_jobmanager_job_lastCheckpointSize"}, sorted(flinks - ruled)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_is_complete(panel: dict[str, Any]) -> None:
    """A title, a sentence, a unit, queries with names of their own, and brackets that close."""
    assert panel["type"] in ("timeseries", "stat")
    assert re.match(r"[A-Z]", panel["title"])
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert panel["targets"]
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    for target in panel["targets"]:
        assert target["legendFormat"]
        for opening, closing in ("()", "[]", "{}"):
            assert target["expr"].count(opening) == target["expr"].count(closing)
        # A new series begins with each attempt of a task: a rate of a sum would take a restart for a loss.
        assert not re.search(r"(increase|rate|changes)\(\s*(sum|max)", target["expr"])
        if "kanonflow" in target["expr"]:
            assert 'job_name=~"$job"' in target["expr"]
    for alert in re.findall(r"Kanonflow\w+", panel["description"]):
        assert f"`{alert}`" in MANUAL


def test_panels_have_places_of_their_own() -> None:
    """No two overlap, nothing is wider than the page, and each has one id and one title."""
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & cells, panel["title"]
        assert place["x"] + place["w"] <= 24
        cells |= own
    for key in ("id", "title"):
        values = [panel[key] for panel in DASHBOARD["panels"]]
        assert len(set(values)) == len(values)


def test_the_data_source_and_the_jobs_are_asked_for() -> None:
    """The file names no installation's data source."""
    assert [each["name"] for each in DASHBOARD["templating"]["list"]] == ["datasource", "job"]
    sources = set(re.findall(r'"uid": "([^"]*)"', json.dumps(DASHBOARD)))
    assert sources == {"kanonflow", "${datasource}"}
    assert names_in(DASHBOARD["templating"]["list"][1]["query"]) <= names_in_code()[0]
    assert "deploy/prometheus/dashboard.json" in MANUAL
