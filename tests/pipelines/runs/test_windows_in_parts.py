"""A run whose windows are released in parts, from the command line to the audit's verdict."""

from __future__ import annotations

import json
from pathlib import Path

import fastavro
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.commands.demo_feed import FeedShape, write_feed

pytestmark = pytest.mark.thorough

POLICY = """
version: 1
k: 3
window: 1d
max_delay: 1d
out_of_orderness: 10m
max_window_rows: 60
solver: {evaluations_per_row: 20, threads: 1}
fields:
  transaction_id: {role: insensitive, accept_risk: numbers of a test}
  booked_at: {role: time}
  customer: {role: individual}
  birth_date: {role: quasi, type: date, domain: [1920-01-01, 2020-12-31], outside: code}
  gender: {role: quasi, type: categorical, domain: [female, male, other]}
  amount: {role: sensitive, as: "decimal(12,2)"}
others: drop
"""
SHAPES = {
    "classes": POLICY + "cohort: window\n",
    "people": POLICY + "protect: row\n",
    "one window": POLICY.replace("{role: time}", "{role: identifier}")
    .replace("window: 1d\nmax_delay: 1d\nout_of_orderness: 10m\n", "")
    .replace("{role: individual}", "{role: identifier}"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_verify_passes_on_a_run_in_parts(
    shape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ledger and audit are content, several releases name the same window, and no row is in two of them."""
    write_feed(FeedShape(rows=900, days=5, seed=3), tmp_path)
    (tmp_path / "p.yaml").write_text(SHAPES[shape])
    (tmp_path / "secret").write_bytes(bytes(range(100, 140)))
    (tmp_path / "secret").chmod(0o600)
    audited = ["--policy", str(tmp_path / "p.yaml"), "--input", str(tmp_path / "transactions.csv")]
    secret = ["--secret-file", str(tmp_path / "secret"), "--quiet"]
    assert cli.main(["anonymize", *audited, *secret, "--output", str(tmp_path / "out")]) == cli.DONE
    capsys.readouterr()
    code = cli.main(["verify", *audited, "--release", str(tmp_path / "out"), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == 0, report
    ends, published = [], []
    for path in (tmp_path / "out/release").iterdir():
        with path.open("rb") as stream:
            rows = list(fastavro.reader(stream))
        ends.append(rows[0]["window_end"])
        published += [row["transaction_id"] for row in rows]
        assert len(rows) <= 60
    assert len(ends) >= 2 * len(set(ends)) > 0
    assert len(published) == len(set(published)) > 700
