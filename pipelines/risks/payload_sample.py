"""What the payload of files tells, measured on rows of all over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from kanonflow.pipelines.feeds.csv_files import PLAIN
from kanonflow.pipelines.feeds.input_files import InputFile
from kanonflow.pipelines.feeds.read_files import Reading, read_batches
from kanonflow.pipelines.feeds.spread_sample import spread_sample
from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.risks.payload_risks import MOST_ROWS, PayloadRisks, payload_risks
from kanonflow.transforms.rows.classify import classify

FIRST_ROWS = 50_000
"""That are looked at first; ``MOST_ROWS`` where these leave a doubt."""
_RUNS = 16
"""Of rows that follow each other: what they tell of each other, only neighbours do."""
_SEED = 1


def measured_files(
    files: Sequence[InputFile], bound: BoundPolicy, form: CsvForm = PLAIN, reading: Reading = read_batches
) -> tuple[pa.Table, PayloadRisks]:
    """The rows that were measured, and what they tell. Deterministic. Raises InputError: a file is damaged."""
    rows, unseen = _sampled(files, bound, form, FIRST_ROWS, reading)
    risks = payload_risks(rows, bound)
    if not risks.beyond_doubt:
        more, unseen = _sampled(files, bound, form, MOST_ROWS, reading)
        if more.num_rows > rows.num_rows:
            rows, risks = more, payload_risks(more, bound)
    return rows, replace(risks, unseen=unseen)


def read_sample(
    files: Sequence[InputFile],
    bound: BoundPolicy,
    form: CsvForm = PLAIN,
    most: int = MOST_ROWS,
    reading: Reading = read_batches,
) -> pa.Table:
    """Canonical rows, in the order of the files: all of them, or about ``most``, in runs spread over the files.

    Rows that the policy rejects, or lets through with quasi-identifiers at fault, are left out. Raises InputError: a
    file is damaged.
    """
    return _sampled(files, bound, form, most, reading)[0]


def _sampled(
    files: Sequence[InputFile], bound: BoundPolicy, form: CsvForm, most: int, reading: Reading
) -> tuple[pa.Table, str]:
    """The rows, and which parts of the files none of them can be from, in words."""
    tables = [bound.canonical_schema.empty_table()]
    samples = spread_sample(
        files, bound.input_columns, form, most=most, seed=_SEED, reading=reading, runs=_RUNS
    )
    for sample in samples:
        rows = classify(sample.rows, bound, source=sample.file.name).rows
        if FAULT_COLUMN in rows.schema.names:
            rows = rows.filter(rows.column(FAULT_COLUMN).is_null())
        tables.append(rows)
    few = f" of {len(samples)} of {len(files):,} files" if len(samples) < len(files) else ""
    front = ", ".join(sample.file.name for sample in samples if sample.front)
    unseen = few + (f"; of {front} the beginning only, for it cannot be read at offsets" if front else "")
    return pa.concat_tables(tables).combine_chunks(), unseen
