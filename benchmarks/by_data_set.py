"""The main loop of benchmarks that take one data set after the other."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterable, Mapping

from benchmarks.data_sets import DataSet, MissingDataError
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish

Tables = dict[str, ResultTable]


def by_data_set(
    argv: list[str] | None,
    parser: argparse.ArgumentParser,
    findings: Findings,
    titles: Mapping[str, tuple[str, tuple[str, ...]]],
    cases: Iterable[DataSet],
    measure: Callable[[Tables, DataSet, argparse.Namespace], None],
    *,
    apart: bool = False,
) -> int:
    """Measures each data set that is there, and writes what was found after each. titles: of tables, and their columns,
    by the name that ``measure`` has them under. apart: in files of its own each. Returns the exit code."""
    parser.add_argument("--rows", type=int, help="at most so many rows of each data set")
    parser.add_argument("--data", nargs="*", help="only these data sets")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    begun = environment()
    name, protocol = findings.name, findings.protocol
    tables = {key: findings.table(*title) for key, title in titles.items()}
    for data in cases:
        if arguments.data and data.name not in arguments.data:
            continue
        if apart:
            findings = Findings(f"{name}_{data.name}", protocol, module=name)
            tables = {key: findings.table(*title) for key, title in titles.items()}
        try:
            measure(tables, data, arguments)
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
        if apart:
            findings.tables = [table for table in findings.tables if table.rows]
        publish(findings, arguments, begun)
    return 0
