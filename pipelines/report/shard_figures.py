"""The shards of a run by a plan: who is in each, what came of its rows, and whether one has grown too large."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kanonflow.pipelines.pages.pages import Block, Paragraph
from kanonflow.pipelines.report.steps import Record, still_waiting
from kanonflow.pipelines.terminal.summary import mean_of
from kanonflow.pipelines.terminal.table import Table, count, decimal, rows_of

MOST_SHOWN = 100
KEY_SHOWN = 12
"""Hexadecimal digits of a key: ``--split`` takes the beginning of one."""
TOO_LARGE = 1.5
"""Even shares from which on a split is told of: one worker then has half as much again as the others."""


def shard_figures(metrics: Sequence[Record], people: Mapping[str, int]) -> Iterator[Block]:
    """people: in the cohorts of each shard, by key in hexadecimal; nothing without a plan, or without cohorts."""
    keys = sorted(
        {*people, *(record["partition"] for record in metrics)}, key=lambda key: -people.get(key, 0)
    )
    if not people:
        return
    largest, mean = people.get(keys[0], 0), sum(people.values()) / len(people)
    sentence = f"{len(keys):,} shards. The largest has {largest:,} people in cohorts, {largest / mean:.2f} even shares."
    if largest > TOO_LARGE * mean and len(people) > 1:
        sentence += (
            " kanonflow plan --continue DIR --split largest splits it for the run that continues this one."
        )
    yield Paragraph(sentence)
    own = {key: [record for record in metrics if record["partition"] == key] for key in keys[:MOST_SHOWN]}
    lines = rows_of(
        (
            key[:KEY_SHOWN],
            count(people.get(key, 0)),
            count(sum(record["rows_released"] for record in records)),
            count(sum(sum(record["rows_rejected"].values()) for record in records)),
            count(sum(still_waiting(records).values())),
            decimal(mean_of([record for record in records if record["released"]], "gcp")),
        )
        for key, records in own.items()
    )
    name = "Shards" if len(keys) <= MOST_SHOWN else f"The {MOST_SHOWN} largest shards"
    head = ("key", "people", "rows released", "rejected", "waiting", "mean loss")
    yield Table("shards", name, head, lines)
