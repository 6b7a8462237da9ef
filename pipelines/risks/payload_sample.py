"""The rows of files that payload risks are measured on."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from kanonflow.pipelines.feeds.csv_files import PLAIN
from kanonflow.pipelines.feeds.input_files import InputFile
from kanonflow.pipelines.feeds.read_files import Reading, read_batches
from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.risks.payload_risks import MOST_ROWS
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import from_ipc


def read_sample(
    files: Sequence[InputFile],
    bound: BoundPolicy,
    form: CsvForm = PLAIN,
    most: int = MOST_ROWS,
    reading: Reading = read_batches,
) -> pa.Table:
    """Canonical rows, in the order of the files: the first ``most / files`` of each file.

    Rows that the policy rejects, or lets through with quasi-identifiers at fault, are left out. Raises InputError: a
    file is damaged.
    """
    tables = [bound.canonical_schema.empty_table()]
    share = -(-most // len(files))
    for file in files:
        wanted = share
        for batch in reading(file, bound.input_columns, form, bound.attributes):
            rows = classify(from_ipc(batch.ipc), bound, source=file.name).rows
            if FAULT_COLUMN in rows.schema.names:
                rows = rows.filter(rows.column(FAULT_COLUMN).is_null())
            tables.append(rows.slice(0, wanted))
            wanted -= rows.num_rows
            if wanted <= 0:
                break
    return pa.concat_tables(tables).combine_chunks()
