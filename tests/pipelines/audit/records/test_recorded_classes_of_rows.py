"""Matching records of closed classes of single rows: what l-diversity without individuals releases."""

from pathlib import Path

import pytest

from kanonflow.pipelines import cli

pytestmark = pytest.mark.thorough

POLICY = """
version: 1
k: 3
solver: {evaluations_per_row: 50, threads: 1}
fields:
  age: {role: quasi, type: numeric, as: int, domain: [0, 100]}
  illness: {role: sensitive, diversity: {kind: distinct, l: 2}}
"""


def test_classes_of_rows_are_vouched_for(tmp_path: Path) -> None:
    """The policy asks for closed classes, the matching record holds them, and the audit takes it."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    lines = ["age,illness", *(f"{20 + row % 40},{'abc'[row % 3]}" for row in range(40))]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    flags = ["--policy", str(tmp_path / "policy.yaml"), "--input", str(tmp_path / "in.csv")]
    out = str(tmp_path / "out")
    assert cli.main(["anonymize", *flags, "--output", out, "--matching-records"]) == 0
    assert cli.main(["verify", *flags, "--release", out, "--matching-records"]) == 0
