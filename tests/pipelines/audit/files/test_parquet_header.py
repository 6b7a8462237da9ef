"""What a Parquet file is held against: the one that pyarrow writes of its rows. What may differ, and what may not."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kanonflow.pipelines.audit.files.parquet_header import other_writer, parquet_faults
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.release_format import SCHEMA_KEY
from kanonflow.transforms.columns.parquet_encoding import OPTIONS, ROWS_PER_GROUP, parquet_file
from tests.made_releases import Made, made

STEP = 41
OTHER = b"parquet-cpp-arrow version 9.8.7"


@pytest.fixture(scope="module")
def release() -> Made:
    return made(3, 300, lasting=True)


def _faults(release: Made, data: bytes) -> list[str]:
    return list(parquet_faults(data, release.released, release_avro_schema(release.bound, 7)))


def _written(release: Made, **options: Any) -> bytes:
    out, told = BytesIO(), release_avro_schema(release.bound, 7)
    with pq.ParquetWriter(out, release.released.schema, **{**OPTIONS, **options}) as writer:
        writer.write_table(release.released, ROWS_PER_GROUP)
        writer.add_key_value_metadata({SCHEMA_KEY: json.dumps(told)})
    return out.getvalue()


def _by_other(data: bytes) -> bytes:
    """The file as another version of pyarrow would have signed it: the footer is shorter then."""
    own = f"parquet-cpp-arrow version {pa.__version__}".encode()
    size = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - size : -8].replace(bytes([len(own)]) + own, bytes([len(OTHER)]) + OTHER)
    assert len(footer) != size
    return data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def test_what_the_pipeline_writes_is_what_the_audit_expects(release: Made) -> None:
    """Their options are stated twice, in code that shares nothing; every type is in the release, and nulls."""
    assert _faults(release, parquet_file(release.released, release_avro_schema(release.bound, 7))) == []


@pytest.mark.parametrize("level", [1, 9])
def test_another_compression_of_the_same_is_a_fault(release: Made, level: int) -> None:
    """Of many spellings of the same bytes one is pyarrow's; which was chosen could tell something."""
    (fault,) = _faults(release, _written(release, compression_level=level))
    assert fault.startswith("other bytes than pyarrow writes")


def test_another_pyarrow_that_writes_the_same_is_no_fault(release: Made) -> None:
    """Only its number differs, and the report says whose pages were not compared."""
    data = _by_other(_written(release))
    assert _faults(release, data) == []
    assert (other_writer(data), other_writer(_written(release))) == ("9.8.7", None)


def test_bytes_between_the_pages_of_another_pyarrow_are_a_fault(release: Made) -> None:
    """Its pages are not compared, and there is nothing but pages."""
    data = _by_other(_written(release))
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    (fault,) = _faults(release, data[:end] + b"4111" + data[end:])
    assert fault.startswith("written by pyarrow 9.8.7, which does not write these rows as")


def test_another_pyarrow_that_writes_otherwise_is_named(release: Made) -> None:
    """The files cannot be judged then, so they do not pass; the message says with what they can."""
    (fault,) = _faults(release, _by_other(_written(release, write_statistics=True)))
    assert fault.startswith("written by pyarrow 9.8.7, which does not write these rows as")


@pytest.mark.parametrize(
    "options",
    [
        {"data_page_version": "2.0"},
        {"version": "1.0"},
        {"use_dictionary": False},
        {"write_page_checksum": True},
        {"data_page_size": 64, "write_batch_size": 8},
        {"write_time_adjusted_to_utc": True},
        {"use_compliant_nested_type": False},
        {"store_decimal_as_integer": True},
    ],
    ids=lambda options: next(iter(options)),
)
def test_other_options_are_faults(release: Made, options: dict[str, Any]) -> None:
    """Each is a way to spell the same rows otherwise."""
    assert _faults(release, _written(release, **options)) != []


def test_every_changed_byte_is_a_fault(release: Made) -> None:
    """Whatever byte of the file is changed, it is found, or cannot be read. One in STEP here."""
    data = _written(release)
    number = data.rindex(pa.__version__.encode())
    for place in sorted(set(range(0, len(data), STEP)) - set(range(number, number + len(pa.__version__)))):
        spoiled = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        try:
            faults = _faults(release, spoiled)
        except Exception:  # what cannot be read is reported where rows are read
            continue
        assert faults, place
