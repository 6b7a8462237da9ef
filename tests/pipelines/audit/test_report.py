"""The audit reads every format, reports in text and JSON, and shares no code with what it audits."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.audit.judge.metrics import check_modes
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.schemas.errors import InputError
from tests.pipelines.small_runs import Run, ring


def verdict(run: Run, folder: Path) -> AuditReport:
    """The audit of a run as written below ``folder``."""
    return audit(*run.write(folder))


@pytest.mark.parametrize("kind", ["gz", "parquet", "avro"])
def test_other_formats_are_read_alike(kind: str, tmp_path: Path) -> None:
    """The same records as CSV.gz, Parquet or Avro give the same verdict."""
    policy, _, out = ring().write(tmp_path)
    source = tmp_path / "input.csv"
    table = pyarrow.csv.read_csv(source)
    target = tmp_path / f"input.{kind}"
    if kind == "gz":
        target = tmp_path / "input.csv.gz"
        target.write_bytes(gzip.compress(source.read_bytes()))
    elif kind == "parquet":
        pa.parquet.write_table(table, target)
    else:
        types = {"x": "double", "tint": ["null", "string"], "note": "string"}
        fields = [{"name": name, "type": types[name]} for name in table.column_names]
        with target.open("wb") as stream:
            fastavro.writer(stream, {"type": "record", "name": "R", "fields": fields}, table.to_pylist())
    report = audit(policy, [str(target)], out)
    assert report.failures == ()
    assert report.figures.records == 4


def test_the_report_speaks_in_text_and_json(tmp_path: Path) -> None:
    """The text names the verdict and every failure; the JSON holds the same."""
    run = ring()
    run.releases["whole"].pop()
    report = verdict(run, tmp_path)
    text, told = report.render(), json.loads(report.to_json())
    assert text.startswith("audit FAILED (")
    assert all(failure in text for failure in report.failures)
    assert told["passed"] is False
    assert told["failures"] == list(report.failures)
    assert told["figures"]["rows"] == 3
    # As the flag is spelled, which scripts know.
    assert told["figures"]["matching_records"] is None


def test_broken_lines_are_counted(tmp_path: Path) -> None:
    """Lines with too few or too many values, or bytes that are not UTF-8, are broken lines, not records."""
    run = ring()
    run.rejected = [("unparseable", {})] * 3
    policy, patterns, out = run.write(tmp_path)
    with (tmp_path / "input.csv").open("ab") as stream:
        stream.write(b"1.5,red\n\n1.5,red,n1,n1\n1.5,\xff,n1\n")
    report = audit(policy, patterns, out)
    assert report.failures == ()
    assert report.figures.broken == 3
    assert report.figures.records == 4


def test_a_damaged_input_is_refused(tmp_path: Path) -> None:
    """A cut-off gzip file, and files of two formats, end the audit with an error that names the file."""
    policy, patterns, out = ring().write(tmp_path)
    data = gzip.compress((tmp_path / "input.csv").read_bytes() * 1000)
    (tmp_path / "cut.csv.gz").write_bytes(data[:-20])
    with pytest.raises(InputError, match=r"cut\.csv\.gz: the compressed file is damaged"):
        audit(policy, [str(tmp_path / "cut.csv.gz")], out)
    (tmp_path / "more.avro").write_bytes(b"")
    with pytest.raises(InputError, match="several formats"):
        audit(policy, [*patterns, str(tmp_path / "more.avro")], out)


def test_an_empty_run_passes_where_that_is_asked_for(tmp_path: Path) -> None:
    """No records, no releases: nothing is wrong, but nothing was audited either."""
    run = ring()
    run.lines, run.releases = run.lines[:1], {}
    policy, patterns, out = run.write(tmp_path)
    (failure,) = audit(policy, patterns, out).failures
    assert "--allow-empty" in failure
    report = audit(policy, patterns, out, allow_empty=True)
    assert report.passed
    assert report.figures.fewest_rows_of_record is None


def test_the_audit_shares_no_code_with_what_it_audits() -> None:
    """Importing the audit loads nothing of kanonflow.transforms and kanonflow.solvers, of kanonflow.pipelines only the
    audit, and of the schemas nothing that makes boxes."""
    program = (
        "import sys, kanonflow.pipelines.audit.audit; print(*(n for n in sys.modules if 'kanonflow' in n))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert not [name for name in loaded if name.startswith(("kanonflow.transforms", "kanonflow.solvers"))]
    rooms = [name for name in loaded if name.startswith("kanonflow.pipelines.")]
    assert all(f"{name}.".startswith("kanonflow.pipelines.audit.") for name in rooms)
    assert "kanonflow.schemas.grid" not in loaded


def open_places(folder: Path) -> str:
    """What an audit says of the modes in a run's directory."""
    findings = Findings()
    check_modes(folder, findings)
    return "; ".join(findings.messages())


def test_what_lies_in_a_closed_folder_is_closed(tmp_path: Path) -> None:
    """An open file is found only where somebody else gets to it: the whole of restricted/ closed, or a folder in it."""
    assert open_places(tmp_path) == ""
    inner = tmp_path / "restricted" / "rejected"
    inner.mkdir(parents=True)
    for path in (inner / "a.avro", tmp_path / "restricted" / "secret"):
        path.touch()
        path.chmod(0o644)
    modes = {
        (0o700, 0o755): None,
        (0o711, 0o700): 2,
        (0o755, 0o755): 4,
        (0o755, 0o700): 2,
    }
    for (outer, own), count in modes.items():
        inner.chmod(own)
        inner.parent.chmod(outer)
        said = open_places(tmp_path)
        assert said == "" if count is None else f"in {count} places (the secret among them)" in said
