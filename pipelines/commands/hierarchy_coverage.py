"""Which values of an input have no place in the hierarchies of a policy."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from kanonflow.pipelines.feeds.csv_files import PLAIN
from kanonflow.pipelines.feeds.input_files import InputFile
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.canonical_columns import read_column
from kanonflow.schemas.text_form import CsvForm
from kanonflow.schemas.text_values import render_text
from kanonflow.schemas.tree import missing
from kanonflow.transforms.rows.classify import one_array
from kanonflow.transforms.rows.elements import from_ipc


def values_without_leaf(files: Sequence[InputFile], bound: BoundPolicy, form: CsvForm = PLAIN) -> list[str]:
    """A line for each field whose hierarchy lacks values of the files, in counts only: those rows will be rejected.

    Reads the whole input, and only the fields with a hierarchy. Raises InputError: a file is damaged.
    """
    columns = [column for column in bound.quasis if column.tree is not None]
    lacking: dict[str, list[pa.Array]] = {column.name: [] for column in columns}
    for file in files if columns else ():
        for batch in read_batches(file, [column.name for column in columns], form):
            rows = from_ipc(batch.ipc)
            for column in columns:
                raw = one_array(rows.column(rows.schema.names.index(column.name)))
                values = read_column(column, raw, file.name)[0]
                lacking[column.name].append(render_text(values.filter(pa.array(column.unlisted(values)))))
    lines = []
    for column in columns:
        assert column.tree is not None
        found = missing(column.tree, pa.concat_arrays([*lacking[column.name], pa.array([], pa.string())]))
        if found is not None:
            lines.append(f"{column.name}: {found}; as it is, those rows will be rejected (outside_domain)")
    return lines
