"""Who is in an input, before it is run: one pass over the column of the individual, against digests of who is known.

Of files all rows are read; of a feed that goes on those that are there now, up to SAMPLE_ROWS of them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.pipelines.chains.continuing_input import ContinuingInput
from kanonflow.pipelines.chains.other_spellings import MOST_TRIED, known_otherwise
from kanonflow.pipelines.chains.people_found import PeopleFound
from kanonflow.pipelines.feeds.directory_listing import list_arrived
from kanonflow.pipelines.feeds.input_files import InputFile, format_of
from kanonflow.pipelines.feeds.polled_source import CHUNK_ROWS, PolledSource
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.pipelines.options.options import RunOptions
from kanonflow.pipelines.runs.input_content import input_contents
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.canonical_columns import read_column
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.text_form import CsvForm
from kanonflow.schemas.text_values import render_text
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.rows.classify import one_array
from kanonflow.transforms.rows.elements import from_ipc

SAMPLE_ROWS = 200_000
"""Rows of a feed that goes on by which its people are judged before it begins."""

SAMPLE_SECONDS = 20.0
"""How long a feed is read for that at most."""


def continuing_files(files: Sequence[InputFile], bound: BoundPolicy, csv: CsvForm) -> ContinuingInput:
    """What ``--continue`` asks of files; what the user says of them is still to be added."""
    by_name = {file.name: file for file in files}

    def has_rows(name: str) -> bool:
        batches = read_batches(by_name[name], bound.input_columns, csv)
        return any(from_ipc(batch.ipc).num_rows for batch in batches)

    def people(known: NDArray[np.uint64], key: bytes, begins: str) -> PeopleFound:
        return people_among(_ids_of_files(files, bound, csv), bound, known, key)

    return ContinuingInput(people, has_rows)


def continuing_feed(
    source: PolledSource,
    bound: BoundPolicy,
    csv: CsvForm,
    directory: str | None = None,
    going_on: Callable[[str], bytes] = lambda ended: ended.encode(),
    clock: Callable[[], float] = time.monotonic,
) -> ContinuingInput:
    """What ``--continue`` asks of a feed that goes on.

    directory: that its files arrive in; None: it is no such. going_on: where it begins behind a stream that ended
    somewhere.

    Nothing is taken from the feed by looking at it: the job reads these rows again, as its own.
    """
    files = () if directory is None else _arrived(directory)

    def people(known: NDArray[np.uint64], key: bytes, begins: str) -> PeopleFound:
        return people_among(
            _ids_of_feed(source, bound, going_on(begins), clock), bound, known, key, part=True
        )

    asked = continuing_files(files, bound, csv)
    return replace(asked, people=people, arrived=lambda: [each.record() for each in input_contents(files)])


def as_told(asked: ContinuingInput, options: RunOptions) -> ContinuingInput:
    """With what the command line says."""
    return replace(asked, individual_type=options.individual_type, people_changed=options.people_changed)


def people_among(
    columns: Iterable[pa.Array],
    bound: BoundPolicy,
    known: NDArray[np.uint64],
    key: bytes,
    *,
    part: bool = False,
) -> PeopleFound:
    """Who of an input is known. columns: of the individual, as they came. known: digests, sorted. key: theirs.

    Cells that are no id are nobody's. Ids that nobody knows are tried in other spellings, where they are text.
    O(rows + people log people).
    """
    column = bound.column(bound.policy.cohorts.individual.name)
    seen = np.empty(0, dtype=np.uint64)
    unknown: list[str] = []
    for raw in columns:
        values, _ = read_column(column, raw, None)
        names = render_text(pc.unique(values).drop_null()).to_pylist()
        digests = person_digests(names, key)
        if column.values.text and len(unknown) < MOST_TRIED:
            fresh = ~np.isin(digests, seen) & ~np.isin(digests, known)
            unknown += [names[place] for place in np.flatnonzero(fresh)]
        seen = np.union1d(seen, digests)
    here = int(np.isin(seen, known).sum())
    tried = unknown[:MOST_TRIED]
    otherwise = known_otherwise(tried, known, key)
    return PeopleFound(known.size, here, seen.size - here, dict(otherwise), len(tried), part)


def _individual(bound: BoundPolicy) -> tuple[str, ...]:
    return (bound.policy.cohorts.individual.name,)


def _ids_of_files(files: Sequence[InputFile], bound: BoundPolicy, csv: CsvForm) -> Iterator[pa.Array]:
    for file in files:
        for batch in read_batches(file, _individual(bound), csv):
            yield one_array(from_ipc(batch.ipc).column(0))


def _arrived(directory: str) -> tuple[InputFile, ...]:
    """The files there that can be read; others are data of the feed (``arriving_files``)."""
    found = []
    for arrived in list_arrived(directory, "*").files:
        with contextlib.suppress(InputError):
            found.append(InputFile(arrived.path, arrived.name, arrived.size, format_of(arrived.name)))
    return tuple(found)


def _ids_of_feed(
    source: PolledSource, bound: BoundPolicy, begin: bytes, clock: Callable[[], float]
) -> Iterator[pa.Array]:
    """Ends after two reads in a row that gave no rows: a topic's first one may only have found its partitions."""
    (name,) = _individual(bound)
    reader, at, rows, empty, until = source.open(), begin, 0, 0, clock() + SAMPLE_SECONDS
    try:
        while rows < SAMPLE_ROWS and empty < 2 and clock() < until:
            chunk = reader.read(at, CHUNK_ROWS)
            at = chunk.position
            tables = [from_ipc(batch.ipc) for _, batch in chunk.batches]
            yield from (one_array(table.column(name)) for table in tables if table.num_rows)
            rows += sum(table.num_rows for table in tables)
            empty = 0 if tables or chunk.more else empty + 1
            if chunk.done:
                return
    finally:
        reader.close()
