"""Windows that are released in parts: what PRIVACY promises of a release holds for each of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.driven_partitions import DrivenPartitions
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, feed_policy, row

pytestmark = pytest.mark.thorough

SHAPES = {
    "classes": {"people": True},
    "people": {"people": True, "protect": "row"},
    "rows": {"people": False},
}
Steps = list[list[Row]]


@st.composite
def feeds(draw: st.DrawFn) -> tuple[dict[str, Any], Steps]:
    """A policy's head, and a few hours with up to three parts' rows: late, repeated, of light and heavy people."""
    head = {
        "max_delay": f"{draw(st.integers(0, 2))}h",
        "running": draw(st.booleans()),
        "events": draw(st.booleans()),
    }
    random = draw(st.randoms(use_true_random=False))
    people, hours = draw(st.integers(2, 60)), draw(st.integers(1, 4))
    steps, number = [], 0
    for hour in range(hours):
        rows = []
        for _ in range(draw(st.integers(0, 90))):
            at = max(0, hour - (random.random() < 0.1))
            who = int(people * random.random() ** 2)
            event = f"e{number - 1 if random.random() < 0.2 else number}"
            age = str(20 + (who * 7) % 60 + (random.random() < 0.1))
            rows.append(row(number, who, at + 0.5, event=event, age=age))
            number += 1
        steps.append(rows)
    return head, steps


@pytest.mark.parametrize("shape", SHAPES)
@settings(derandomize=True, max_examples=40)
@given(feed=feeds())
def test_every_part_keeps_the_promise(shape: str, feed: tuple[dict[str, Any], Steps]) -> None:
    """At each moment every row is in one place; each part has k individuals, and those of one window share none."""
    head, steps = feed
    step = DrivenPartitions(bound_feed(feed_policy(**SHAPES[shape], **head, max_window_rows=30)), SECRET)
    sent: dict[str, Row] = {}
    for hour, rows in enumerate(steps):
        step.send(rows)
        sent |= {str(each["reference"]): each for each in rows}
        step.advance(START + (hour + 1) * HOUR)
        assert len(step.published()) + len(step.refused()) + step.waiting() + step.in_bags() == len(sent)
        assert step.metrics[-1]["rows_waiting"] == step.waiting() if step.metrics else not sent
    step.finish()
    refused = [name for name, _ in step.refused()]
    assert Counter(step.published() + refused) == Counter(dict.fromkeys(sent, 1))
    assert "gate_refused" not in {reason for _, reason in step.refused()}
    policy = step.bound.policy
    owner = "who" if policy.individual else "reference"
    owners: dict[int | None, list[set[str | None]]] = defaultdict(list)
    for release, table in zip(step.released, step.tables(), strict=True):
        rows = [sent[name] for name in table.column("reference").to_pylist()]
        owners[release.window_end].append({each[owner] for each in rows})
        hours = [int(str(each["when"])[11:13]) for each in rows]
        assert release.window_start == START + min(hours) * HOUR
        assert release.window_end is not None
        assert START + (max(hours) + 1) * HOUR <= release.window_end
        assert release.window_end <= START + (min(hours) + 1) * HOUR + policy.max_delay_ms
    for parts in owners.values():
        assert all(len(part) >= policy.k for part in parts)
        assert sum(map(len, parts)) == len(set().union(*parts))
    held = 0
    parts_of: Counter[int | None] = Counter()
    for number, record in enumerate(step.metrics):
        gone = record["rows_released"] + sum(record["rows_rejected"].values())
        assert record["rows_new"] + record["rows_waited"] == gone + record["rows_waiting"]
        of_window = record["kind"] == "window"
        assert record["release_no"] == (parts_of[record["window_end"]] if of_window else number)
        parts_of[record["window_end"]] += of_window
        assert record["rows_waited"] == held
        held = record["rows_waiting"]
    assert held == 0
    assert sum(record["rows_new"] for record in step.metrics) + sum(
        len(each.records)
        for each in step.rejected
        if each.name not in {m["release_id"] for m in step.metrics}
    ) == len(sent)


def test_the_feeds_have_windows_in_parts() -> None:
    """Or the test above would say nothing about them."""
    step = DrivenPartitions(bound_feed(feed_policy(max_window_rows=30)), SECRET)
    step.send([row(number, number % 60, 0.5) for number in range(90)])
    step.finish()
    assert len(step.released) >= 3
