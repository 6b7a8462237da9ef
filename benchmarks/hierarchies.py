"""What do releases lose that publish labels of hierarchies: at levels, or each box by itself?

Data: UCI Adult, the first 5,000 rows and all 30,162, the hierarchies of ARX that stand beside it for all 8
quasi-identifiers, k = 5, through ``anonymize_table`` as a pipeline would run it (gate and publishing included).

levels: lattice solvers, every field at one level (homogeneous classes). own labels: the default solver, each row
published under the lowest labels above the k members of its slot (heterogeneous). leaves only: the same search told
that a hierarchy is a plain set of values, its slots then published under their labels: what the price of labels
(``solvers.leaf_orders``) is worth. GCP by leaves (S4, eq. 2: leaves below the label / all); a suppressed row counts
1. Ratios are to OLA without suppression in the same run. Seconds are CPU seconds of the whole call in one process.

Levels as starts (--starts): each lattice method's groups (5% of the rows may be in groups too small and join others) by
themselves and after the default search from them, as closed classes and as a graph, beside l-greedy, k-member and
Mondrian; GCP by leaves in % of the boxes' labels, rows that wait counted with 1, seed 1, one thread. Exhaustive and
Incognito find the node that OLA finds.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.data_sets import ADULT, MissingDataError, data_path
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.stopwatch import Spent, timed
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.hierarchy_file import read_hierarchy
from kanonflow.schemas.policy import Policy, SolverChoice
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.solution import Solution
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.protections.levels import lattice_of_rows
from kanonflow.transforms.publishing.boxes import field_ncp, gcp, hull_boxes
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.secret.seeds import Secret

K = 5
SECRET = Secret(bytes(range(32)))
STARTS = ("l-greedy", "k-member", "mondrian", "ola", "kgen", "samarati", "random-search", "datafly")
LATTICES = (
    SolverChoice("ola"),
    SolverChoice("ola", suppression=0.05),
    SolverChoice("kgen", suppression=0.05),
    SolverChoice("datafly", suppression=0.05),
)


def hierarchy_policy(folder: Path, names: list[str]) -> Policy:
    """Adult with a hierarchy a field; salary-class is the payload."""
    fields: dict[str, object] = {
        name: {
            "role": "quasi",
            "type": "hierarchy",
            "hierarchy": [list(row) for row in read_hierarchy(folder / f"adult_hierarchy_{name}.csv").rows],
        }
        for name in names
        if name != "salary-class"
    }
    fields["salary-class"] = "sensitive"
    return parse_policy({"version": 1, "k": K, "fields": fields}, "adult", "adult")


def released_loss(table: pa.Table, policy: Policy) -> tuple[float, float, int]:
    """(GCP with suppressed rows as 1, share of rows released, solver's evaluations) of a whole run."""
    found = anonymize_table(table, policy, SECRET, text=True, threads=1)
    (record,) = (each for each in found.metrics if each["released"])
    rows = record["rows_released"]
    lost = len(found.rejected)
    return (record["gcp"] * rows + lost) / (rows + lost), rows / (rows + lost), record["evaluations"]


def leaves_only(table: pa.Table, policy: Policy) -> float:
    """GCP by labels of slots that were searched for as if every hierarchy were a set of values."""
    bound = bind(policy, table.schema, text=True, source="adult")
    rows = classify(table, bound).rows
    columns, sizes = [], []
    for column in bound.quasis:
        assert column.hierarchy is not None
        columns.append(column.hierarchy.leaf_codes(rows.column(column.name).combine_chunks()))
        sizes.append(len(column.hierarchy.leaves))
    encoded = Table(
        numeric=np.empty((rows.num_rows, 0)),
        categorical=np.stack(columns, axis=1).astype(np.int32),
        cardinality=np.array(sizes, dtype=np.int64),
        weights=np.ones(len(sizes)),
    )
    return label_loss(solve(Task(encoded, K, budget=Budget(), seed=1)), rows, bound)


def label_loss(solution: Solution, rows: pa.Table, bound: BoundPolicy) -> float:
    """GCP by leaves of the labels that a solution is published under; rows that wait count with 1."""
    waiting, structure = 0, solution.structure
    if structure.kept is not None:
        waiting = int((~structure.kept).sum())
        rows, structure = rows.filter(pa.array(structure.kept)), structure.released()
    widths = dict.fromkeys((column.name for column in bound.quasis), 0.0)
    kept = gcp(field_ncp(hull_boxes(rows, bound, structure.groups), widths), bound) if rows.num_rows else 0.0
    return (kept * rows.num_rows + waiting) / (rows.num_rows + waiting)


def add_starts(table: pa.Table, policy: Policy, results: ResultTable) -> None:
    """Every start by itself and searched, in both shapes."""
    bound = bind(policy, table.schema, text=True, source="adult")
    rows = classify(table, bound).rows
    encoded = replace(encode(rows, bound, None, {}).table, lattice=lattice_of_rows(rows, bound))
    for start in STARTS:
        row: list[float] = []
        for shape in ("classes", "row_graph"):
            alone = label_loss(solve(Task(encoded, K, shape=shape, seed=1), start), rows, bound)
            searched, spent = timed(
                solve, Task(encoded, K, shape=shape, start=start, budget=Budget(), seed=1)
            )
            after = label_loss(searched, rows, bound)
            row += [100 * alone, 100 * after, 100 * (alone - after) / alone, spent.cpu]
        results.rows.append((rows.num_rows, start, *row))


def measure(table: pa.Table, policy: Policy, results: ResultTable) -> None:
    """All ways to release one table."""
    base = None
    for choice in (*LATTICES, SolverChoice()):
        (loss, released, evaluations), spent = timed(
            released_loss, table, replace(policy, solver=replace(choice, seed=1))
        )
        base = loss if base is None else base
        kind = "own labels" if choice.method == "auto" else "levels"
        _add(results, table, kind, choice, (loss, released, evaluations), loss / base, spent)
    loss, spent = timed(leaves_only, table, policy)
    assert base is not None
    _add(results, table, "own labels, leaves only", SolverChoice(), (loss, 1.0, None), loss / base, spent)


def _add(
    results: ResultTable,
    table: pa.Table,
    kind: str,
    choice: SolverChoice,
    found: tuple[float, float, int | None],
    ratio: float,
    spent: Spent,
) -> None:
    loss, released, evaluations = found
    results.rows.append(
        (
            table.num_rows,
            kind,
            choice.method,
            choice.suppression,
            loss,
            ratio,
            released,
            evaluations,
            spent.cpu,
        )
    )


def compare_starts(findings: Findings, whole: pa.Table, policy: Policy, sizes: list[int]) -> None:
    """The table of starts, by themselves and searched, for the first rows of Adult."""
    starts = findings.table(
        "What the search gains on top of each start, GCP of the labels in %",
        (
            *("rows", "start", "classes", "searched", "gain %", "CPU s"),
            *("graph", "searched ", "gain % ", "CPU s "),
        ),
    )
    add_starts(whole.slice(0, 200), policy, ResultTable("warm-up", ()))
    for rows in sizes:
        add_starts(whole.slice(0, rows), policy, starts)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Releases under hierarchies: levels against own labels.")
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000, 30_162])
    parser.add_argument("--starts", action="store_true", help="levels as starts, in a result of their own")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    name = "hierarchies_starts" if arguments.starts else "hierarchies"
    findings = Findings(name, __doc__ or "", module="hierarchies" if arguments.starts else None)
    try:
        path = data_path(ADULT)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    options = pyarrow.csv.ParseOptions(delimiter=";")
    text = pyarrow.csv.read_csv(path, parse_options=options)
    whole = text.cast(pa.schema([(name, pa.string()) for name in text.column_names]))
    policy = hierarchy_policy(path.parent / "hierarchies", text.column_names)
    if arguments.starts:
        compare_starts(findings, whole, policy, arguments.rows)
        return publish(findings, arguments, begun)
    columns = (
        "rows",
        "published",
        "solver",
        "may suppress",
        "GCP",
        "to OLA",
        "released",
        "evaluations",
        "CPU s",
    )
    results = findings.table("Adult under the hierarchies of ARX, k = 5", columns)
    released_loss(whole.slice(0, 200), policy)
    for rows in arguments.rows:
        measure(whole.slice(0, rows), policy, results)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
