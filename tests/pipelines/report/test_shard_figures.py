"""What a report tells of shards: who is in each, what came of its rows, and that one has grown too large."""

from __future__ import annotations

import random
from pathlib import Path

from kanonflow.pipelines.report.report import write_report
from kanonflow.pipelines.report.shard_figures import shard_figures
from tests.nightly import line, nights_of
from tests.page_reading import read_page
from tests.pipelines.report.told_runs import record
from tests.pipelines.runs.test_shards import PLANNED, entered, plan, write_people


def told(people: dict[str, int]) -> str:
    """The words before the table, of a shard a key with one release each."""
    metrics = [record("lasting", 1, random.Random(1), partition=key) for key in people]
    return repr(next(shard_figures(metrics, people)))


def test_a_shard_of_twice_its_share_is_told_of() -> None:
    """From one and a half on; not where all are even, nor where there is one."""
    assert "2.40 even shares. kanonflow plan --continue" in told({"aa": 800, "bb": 100, "cc": 100})
    assert "1.00 even shares.')" in told({"aa": 100, "bb": 100})
    assert "--continue" not in told({"aa": 800})


def test_the_page_of_a_run_by_a_plan_has_its_shards(tmp_path: Path) -> None:
    """People as the cohort files have them, rows as the releases; of a run without a plan nothing is said."""
    nights = nights_of(
        tmp_path / "place", [[line(who, 1, 60 * who % 1440, f"n{who}") for who in range(40)]], PLANNED
    )
    write_people(nights.place, range(40))
    assert plan(nights, 2) == 0
    assert nights.anonymize("1.csv", "out", "--plan", str(nights.place / "plan.json")) == 0
    page = read_page(Path(write_report(str(nights.place / "out"))[0]).read_text())
    rows = page.tables["shards"].rows
    members = {key[:12]: len(people) for key, people in entered(nights.place / "out").items()}
    assert {row[0]: int(row[1]) for row in rows} == members
    assert sum(int(row[2]) + int(row[3]) for row in rows) == 40
    assert nights.anonymize("1.csv", "whole") == 0
    assert "shards" not in read_page(Path(write_report(str(nights.place / "whole"))[0]).read_text()).tables
