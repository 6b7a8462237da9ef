"""Data frames are taken as they are: types, nulls, categories and times; what cannot be read is named, not shown."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from kanonflow.schemas.errors import InputError, PolicyError
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.one_table import AnonymizedTable, anonymize_table
from kanonflow.transforms.rows.data_frames import as_table
from tests.small_feeds import SECRET

ROWS = 12
POLICY = parse_policy(
    {
        "version": 1,
        "k": 3,
        "window": "1d",
        "cohort": "window",
        "solver": {"evaluations_per_row": 20, "threads": 1},
        "fields": {
            "when": {"role": "time"},
            "who": {"role": "individual"},
            "age": {"role": "quasi", "type": "numeric", "as": "int"},
            "job": {"role": "quasi", "type": "categorical"},
            "born": {"role": "quasi", "type": "date"},
            "amount": {"role": "sensitive"},
            "seen": {"role": "insensitive"},
        },
    },
    "frames",
    "test",
)
WHEN = [dt.datetime(2024, 3, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=n) for n in range(ROWS)]
SEEN = [None if n == 4 else moment for n, moment in enumerate(WHEN)]
AGES = [None if n == 2 else 20 + n for n in range(ROWS)]
JOBS = [None if n == 3 else ("cook", "nurse")[n % 2] for n in range(ROWS)]
BORN = [None if n == 5 else dt.date(1980, 1, 1 + n) for n in range(ROWS)]
AMOUNTS = [Decimal(n) / 4 for n in range(ROWS)]
WHO = [f"p{n}" for n in range(ROWS)]

ARROW = pa.table(
    {
        "when": pa.array(WHEN, pa.timestamp("us", "UTC")),
        "who": pa.array(WHO),
        "age": pa.array(AGES, pa.int64()),
        "job": pa.array(JOBS),
        "born": pa.array(BORN, pa.date32()),
        "amount": pa.array(AMOUNTS, pa.decimal128(8, 2)),
        "seen": pa.array(SEEN, pa.timestamp("us", "UTC")),
    }
)


def numpy_pandas() -> Any:
    """NaN for a missing number, NaT for a missing time, times of another zone, and an index with a name."""
    zoned = pd.Series(pd.to_datetime(SEEN, utc=True)).dt.tz_convert("Europe/Berlin")
    frame = pd.DataFrame(
        {
            "when": pd.to_datetime(WHEN, utc=True).tz_convert("Asia/Tokyo"),
            "who": WHO,
            "age": [np.nan if age is None else float(age) for age in AGES],
            "job": pd.Categorical(JOBS),
            "born": BORN,
            "amount": AMOUNTS,
            "seen": zoned,
        }
    )
    assert frame["age"].dtype == "float64"
    frame.index = pd.Index(range(100, 100 + ROWS), name="who")
    return frame


def nullable_pandas() -> Any:
    """pandas' own types with NA."""
    frame = numpy_pandas().reset_index(drop=True)
    frame["age"] = pd.array(AGES, dtype="Int64")
    frame["job"] = pd.array(JOBS, dtype="string")
    return frame


def arrow_pandas() -> Any:
    """Arrow's types inside pandas."""
    return ARROW.to_pandas(types_mapper=pd.ArrowDtype)


def polars_frame() -> Any:
    """With categories, and a zone."""
    frame = pl.DataFrame(pl.from_arrow(ARROW))
    return frame.with_columns(
        pl.col("job").cast(pl.Categorical), pl.col("when").dt.convert_time_zone("Asia/Tokyo")
    )


FRAMES: dict[str, Callable[[], Any]] = {
    "pandas with numpy's types": numpy_pandas,
    "pandas with NA": nullable_pandas,
    "pandas with Arrow's types": arrow_pandas,
    "polars": polars_frame,
    "a record batch": lambda: ARROW.combine_chunks().to_batches()[0],
    "an Arrow stream": lambda: pa.RecordBatchReader.from_batches(ARROW.schema, ARROW.to_batches()),
}


@pytest.fixture(scope="module")
def expected() -> AnonymizedTable:
    """What the Arrow table gives."""
    out = anonymize_table(ARROW, POLICY, SECRET)
    assert out.released.num_rows == ROWS
    return out


