"""What the matching record sink writes: once, for the owner only, and never over another one."""

from __future__ import annotations

import stat
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter

from kanonflow.transforms.rows.elements import MatchingRecord
from kanonflow.transforms.sinks.matching_record_sink import WriteMatchingRecords, matching_records_directory


def write(output: Path, *matching_records: MatchingRecord) -> dict[str, int]:
    """Write, and return the counters."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | beam.Create(matching_records) | WriteMatchingRecords(str(output))
    result = pipeline.run()
    result.wait_until_finish()
    found = result.metrics().query(MetricsFilter())["counters"]
    return {
        counter.key.metric.name: counter.result
        for counter in found
        if "matching_record" in counter.key.metric.name
    }


def test_a_matching_record_is_written_once_and_for_its_owner_only(tmp_path: Path) -> None:
    """Again the same: nothing happens, and it counts as written."""
    one = MatchingRecord("ab12", b"first")
    assert write(tmp_path, one)["matching_records"] == 1
    path = Path(matching_records_directory(str(tmp_path)), "ab12.avro")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert write(tmp_path, one)["matching_records"] == 1
    assert path.read_bytes() == b"first"


@pytest.mark.parametrize("content", [b"", b"second"])
def test_another_matching_record_of_a_release_is_a_conflict(content: bytes, tmp_path: Path) -> None:
    """The first stays, and the other one is counted."""
    write(tmp_path, MatchingRecord("ab12", b"first"))
    counted = write(tmp_path, MatchingRecord("ab12", content))
    assert counted["matching_record_conflict"] == 1
    assert Path(matching_records_directory(str(tmp_path)), "ab12.avro").read_bytes() == b"first"
