"""Some of the rows of releases, evenly spread over their files and in each of them. Only ``release/`` is read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from kanonflow.pipelines.analysis.release_formats import damaged, reader_of
from kanonflow.pipelines.analysis.released_fields import ReleaseForm, release_form
from kanonflow.pipelines.analysis.released_files import release_paths, release_schema, rows_of_release
from kanonflow.pipelines.analysis.released_table import ReleasedTable

SAMPLE = 5_000
"""Rows that are read, about; of Avro at least one block of each of the files it takes."""


class ReleasedSample:
    """form: of the releases; None: there are none. rows: as the files have them. files: read; all_files: there are.
    share: of the rows of the files that were read."""

    def __init__(
        self,
        form: ReleaseForm | None,
        rows: Sequence[Mapping[str, Any]],
        files: int,
        all_files: int,
        share: float = 1.0,
    ) -> None:
        self.form, self.rows, self.files, self.all_files, self.share = form, rows, files, all_files, share

    @cached_property
    def table(self) -> ReleasedTable | None:
        """The rows to be asked; None where there are none, or they are no rows of one form."""
        if self.form is None or not self.rows:
            return None
        try:
            table = pa.Table.from_pylist(list(self.rows), schema=self.form.arrow)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):  # of several forms, or junk
            return None
        return ReleasedTable(table, self.form)


def released_sample(release: Path, sample: int = SAMPLE) -> ReleasedSample:
    """Rows of the releases in a folder. Deterministic.

    sample: rows to read, about. Raises InputError: a file is damaged, or no release.
    """
    paths = release_paths(release)
    form = None
    rows: list[Mapping[str, Any]] = []
    read = there = 0
    for path in _spread(paths, sample):
        schema, sampled = _sampled(path, max(1, sample - len(rows)))
        form = form or release_form(schema)
        rows += sampled
        read += 1
        there += rows_of_release(path)
        if len(rows) >= sample:
            break
    return ReleasedSample(form, rows, read, len(paths), len(rows) / max(there, 1))


def _spread(paths: Sequence[Path], sample: int) -> Iterator[Path]:
    """Some of the files, evenly over all of them: as many as have ``sample`` rows if they are like the first."""
    if not paths:
        return
    first = rows_of_release(paths[0])
    wanted = min(len(paths), max(1, math.ceil(sample / max(first, 1))))
    for number in range(wanted):
        yield paths[number * len(paths) // wanted]


def _sampled(path: Path, most: int) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """The schema of a file and some of its rows."""
    schema = release_schema(path)
    try:
        with path.open("rb") as stream:
            return (schema if isinstance(schema, dict) else {}), reader_of(path).some(stream, most)
    except Exception as error:  # whatever the decoder trips over, the file is damaged
        raise damaged(path, error) from None
