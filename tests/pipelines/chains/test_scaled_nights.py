"""A chain of runs whose policy counts widths by another scale: told in the same way by every night, and judged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kanonflow.pipelines.analysis.released_files import release_paths, release_schema
from kanonflow.pipelines.analysis.released_table import read_release
from kanonflow.pipelines.report.report import write_report
from kanonflow.schemas.avro_schema import PROPERTY
from tests.nightly import HEADER, POLICY, night_lines, nights_of
from tests.pipelines.audit.good_runs import read

pytestmark = pytest.mark.thorough

AGES = "age: {role: quasi, type: numeric, as: int, domain: [0, 120]"


def test_a_chain_keeps_its_scale(tmp_path: Path) -> None:
    """Metrics behind the domain, releases by a word in their schema, report and certificate at the field; the quantiles
    are nowhere beside the restricted files. The audit passes the chain, and a run under another scale goes on, too."""
    own = AGES.replace("age", "age-at-entry") + ", scale: rank, quantiles: [25, 25, 33, 57, 61]"
    nights = nights_of(
        tmp_path / "place", [night_lines(each) for each in (1, 2, 3)], POLICY.replace(AGES, own)
    )
    for path in (nights.place / "in").iterdir():
        path.write_text(path.read_text().replace(HEADER, HEADER.replace("age", "age-at-entry")))
    outputs = nights.chain(2)
    assert nights.verify("[12].csv", *outputs) == 0
    for output in outputs:
        (records, *_) = [
            read(path)[1] for path in (nights.place / output / "restricted/metrics").glob("*.avro")
        ]
        assert all(each["domains"]["age-at-entry"] == "[0, 120] declared, by rank" for each in records)
        for page in write_report(str(nights.place / output)):
            assert "widths count by rank" in Path(page).read_text()
        for path in release_paths(nights.place / output / "release"):
            (field,) = [each for each in release_schema(path)["fields"] if each["name"] == "age_at_entry"]
            assert field[PROPERTY]["scale"] == "rank"
            assert "33" not in str(field)
    policy = nights.place / "policy.yaml"
    policy.write_text(policy.read_text().replace("rank, quantiles: [25, 25, 33, 57, 61]", "log"))
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2") == 0
    (nights.place / "all").mkdir()
    for output in ("out2", "out3"):
        for path in release_paths(nights.place / output / "release"):
            shutil.copy(path, nights.place / "all")
    assert read_release(nights.place / "all").arrow().num_rows > 0