@pytest.mark.thorough
@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_gives_the_releases_of_its_arrow_table(kind: str, expected: AnonymizedTable) -> None:
    """Row for row and type for type: nulls stay nulls, a zone is only a way to write an instant."""
    out = anonymize_table(FRAMES[kind](), POLICY, SECRET)
    assert out.rejected == expected.rejected == []
    assert _values(out) == _values(expected)
    assert [field.name for field in out.released.schema] == [field.name for field in expected.released.schema]
    for field in out.released.schema:
        same = field.type == expected.released.schema.field(field.name).type
        # pandas and polars tell another number of digits for decimals.
        assert same or pa.types.is_decimal(field.type), field


def _values(out: AnonymizedTable) -> list[Any]:
    rows = [
        {name: value for name, value in row.items() if name != "release_id"}
        for row in out.released.to_pylist()
    ]
    return (
        sorted(rows, key=repr) if rows[0]["amount"] is None else sorted(rows, key=lambda row: row["amount"])
    )


def test_types_and_nulls_are_kept() -> None:
    """Before any policy is asked."""
    of_pandas = as_table(nullable_pandas())
    assert of_pandas.schema.field("age").type == pa.int64()
    assert of_pandas.column("age").null_count == of_pandas.column("job").null_count == 1
    assert of_pandas.column("seen").null_count == as_table(numpy_pandas()).column("age").null_count == 1
    assert pa.types.is_dictionary(as_table(numpy_pandas()).schema.field("job").type)
    assert of_pandas.schema.field("seen").type.tz == "Europe/Berlin"
    assert as_table(numpy_pandas()).column("who").to_pylist() == WHO


def test_an_empty_frame_has_an_empty_release() -> None:
    """Of either library."""
    for frame in (numpy_pandas().iloc[:0], polars_frame().head(0)):
        assert as_table(frame).num_rows == 0


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"a": [1], 7: [2]}), "1 of the table's columns have a int and no text for a name"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "several columns a; the policy names each once"),
        (pa.table([[1], [2]], names=["b", "b"]), "several columns b"),
        (pd.DataFrame({"a": ["hunter2", 7]}), "column a: holds values of several kinds"),
        (pd.DataFrame({"a": [1 + 2j]}), "column a: holds values of several kinds"),
        (pd.Series([1]), r"give a DataFrame, as frame\.to_frame\(\)"),
        (pl.DataFrame({"a": [1]}).lazy(), r"give frame\.collect\(\)"),
        (pl.Series("a", [1]), r"not polars\."),
        ([{"a": 1}], "not builtins.list"),
        ("feed.parquet", "not builtins.str"),
    ],
)
def test_what_is_no_table_is_refused(frame: Any, message: str) -> None:
    """With the mend, and without a value of it."""
    with pytest.raises(InputError, match=message) as refused:
        anonymize_table(frame, POLICY, SECRET)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("frame", [numpy_pandas(), polars_frame()], ids=["pandas", "polars"])
def test_names_are_checked_before_anything_is_computed(frame: Any) -> None:
    """A field that is missing, and a column without a role."""
    renamed = (
        frame.rename(columns={"age": "years"}) if hasattr(frame, "iloc") else frame.rename({"age": "years"})
    )
    with pytest.raises(PolicyError, match="does not have: age") as refused:
        anonymize_table(renamed, POLICY, SECRET)
    assert "years" in str(refused.value)


def test_neither_library_is_loaded_before_a_frame_brings_it() -> None:
    """By importing what reads it."""
    program = "import sys; from kanonflow.transforms.rows import data_frames; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"pandas", "polars"} & set(ran.stdout.split())


def test_objects_of_python_are_refused_and_not_published_as_addresses() -> None:
    """Polars hands them to Arrow as pointers of this process. Types that Arrow does not have are told, too."""
    frame = pl.DataFrame([pl.Series("note", [object(), object()], dtype=pl.Object)])
    with pytest.raises(InputError, match="column note: holds objects of Python"):
        as_table(frame)
    wide = pl.DataFrame([pl.Series("n", [1, 2], dtype=pl.Int128)])
    with pytest.raises(InputError, match="a type that Arrow does not have"):
        as_table(wide)
