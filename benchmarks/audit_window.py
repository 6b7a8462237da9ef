"""What does it cost to audit one large window, and to check its matching record?

A made-up window of ``--rows`` records (default 50,000) whose quasi-identifiers are nearly all distinct: age, two
coordinates of four decimals around 400 towns, gender, one of 60 jobs; k = 5. Released once by ``kanonflow anonymize
--matching-records`` in each mode: ``row`` (a graph over records, each its own individual) and ``individual`` (closed
classes; one to three records a person). Then ``kanonflow verify`` runs as a process of its own: the audit alone, with
matching records, and with these and the secret, which repeats the draw. Time is that of the whole process, imports
included; memory is its largest resident set. The aim is 60 s and 4 GiB for 50,000 rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.result_files import Findings, add_result_arguments, environment, publish, shown

FIELDS = """
  lat: {role: quasi, type: numeric, as: double}
  long: {role: quasi, type: numeric, as: double}
  age: {role: quasi, type: numeric, as: int}
  gender: {role: quasi, type: categorical}
  job: {role: quasi, type: categorical}
  amount: {role: sensitive, as: "decimal(9,2)"}
"""
POLICIES = {
    "row": "version: 1\nname: rows\nk: 5\nfields:\n  who: {role: identifier}" + FIELDS,
    "individual": "version: 1\nname: people\nk: 5\nfields:\n  who: {role: individual}" + FIELDS,
}
CHECKS = ("releases", "matching records", "matching records, secret")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and write its results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=50_000, help="records (default: %(default)s)")
    parser.add_argument("--evaluations", type=float, help="search budget, a row (default: the solver's)")
    parser.add_argument("--seed", type=int, default=1, help="of the window (default: %(default)s)")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("audit_window", __doc__ or "", module="audit_window")
    columns = ("mode", "audited", "wall s", "CPU s", "peak MiB", "records", "row groups", "pairs", "passed")
    table = findings.table(f"Audit of one window of {arguments.rows:,} rows", columns)
    with tempfile.TemporaryDirectory(prefix="kanonflow-audit-") as folder:
        for mode, policy in POLICIES.items():
            place = Path(folder, mode)
            place.mkdir()
            (place / "policy.yaml").write_text(policy, encoding="utf-8")
            write_window(place / "rows.csv", arguments.rows, arguments.seed, people=mode == "individual")
            _release(place, arguments.evaluations)
            for check in CHECKS:
                wall, cpu, peak, told = _audit(place, check)
                figures = told["figures"]
                sizes = (figures["record_groups"], figures["row_groups"], figures["pairs"])
                table.rows.append((mode, check, wall, cpu, peak, *sizes, told["passed"]))
    table.note = "records, row groups, pairs: distinct quasi-identifiers and boxes, and which fit each other."
    return publish(findings, arguments, begun)


def write_window(path: Path, rows: int, seed: int, *, people: bool) -> None:
    """A CSV file of ``rows`` records; with ``people`` one to three in a row are of one person and alike but for the
    amount."""
    random = np.random.default_rng(seed)
    towns = random.uniform((47, 6), (55, 15), (400, 2))
    own = np.repeat(np.arange(rows), random.integers(1, 4, rows))[:rows] if people else np.arange(rows)
    home = towns[random.integers(0, 400, rows)] + random.normal(0, 0.05, (rows, 2))
    ages = np.clip(random.normal(45, 18, rows), 18, 99).astype(int)
    genders, jobs = random.integers(0, 2, rows), random.zipf(1.6, rows) % 60
    amounts = random.integers(1, 100_000, rows) / 100
    with path.open("w", encoding="utf-8") as file:
        file.write("who,lat,long,age,gender,job,amount\n")
        for row, person in enumerate(own.tolist()):
            lat, long = home[person]
            cells = (
                person,
                f"{lat:.4f}",
                f"{long:.4f}",
                ages[person],
                "fm"[genders[person]],
                f"job {jobs[person]}",
            )
            file.write(",".join(map(str, cells)) + f",{amounts[row]:.2f}\n")


def _release(place: Path, evaluations: float | None) -> None:
    budget = [] if evaluations is None else ["--evaluations", str(evaluations)]
    asked = ["anonymize", "--matching-records", "--quiet", "--output", str(place / "out"), *budget]
    subprocess.run([*_command(place, asked)], check=True, stderr=subprocess.DEVNULL)


def _audit(place: Path, check: str) -> tuple[float, float, float, dict[str, Any]]:
    """Wall seconds, CPU seconds, peak MiB, and the report of one audit."""
    asked = ["verify", "--json", "--release", str(place / "out")]
    asked += ["--matching-records"] if check != CHECKS[0] else []
    asked += ["--secret-file", str(place / "out/restricted/secret")] if check == CHECKS[2] else []
    report = place / "report.json"
    began = time.perf_counter()
    with report.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(_command(place, asked), stdout=out)
        _, _, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    told = json.loads(report.read_text(encoding="utf-8"))
    cpu, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    print(
        f"{place.name}, {check}: {shown(wall)} s, {shown(peak)} MiB, passed: {shown(told['passed'])}",
        flush=True,
    )
    return wall, cpu, peak, told


def _command(place: Path, asked: Sequence[str]) -> list[str]:
    given = ["--policy", str(place / "policy.yaml"), "--input", str(place / "rows.csv")]
    return [sys.executable, "-m", "kanonflow.pipelines.cli", *asked, *given]


if __name__ == "__main__":
    sys.exit(main())
