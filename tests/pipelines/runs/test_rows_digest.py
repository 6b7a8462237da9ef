"""What the rows of a file say is one number, however the file is taken apart on the way to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.fit.bound_input import bind_input
from kanonflow.pipelines.runs import rows_digest
from kanonflow.pipelines.runs.input_content import input_contents
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.rows.classify import one_array
from kanonflow.transforms.rows.elements import from_ipc

FIELDS = {
    "age": {"role": "quasi", "type": "numeric", "as": "int"},
    "town": {"role": "quasi", "type": "categorical"},
    "amount": {"role": "sensitive", "as": "double"},
}


def test_a_value_is_read_once_and_every_cell_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of any size give what cells give one by one; nulls, spellings of a number and bad values among them."""
    policy = parse_policy({"version": 1, "k": 2, "fields": FIELDS}, "test", "test")
    path = tmp_path / "feed.csv"
    lines = [
        f"{['7', '007', '', 'x'][n % 4]},{['Bonn', 'Köln', ''][n % 3]},{n % 5}.{n % 2}0" for n in range(300)
    ]
    path.write_text("\n".join(["age,town,amount", *lines]) + "\n")
    files, _, bound, csv = bind_input(policy, [str(path)], None, None)
    contents = input_contents(files)
    (whole,) = rows_digest.with_rows(contents, bound, csv)
    tables = [from_ipc(batch.ipc) for batch in rows_digest.read_batches(files[0], bound.input_columns, csv)]
    table = pa.concat_tables(tables)
    total = 0
    for place in range(table.num_rows):
        row = np.zeros(1, np.uint64)
        for column in bound.columns:
            row += rows_digest._cells(column, one_array(table.column(column.name).slice(place, 1)))
        total += int(rows_digest._mixed(row)[0])
    assert whole.rows == f"300:{total % (1 << 64):016x}"
    sizes: list[int] = []
    read = rows_digest.read_column
    monkeypatch.setattr(
        rows_digest,
        "read_column",
        lambda column, raw, form: sizes.append(len(raw)) or read(column, raw, form),
    )
    assert rows_digest.with_rows(contents, bound, csv) == (whole,)
    assert sorted(sizes) == [3, 4, 10]
    monkeypatch.setattr(rows_digest, "_PIECE_ROWS", 1)
    assert rows_digest.with_rows(contents, bound, csv) == (whole,)
