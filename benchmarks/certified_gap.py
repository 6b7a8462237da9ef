"""How far above the least possible loss is the search, and how far is ``certify``?

Data: the first n rows of UCI Adult, 8 quasi-identifiers (age numeric over the range of the rows taken, 7 categorical).
Loss: GCP of the hulls. The bound is that of the linear program over all slots (column generation), with a proof
that an independent checker proves again where ``checked`` says so; ``program`` is the program's value over the slots
it knew at the end, so the whole program's value lies between bound and program.

``search``: one run of the graph search, seed 1, one thread, with as many evaluations as fit into the CPU seconds of
the targets on this machine (their number is stated: it makes the loss repeatable). ``certify``: several searches, the
program, and graphs rounded from it; its seconds hold everything, the bound too. Gaps are ratios, (loss - bound) /
bound. Each loss is given as searched (``untied`` no: two-edge cuts left in) and after two-edge cuts are mended, as
the product releases it (yes). Seconds are CPU seconds in one process after the kernels are loaded.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.data_sets import ADULT, MissingDataError, adult_table, data_path
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.solvers.bounds.bound_proof import BoundProof, check_bound
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.rivals.certify import certify_graph
from kanonflow.solvers.shapes.graphs import solve_graph, untie_graph
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.structures.graph import GeneralizationGraph

# (rows, k) -> (seconds of the plain search, largest gap of it, largest gap of certify)
TARGETS: dict[tuple[int, int], tuple[float, float | None, float]] = {
    (1_000, 5): (10.0, 0.015, 0.010),
    (5_000, 3): (3.0, 0.015, 0.015),
    (5_000, 5): (30.0, 0.030, 0.015),
    (5_000, 10): (30.0, None, 0.030),
}
OTHERWISE = (10.0, None, 0.030)
SEED = 1
# Evaluations from which the rate is measured.
PROBE = 1_000.0
# How often a search that took longer is made again with fewer.
CORRECTIONS = 3
# No evaluation takes less.
LEAST_SECONDS = 1e-8


def search_for(table: Table, k: int, seconds: float) -> tuple[Solution, float, float]:
    """A search of about so many CPU seconds, at most: the solution, evaluations a row, and CPU seconds."""
    # The first call may still load kernels.
    times = [
        timed(solve_graph, Task(table, k, budget=Budget(each), seed=SEED), untie=False)[1].cpu
        for each in (1.0, 1.0, PROBE)
    ]
    rate = max((times[2] - times[1]) / PROBE, LEAST_SECONDS * table.records)
    each = max((seconds - times[1]) / rate, 1.0)
    found, spent = timed(solve_graph, Task(table, k, budget=Budget(each), seed=SEED), untie=False)
    # An evaluation takes longer in one phase than in another, and on a machine with other work.
    for _ in range(CORRECTIONS):
        if spent.cpu <= seconds:
            break
        each *= 0.97 * seconds / spent.cpu
        found, spent = timed(solve_graph, Task(table, k, budget=Budget(each), seed=SEED), untie=False)
    return found, each, spent.cpu


def untied_loss(table: Table, solution: Solution) -> float:
    """GCP after two-edge cuts are mended."""
    free = untie_graph(table, solution.graph.members, seed=SEED, per_row=solution.evaluations / table.records)
    return gcp(table, GeneralizationGraph(free.members))


def add_rows(
    losses: ResultTable,
    table: Table,
    k: int,
    method: str,
    solution: Solution,
    bound: float,
    each: float | None,
    cpu: float,
) -> None:
    """The loss with its gap, as searched and untied."""
    for untied, loss in (("no", solution.loss), ("yes", untied_loss(table, solution))):
        losses.rows.append((table.records, k, method, untied, loss, bound, loss / bound - 1.0, each, cpu))


def checked(table: Table, proof: BoundProof, largest: int) -> tuple[str, float | None]:
    """Whether the checker proves the bound again, and the CPU seconds; not tried beyond k = ``largest``."""
    if proof.k > largest:
        return "not tried", None
    _, spent = timed(check_bound, table, proof)
    return "yes", spent.cpu


def measure(table: Table, k: int, deadline: float, arguments: argparse.Namespace, findings: Findings) -> None:
    """Add the rows of one (table, k). deadline: of certify, CPU seconds."""
    losses, bounds, targets = findings.tables
    seconds, goal, certify_goal = TARGETS.get((table.records, k), OTHERWISE)
    budget = Budget(arguments.evaluations, 1000.0 * deadline)
    certified, spent = timed(
        certify_graph, Task(table, k, budget=budget, seed=SEED, clock=time.process_time), untie=False
    )
    bound, proof = certified.lower_bound, certified.proof
    assert proof is not None
    again, checking = checked(table, proof, arguments.check_up_to)
    bounds.rows.append(
        (table.records, k, bound, proof.program, spent.cpu, certified.deadline_struck, again, checking)
    )
    found, each, cpu = search_for(table, k, seconds)
    add_rows(losses, table, k, "search", found, bound, each, cpu)
    add_rows(losses, table, k, "certify", certified, bound, arguments.evaluations, spent.cpu)
    gaps = found.loss / bound - 1.0, certified.gap
    met = None if goal is None else gaps[0] <= goal
    targets.rows.append((table.records, k, f"search, {seconds:g} s", gaps[0], goal, met))
    targets.rows.append((table.records, k, "certify", gaps[1], certify_goal, gaps[1] <= certify_goal))


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Gaps to the LP bound on Adult.")
    parser.add_argument(
        "--cases",
        nargs="+",
        default=["1000:5", "1000:10", "5000:3", "5000:5", "5000:10"],
        help="first rows of the file, k, and another deadline if wanted: 5000:10:300",
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="deadline of one certify, CPU seconds")
    parser.add_argument("--evaluations", type=float, default=10_000.0, help="a row, of each of its searches")
    parser.add_argument("--check-up-to", type=int, default=5, help="largest k that the checker is run for")
    parser.add_argument("--name", default="certified_gap", help="of the result files")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings(arguments.name, __doc__ or "")
    try:
        path = data_path(ADULT)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    small = adult_table(path, 100)
    warm = certify_graph(Task(small, 3, budget=Budget(10.0), seed=SEED))
    if warm.proof is not None:
        check_bound(small, warm.proof)
    findings.table(
        "Loss and gap",
        ["rows", "k", "method", "untied", "GCP", "bound", "gap", "evaluations a row", "CPU s"],
        "gap: (GCP - bound) / bound. evaluations a row: of certify, those of each of its searches.",
    )
    findings.table(
        "Bounds",
        ["rows", "k", "bound", "program", "CPU s", "deadline struck", "checked", "checker CPU s"],
        "The deadline leaves the best bound that was proved until then.",
    )
    findings.table("Targets, as searched", ["rows", "k", "method", "gap", "at most", "met"])
    for case in arguments.cases:
        rows, k, *given = (int(part) for part in case.split(":"))
        measure(
            adult_table(path, rows), k, float(given[0] if given else arguments.seconds), arguments, findings
        )
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
