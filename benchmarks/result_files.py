"""What a benchmark found, as text for people and JSON for programs, with what is needed to run it again."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("kanonflow", "apache-beam", "numpy", "numba", "pyarrow", "polars", "duckdb", "highspy")


@dataclass
class ResultTable:
    """rows: one value a column; floats are written with 4 significant digits. note: how to read it."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    note: str = ""

    def render(self) -> str:
        """As a Markdown table that is also readable as plain text."""
        cells = [self.columns, *(tuple(shown(value) for value in row) for row in self.rows)]
        widths = [max(len(row[place]) for row in cells) for place in range(len(self.columns))]
        lines = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
            for row in cells
        ]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        parts = [f"### {self.title}", "\n".join(lines)]
        return "\n\n".join([*parts, self.note] if self.note else parts)


@dataclass
class Findings:
    """name: of the result files. protocol: the benchmark's docstring. skipped: what was not measured, and why.

    module: of the benchmark, if it needs no data sets and is not named as its result files are.
    """

    name: str
    protocol: str
    tables: list[ResultTable] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    module: str | None = None

    def table(self, title: str, columns: Sequence[str], note: str = "") -> ResultTable:
        """A new, empty table. Raises ValueError for a column named twice: of two, JSON would hold one."""
        if len(set(columns)) < len(columns):
            raise ValueError(f"table {title!r}: a column is named twice in {', '.join(columns)}")
        self.tables.append(ResultTable(title, tuple(columns), note=note))
        return self.tables[-1]


def shown(value: Any) -> str:
    """A cell: whole numbers with commas, other numbers with 4 significant digits, nothing as ``-``."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return str(value)


def add_result_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments that every benchmark has."""
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    parser.add_argument("--date", help="date to state, ISO (default: the clock's)")


def environment() -> dict[str, Any]:
    """The machine and the versions; the load tells how quiet it was."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "versions": versions,
        "commit": _commit(),
    }


def publish(findings: Findings, arguments: argparse.Namespace, begun: dict[str, Any]) -> int:
    """Print the tables and write ``<name>.md`` and ``<name>.json``; nothing is written when all was skipped.

    begun: ``environment()`` as it was before the first measurement. Returns the exit code, 0.
    """
    for line in findings.skipped:
        print(line)
    for table in findings.tables:
        print("\n" + table.render())
    if write_results(findings, arguments, begun):
        print(f"\nwritten: {findings.name}.md, {findings.name}.json in {arguments.results}")
    return 0


def write_results(findings: Findings, arguments: argparse.Namespace, begun: dict[str, Any]) -> bool:
    """Write what was found so far, without a word; False, and no file, where that is nothing."""
    if not any(table.rows for table in findings.tables):
        return False
    date = arguments.date or dt.datetime.now(dt.UTC).date().isoformat()
    facts = {
        "command": _command(findings),
        "date": date,
        "machine": begun,
        "load_average_after": [round(load, 2) for load in os.getloadavg()],
    }
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / f"{findings.name}.md").write_text(_text(findings, facts), encoding="utf-8")
    record = {
        "name": findings.name,
        **facts,
        "skipped": findings.skipped,
        "tables": [
            {
                "title": table.title,
                "note": table.note,
                "rows": [dict(zip(table.columns, row, strict=True)) for row in table.rows],
            }
            for table in findings.tables
        ],
    }
    (arguments.results / f"{findings.name}.json").write_text(
        json.dumps(record, indent=1, default=str) + "\n", encoding="utf-8"
    )
    return True


def _text(findings: Findings, facts: dict[str, Any]) -> str:
    machine = facts["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    head = [
        f"# {findings.name}",
        f"    {facts['command']}",
        f"{facts['date']}; {machine['cores']} cores of {machine['processor']}, {machine['memory_gb']} GB,"
        f" {machine['system']}; load {machine['load_average'][0]} before, {facts['load_average_after'][0]} after"
        f" (1 minute). Python {machine['python']}, {versions}; commit {machine['commit']}.",
        findings.protocol.strip(),
    ]
    if findings.skipped:
        head.append("Skipped:\n" + "\n".join(f"- {line}" for line in findings.skipped))
    return "\n\n".join([*head, *(table.render() for table in findings.tables)]) + "\n"


def _command(findings: Findings) -> str:
    """The command without the paths of this machine."""
    given = []
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        if argument.split("=")[0] in ("--results", "--date", "--work"):
            if "=" not in argument:
                next(arguments, None)
            continue
        given.append(argument)
    if findings.module is not None:
        return " ".join([f"python -m benchmarks.{findings.module}", *given])
    return " ".join([f"KANONFLOW_DATA=DIR python -m benchmarks.{findings.name}", *given])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _commit() -> str:
    """The commit that ran, marked when the working tree held changes."""
    folder = Path(__file__).parent
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return told.stdout.strip()
