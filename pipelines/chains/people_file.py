"""``people:`` of a policy: a file of people who are known from the start, read and judged before a run writes anything.

read_people(bound, policy_file) -> PeopleFile      all mistakes at once, never a person's values
write_expected(output, states)                          OUT/restricted/cohorts/PARTITION/expected.state
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from kanonflow.pipelines.feeds.input_files import InputFile, find_inputs, input_schema
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.pipelines.feeds.stored_files import scheme_of
from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy, bind_columns
from kanonflow.schemas.errors import InputError, PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.text_form import with_delimiter
from kanonflow.transforms.files.create_if_absent import create_if_absent, make_directory
from kanonflow.transforms.lineage.committed_rosters import EXPECTED, cohorts_directory, partition_cohorts
from kanonflow.transforms.rows.classify import kept_values, one_array
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.windows.chain import CarriedState
from kanonflow.transforms.windows.expected_people import expected_columns

KEY = "people_file"
"""In run.json: what the file held."""


@dataclass(frozen=True)
class PeopleFile:
    """path: where it is. record: its name, size and content, as an input's. rows: one a person, canonical values of
    ``expected_columns``."""

    path: str
    record: Mapping[str, Any]
    rows: pa.Table

    @property
    def note(self) -> str:
        """For the terminal."""
        return f"People known from the start, of {self.path}: {self.rows.num_rows:,}."


def people_location(policy: Policy, policy_file: str) -> str:
    """Where the file is that a policy names: beside the policy's own, unless it says a whole path."""
    named = policy.people or ""
    if scheme_of(named) is not None or os.path.isabs(named):
        return named
    if scheme_of(policy_file) is not None:
        return FileSystems.join(FileSystems.split(policy_file)[0], named)
    return os.path.join(os.path.dirname(policy_file), named)


def read_people(
    bound: BoundPolicy, policy_file: str, recorded: Callable[[InputFile], Mapping[str, Any]] = lambda file: {}
) -> PeopleFile | None:
    """The people that a policy's file names; None: it names no file.

    bound: the policy, bound to its feed, whose types the file's must become. recorded: what a run keeps of the file.
    Columns that the policy has no use for here are not read.
    Raises InputError with all mistakes of columns, or else of rows, by field: none is left out in silence, for the
    promise counts them.
    """
    if bound.policy.people is None:
        return None
    path = people_location(bound.policy, policy_file)
    try:
        (file,) = find_inputs([path])
        record = recorded(file)
        form = with_delimiter(bound.policy.csv, None)
        schema = input_schema([file], form)
    except (InputError, ValueError) as error:
        raise InputError(f"people: {str(error).replace('--input ', '')}") from None
    columns = _bound_columns(bound, schema.columns, file.path, text=schema.text, csv=schema.csv)
    names = [column.name for column in columns]
    faults: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], int] = {}
    tables, before = [], 0
    for batch in read_batches(file, names, form):
        if batch.broken:
            faults["the file", "unparseable"] += len(batch.broken)
        rows = from_ipc(batch.ipc)
        if rows.num_rows:
            tables.append(_cast(rows, columns, file.path, faults, first, before))
            before += rows.num_rows
    if faults:
        raise InputError(_faulty(file.path, faults, first))
    if not tables:
        raise InputError(f"people: {file.path}: names nobody; write one row a person, or leave people out")
    return PeopleFile(file.path, record, pa.concat_tables(tables).combine_chunks())


def write_expected(output: str, states: Mapping[bytes, CarriedState]) -> None:
    """Lay them beside the cohorts of their partitions, in the place of what a run left that came no further."""
    pattern = FileSystems.join(cohorts_directory(output), "*", EXPECTED)
    if before := [each.path for each in FileSystems.match([pattern])[0].metadata_list]:
        FileSystems.delete(before)
    for key, state in states.items():
        folder = partition_cohorts(output, key)
        make_directory(folder, private=True)
        create_if_absent(FileSystems.join(folder, EXPECTED), state.to_bytes(), private=True)


def _bound_columns(
    bound: BoundPolicy, schema: pa.Schema, path: str, *, text: bool, csv: bool
) -> tuple[BoundColumn, ...]:
    wanted = expected_columns(bound)
    missing = [column.name for column in wanted if column.name not in schema.names]
    mistakes = [f"has no column {', '.join(missing)}"] if missing else []
    fields = [column.field for column in wanted if column.name in schema.names]
    try:
        columns = bind_columns(fields, schema, bound.policy.csv if csv else None, text=text)
    except PolicyError as error:
        columns, mistakes = (), mistakes + list(error.mistakes)
    mistakes += [
        f"{own.name}: is {own.arrow_type} here and {bound.column(own.name).arrow_type} in the feed; write it as there"
        for own in columns
        if own.arrow_type != bound.column(own.name).arrow_type
    ]
    if mistakes:
        raise InputError(f"people: {path}: {'; '.join(mistakes)}")
    return columns


def _cast(
    rows: pa.Table,
    columns: tuple[BoundColumn, ...],
    path: str,
    faults: Counter[tuple[str, str]],
    first: dict[tuple[str, str], int],
    before: int,
) -> pa.Table:
    """The canonical values; what is wrong is counted by field and reason. before: rows of the file that came before."""
    values: dict[str, Any] = {}
    for column in columns:
        raw = one_array(rows.column(column.name))
        cast, problems = kept_values(column, raw, path)
        for mask, reason in problems:
            faults[column.name, reason] += int(mask.sum())
            first.setdefault((column.name, reason), before + int(np.argmax(mask)) + 1)
        values[column.name] = cast
    return pa.table(values)


def _faulty(path: str, faults: Counter[tuple[str, str]], first: Mapping[tuple[str, str], int]) -> str:
    told = []
    for (field, reason), count in sorted(faults.items()):
        at = f", the first in row {first[field, reason]}" if (field, reason) in first else ""
        told.append(f"{field}: {reason} in {count:,} rows{at}")
    return (
        f"people: {path}: {'; '.join(told)}. Everybody in it is promised to be one of k, so nobody is left out: mend"
        " the file (rows are counted without the header)"
    )
