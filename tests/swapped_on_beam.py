"""The generated feeds of ``swapped_feeds`` from messages to releases, through ``KAnonymize`` on a runner.

A bounded run has all rows of a window before it closes, so feeds are taken without late rows here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import apache_beam as beam
from apache_beam.testing.util import assert_that

from kanonflow.pipelines.feeds.message_values import JsonValues
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.rows.elements import RawBatch, RejectedRows, Release, to_ipc
from tests.small_feeds import SECRET
from tests.swapped_feeds import EPOCH, Course, TrailFeed, groups_of, metrics_shown, rejected_shown

BATCH = 40


def in_time(feed: TrailFeed) -> TrailFeed:
    """The feed with every row there when its window closes."""
    return replace(feed, rows=tuple(row._replace(arrives=row.hour) for row in feed.rows))


def shows(feed: TrailFeed, course: Course, without: frozenset[str]) -> None:
    """The feed on FnApiRunner shows what the course shows. Raises BeamAssertException where it does not.

    without: metrics to leave out.
    """
    results = [result for _, _, result in course.results]
    rejected = [record for result in results for record in result.rejected]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        transform = KAnonymize(feed.policy, SECRET, epoch=EPOCH, threads=1)
        out = pipeline | beam.Create(_messages(feed, transform)) | transform
        assert_that(
            out.released | "Released" >> beam.Map(_release_shown),
            _same(_release_shown(result.release) for result in results if result.release is not None),
            label="releases",
        )
        assert_that(
            out.metrics | "Told" >> beam.Map(lambda record: repr(metrics_shown(record, without))),
            _same(repr(metrics_shown(result.metrics, without)) for result in results),
            label="metrics",
        )
        assert_that(
            out.rejected | "Refused" >> beam.FlatMap(_records_shown),
            _same([*map(repr, course.refused), *(repr(rejected_shown(record)) for record in rejected)]),
            label="rejected",
        )


def _messages(feed: TrailFeed, transform: KAnonymize) -> list[RawBatch]:
    """All rows as JSON messages, decoded as those of a topic are."""
    steps = range(max(row.arrives for row in feed.rows) + 1)
    values = [json.dumps(record).encode() for step in steps for record in feed.records(step)]
    decoder = JsonValues(transform.bound.input_columns, transform.bound.attributes)
    batches = []
    for first in range(0, len(values), BATCH):
        found = decoder.decode(values[first : first + BATCH])
        assert not found.broken
        batches.append(RawBatch(f"batch {first}", to_ipc(found.rows), ()))
    return batches


def _release_shown(release: Release) -> str:
    place = (release.window_start, release.window_end, release.slot and release.slot.roster)
    return repr((place, groups_of(release), release.entered, release.groups))


def _records_shown(rows: RejectedRows) -> list[str]:
    return [repr(rejected_shown(record)) for record in rows.records]


def _same(expected: Iterable[str]) -> Callable[[Iterable[Any]], None]:
    wanted = sorted(expected)

    def check(found: Iterable[Any]) -> None:
        got = sorted(found)
        if got != wanted:
            differing = next((pair for pair in zip(got, wanted, strict=False) if pair[0] != pair[1]), None)
            raise AssertionError(f"{len(got)} elements where {len(wanted)} are expected; first: {differing}")

    return check
