"""The alerts are rules that Prometheus can read, of metrics that exist, with an answer in the operations manual."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kanonflow.transforms.release.rejected import MESSAGES

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
MANUAL = (ROOT / "docs" / "operations.md").read_text()
DURATION = re.compile(r"\d+[smhdw]")


def rules() -> list[dict[str, Any]]:
    """All rules of all groups."""
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def _calls(tree: ast.AST, functions: tuple[str, ...]) -> Iterator[str]:
    """The names given as the last argument; of a name that is put together, what stands before the brace."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            function = (
                node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            )
            if function not in functions:
                continue
            for argument in node.args[:2]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value
                elif isinstance(argument, ast.JoinedStr) and isinstance(argument.values[0], ast.Constant):
                    yield argument.values[0].value


def names_in_code() -> tuple[set[str], set[str]]:
    """Names of counters and gauges that some step has, and those of distributions."""
    plain: set[str] = {"release_conflict"}  # by a constant
    distributions: set[str] = set()
    for path in (*(ROOT / "transforms").rglob("*.py"), *(ROOT / "pipelines").rglob("*.py")):
        tree = ast.parse(path.read_text())
        plain.update(_calls(tree, ("counter", "gauge", "_count")))
        distributions.update(_calls(tree, ("distribution", "_measure")))
    plain |= {f"{name}_sum" for name in distributions}
    for prefix in {name for name in plain if name.endswith("_rejected_")}:
        plain |= {f"{prefix}{reason}" for reason in MESSAGES}
    return plain, distributions


def names_in(text: str) -> set[str]:
    """The names of our metrics in an expression."""
    return set(re.findall(r"kanonflow_(\w+)", text))


def test_the_names_of_the_code_are_found() -> None:
    """Counters, names put together, sums of distributions: else the next test would prove little."""
    plain, distributions = names_in_code()
    assert {"rows_read", "windows", "window_rows_rejected_gate_refused", "window_solve_ms_sum"} <= plain
    assert {"window_latency_ms", "window_individuals"} <= distributions
    assert not plain & distributions


def test_rules_use_metrics_that_exist_and_that_prometheus_sees() -> None:
    """Distributions read 0 there: no rule may use one."""
    plain, distributions = names_in_code()
    used = {name for rule in rules() for name in names_in(rule["expr"])}
    assert len(used) > 8
    assert used <= plain, sorted(used - plain)
    assert not used & distributions


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_is_complete(rule: dict[str, Any]) -> None:
    """A condition, how bad it is, one sentence, and what to do about it in the manual; brackets that close."""
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["summary"].endswith(".")
    assert f"`{rule['alert']}`" in MANUAL
    assert "for" not in rule or DURATION.fullmatch(rule["for"])
    for opening, closing in ("()", "[]", "{}"):
        assert rule["expr"].count(opening) == rule["expr"].count(closing)
    assert re.search(r"\s(>|<|==)\s|^absent", re.sub(r"\{.*?\}", "", rule["expr"]))
    # A new series begins with each attempt of a task: an increase of a sum would take a restart for a loss.
    assert not re.search(r"(increase|rate|changes)\(\s*(sum|max)", rule["expr"])


def test_alerts_are_known_by_one_name() -> None:
    """And the manual explains none that is not there."""
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) > 10
    assert set(re.findall(r"`(Kanonflow\w+)`", MANUAL)) == set(names)


def test_the_manual_explains_every_metric() -> None:
    """A name in a table that no step has is noticed, and a metric that no table has."""
    plain, distributions = names_in_code()
    known = {name for name in plain | distributions if not name.endswith("_")}
    known -= {
        f"{prefix}{reason}" for prefix in ("rows_rejected_", "window_rows_rejected_") for reason in MESSAGES
    }
    missing = sorted(name for name in known - {"read_microseconds"} if f"`{name}`" not in MANUAL)
    assert not missing, missing
    in_tables = {
        name
        for line in MANUAL.split("### In Flink")[0].splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert {name for name in in_tables if not name.endswith("_REASON")} <= known


def test_prometheus_reads_the_alerts_and_drops_what_it_cannot_show() -> None:
    """The configuration names the rules' file; the distributions, which would read 0, are dropped."""
    config = yaml.safe_load((ALERTS.parent / "prometheus.yml").read_text())
    assert config["rule_files"] == [ALERTS.name]
    (job,) = config["scrape_configs"]
    dropped = [rule["regex"] for rule in job["metric_relabel_configs"] if rule["action"] == "drop"]
    plain, distributions = names_in_code()
    metric = "flink_taskmanager_job_task_operator_kanonflow_{}".format
    shown = {
        name for name in plain | distributions if not any(re.fullmatch(d, metric(name)) for d in dropped)
    }
    assert shown == plain
