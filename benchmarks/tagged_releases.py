"""Releases of a data set that publish the number of each row, which tells what is behind it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data_sets import DataSet, data_path
from kanonflow.pipelines.analysis.released_fields import Kind
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.feeds.input_files import find_inputs, input_schema
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_fields import Field, Role
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.secret.seeds import Secret

TAG = "row_number"


class Tagged(NamedTuple):
    """read: a release. truth: the canonical row behind each of its rows. names: published name -> column of these."""

    read: ReleasedTable
    truth: pa.Table
    names: dict[str, str]


def tagged_release(data: DataSet, policy: Policy, rows: int, seed: int) -> Tagged:
    """Of the first rows of a data set under a tagged policy."""
    bound, table = input_table(data_path(data), policy, rows)
    canonical = classify(table.select(list(bound.input_columns)), bound).rows
    made = anonymize_table(table, policy, Secret(bytes([seed]) * 32), text=True, threads=1).released
    names = {column.published_name: column.name for column in bound.columns}
    return Tagged(ReleasedTable.of(made, bound), behind(canonical, made), names)


def behind(rows: pa.Table, released: pa.Table) -> pa.Table:
    """The rows behind those of a release, by their numbers."""
    numbers = np.asarray(rows.column(TAG))
    order = np.argsort(numbers, kind="stable")
    places = np.searchsorted(numbers[order], np.asarray(released.column(TAG)))
    return rows.take(pa.array(order[places]))


def tagged(policy: Policy) -> Policy:
    """The policy with the number of each row among what is published as it is; long, so that it is told exactly."""
    return replace(policy, fields=(*policy.fields, Field(TAG, Role.INSENSITIVE, "long")))


def input_table(path: Path, policy: Policy, rows: int | None) -> tuple[BoundPolicy, pa.Table]:
    """The rows of a file as text, with their numbers, and the policy as bound to them."""
    (file,) = find_inputs([str(path)])
    schema = input_schema([file])
    columns = [
        field.name for field in policy.fields if field.role is not Role.IDENTIFIER and field.name != TAG
    ]
    table = pa.concat_tables(from_ipc(batch.ipc) for batch in read_batches(file, columns))
    table = table.slice(0, rows).append_column(
        TAG, pa.array(map(str, range(min(rows or 10**9, table.num_rows))))
    )
    table = table.select([*columns, TAG])
    for field in policy.fields:
        if field.role is Role.IDENTIFIER:
            table = table.append_column(field.name, pa.nulls(table.num_rows, pa.string()))
    return bind(policy, table.schema, text=schema.text, source=path.name), table


def naive(released: ReleasedTable) -> ReleasedTable:
    """The release as somebody reads it who takes the middle of a range and the first member of a set."""
    table = released.arrow()
    for field in released.fields:
        array = table.column(field.name).combine_chunks()
        if field.kind is Kind.RANGE:
            middle = released.flat("mid").column(field.name).combine_chunks()
            if pa.types.is_integer(field.value):
                middle = pc.floor(middle)
            middle = middle.cast(field.value)
            array = pa.StructArray.from_arrays([middle, middle, middle.is_null()], fields=list(array.type))
        elif field.kind is Kind.SET:
            first = pc.list_element(array, 0)
            array = pa.ListArray.from_arrays(pa.array(np.arange(len(first) + 1), pa.int32()), first).cast(
                array.type
            )
        table = table.set_column(table.schema.get_field_index(field.name), field.name, array)
    return ReleasedTable(table, released.form)
