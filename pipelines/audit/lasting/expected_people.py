"""Whom a policy's file of people names, by the audit's own reading, as codes of the input's fields.

A run keeps them in restricted/cohorts/PARTITION/expected.state (``carried_state``); this is what they are held against.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.audit.read.read_input import InputColumns, find_input, text_chunks, typed_chunks
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.schemas.bound_policy import BoundPolicy, bind_columns
from kanonflow.schemas.canonical_columns import read_column
from kanonflow.schemas.errors import InputError, PolicyError
from kanonflow.schemas.text_form import with_delimiter


def read_named(policy_file: Path, bound: BoundPolicy, books: Sequence[CodeBook]) -> np.ndarray | None:
    """Codes int32 (p, c) of the people, one a row; -1 in fields that the file need not have. None: there is no file.

    policy_file: beside which it is. books: of all kept fields, in the bound policy's order.
    Raises InputError: it cannot be read, or does not have the feed's fields and types; a run would not have begun.
    """
    policy = bound.policy
    if policy.people is None:
        return None
    path = policy_file.parent / policy.people
    try:
        columns = find_input([str(path)], with_delimiter(policy.csv, None))
    except InputError as error:
        why = str(error).replace("--input ", "")
        raise InputError(
            f"people: {why}; the audit reads the file as the run did: keep it with the input"
        ) from None
    wanted = (policy.cohorts.individual.name, *policy.partition_by, *(field.name for field in policy.quasis))
    fields = [policy.field(name) for name in dict.fromkeys(wanted) if name in columns.schema.names]
    try:
        own = bind_columns(fields, columns.schema, policy.csv if columns.text else None, text=columns.text)
    except PolicyError as error:
        raise InputError(f"people: {path}: {'; '.join(error.mistakes)}") from None
    if len(own) < len(set(wanted)) or any(
        each.arrow_type != bound.column(each.name).arrow_type for each in own
    ):
        raise InputError(f"people: {path}: other columns or types than a run with this policy takes")
    parts = []
    for chunk in _chunks(columns, [each.name for each in own]):
        codes = np.full((len(chunk[0]), len(books)), -1, np.int32)
        for column, cells in zip(own, chunk, strict=True):
            place = bound.place(column.name)
            codes[:, place] = books[place].codes_of_canonical(read_column(column, cells, None)[0])
        parts.append(codes)
    return np.concatenate([np.zeros((0, len(books)), np.int32), *parts])


def _chunks(columns: InputColumns, names: list[str]) -> list[list[pa.Array]]:
    (path,) = columns.files
    if not columns.text:
        return [list(chunk) for chunk in typed_chunks(path, columns, names)]
    return [cells for cells, _ in text_chunks(path, names, columns)]
