"""A topic that is read again is cut into other batches: a rejected row is counted once all the same."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest

from kanonflow.pipelines.audit.read.read_input import read_rejected
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.pipelines.runs.stream import summarize_stream
from kanonflow.transforms.anonymize import _ClassifyAndSplit
from kanonflow.transforms.files.output_directories import make_output_directories
from kanonflow.transforms.rows.element_rows import rows_to_table
from kanonflow.transforms.rows.elements import RawBatch, RejectedRows, to_ipc
from kanonflow.transforms.rows.row_places import RowPlaces, places_from_bytes, places_of
from kanonflow.transforms.sinks.gather_rejected import encode_part, gathered, with_part
from kanonflow.transforms.sinks.sinks import WriteRejected
from kanonflow.transforms.windows.solve_windows import REJECTED_TAG
from tests.driven_partitions import Cells, DrivenPartitions
from tests.runners import bounded_pipeline
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, feed_policy, row

POLICY = feed_policy(max_delay="1h")
BOUND = bound_feed(POLICY)
OFFSETS = range(100, 112)
"""What rows 0 to 11 of the topic's partition have."""
LATE = (5, 7, 8, 11)
BROKEN = (2, 4, 7)


def message(number: int) -> Row:
    """Rows of hour 5, and some of hour 0; some without a number where an age belongs."""
    values = row(number, number, 0.5 if number in LATE else 5.5)
    return values | ({"age": "old"} if number in BROKEN else {})


def polls(cuts: Sequence[int], topic: bool = True) -> Iterator[RawBatch]:
    """The rows, cut where ``cuts`` say: of a topic by the poll, of a file where they always are."""
    borders = [0, *cuts, len(OFFSETS)]
    for at, (first, last) in enumerate(pairwise(borders)):
        table = to_ipc(rows_to_table([message(number) for number in range(first, last)], BOUND).table)
        numbers = np.array(OFFSETS[first:last], "<i8").tobytes()
        place = ("topic/3", numbers) if topic else ("", b"")
        yield RawBatch(f"kafka-topic-3-{OFFSETS[first]}" if topic else f"file-{at}", table, (), b"", *place)


def read(batches: Iterator[RawBatch], refused: Sequence[Row] = ()) -> list[RejectedRows]:
    """What is rejected of the batches by a job whose partition has released hour 4 already, and refused such rows."""
    step = DrivenPartitions(BOUND, SECRET)
    step.send([row(1000 + number, number, 4.5) for number in range(4)])
    step.advance(START + 5 * HOUR)
    for each in refused:
        step.send([each])
    classify = _ClassifyAndSplit(BOUND, SECRET)
    classify.setup()
    found = []
    for batch in batches:
        for output in classify.process(batch):
            if getattr(output, "tag", None) == REJECTED_TAG:
                found.append(output.value)
                continue
            key, element = output
            cells = step.cells.setdefault(key, Cells())
            told = step.step.process((key, element), *cells.given())
            found += [each.value for each in told]
    return found


def write(output: Path, rejected: Sequence[RejectedRows]) -> None:
    """As a stream does."""
    with bounded_pipeline() as pipeline:
        files = list(gathered([encode_part(with_part(each)) for each in rejected]))
        _ = pipeline | beam.Create(files) | WriteRejected(str(output))


OTHERS = [row(2000, 2, 0.2), row(2001, 3, 1.9)]


@pytest.mark.parametrize("topic", [True, False])
def test_rows_that_come_again_in_other_batches_count_once(tmp_path: Path, topic: bool) -> None:
    """Rejected before their window and late for it, by a job and again by one that goes on from an older state, where
    the partition has refused other rows before: the rows are the same to the summary and to the audit. A file's
    batches are always cut alike."""
    make_output_directories(str(tmp_path), POLICY)
    truth = {"bad_value": len(BROKEN), "late": len(set(LATE) - set(BROKEN))}
    for cuts, refused in (((4, 8), ()), ((1, 2, 6, 9) if topic else (4, 8), OTHERS)):
        write(tmp_path, read(polls(cuts, topic), refused))
    assert summarize_stream(str(tmp_path)).rejected == truth
    books = tuple(CodeBook(column) for column in BOUND.columns)
    audited = read_rejected(tmp_path / "restricted/rejected", BOUND, books)
    assert sorted(audited.reasons) == sorted(reason for reason, rows in truth.items() for _ in range(rows))


def test_the_same_rows_in_other_batches_are_the_same_file(tmp_path: Path) -> None:
    """When one gathering holds all of them both times: name and rows follow from places alone."""
    once, again = (
        [*gathered([encode_part(with_part(each)) for each in read(polls(cuts))])]
        for cuts in ((4, 8), (1, 2, 6, 9))
    )
    assert once == again
    (file,) = once
    assert [record["source"] for record in file.records] == [
        f"topic/3/{OFFSETS[number]}" for number in sorted({*LATE, *BROKEN})
    ]


def test_equal_rows_at_two_places_are_two(tmp_path: Path) -> None:
    """A producer that sends a row twice has both of them rejected."""
    make_output_directories(str(tmp_path), POLICY)
    same = to_ipc(rows_to_table([message(2), message(2)], BOUND).table)
    batch = RawBatch("b", same, (), b"", "topic/0", np.array([7, 8], "<i8").tobytes())
    write(tmp_path, read(iter([batch, batch])))
    assert summarize_stream(str(tmp_path)).rejected == {"bad_value": 2}


def test_places_travel_with_their_rows() -> None:
    """Through bytes and back; rows from memory have none."""
    places = RowPlaces("tópic/0", np.array([5, 9, 1 << 40]))
    found: Any = places_from_bytes(places.to_bytes())
    assert (found.origin, found.numbers.tolist()) == ("tópic/0", [5, 9, 1 << 40])
    assert found.of_rows(np.array([False, True, True])).of(1) == f"tópic/0/{1 << 40}"
    assert places_from_bytes(b"") is None
    assert places_of(RawBatch("", b""), 3) is None
    place = places_of(RawBatch("file", b""), 3).of(2)  # type: ignore[union-attr]
    assert place.startswith("file/")
    assert place.endswith("/2")


def test_files_of_one_name_are_two() -> None:
    """Names that are no text can look alike, and a name can come again: other rows are at other places."""
    first, second = (
        RawBatch("file-0", to_ipc(rows_to_table([row(number, number, 0.5)], BOUND).table), ())
        for number in (1, 2)
    )
    places = [places_of(batch, 1) for batch in (first, second, first)]
    assert all(place is not None for place in places)
    told = [place.of(0) for place in places if place is not None]
    assert told[0] == told[2] != told[1]
