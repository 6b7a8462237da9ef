"""How far do lattice solvers get, how close to the optimum, and how fast? (S1, the KGen paper)

k = 5. Cargo 2000 by ranges and a made-up tax table (lattice_tables.py), with 3, 4, 5, ... quasi-identifiers in the
order of the file, 0.5% of the rows may be suppressed, as in S1. Solvers: exhaustive (every node by a pass over the
records), OLA (exact), KGen, KGen without the descent that is not in its paper, random search, Datafly. The last four
are run with the seeds 1, 2, 3 (Datafly has none); KGen and random search ask about 5,000 nodes each. LOG is the least
of the solutions returned, its worst over the seeds; LOS is that of the node. Accuracy as in S1, 4.2, where OLA ends.
Passes: nodes that took a pass over the records; the others follow from monotonicity.

Adult with the hierarchies of ARX (8 quasi-identifiers), suppression 0 and 5%: OLA against exhaustive.
Sparkov, daily windows, k = 5 card holders a group, 1% suppressed: OLA cold, and warm from the border of the day
before; both must give the same nodes. Asked for: all minimal nodes; one of least LOG; those of least GCP, which is
what a window is released by. Proof: the minimal and the highest failing nodes, each of which every proof of all minimal
nodes has to check. Single: passes over one attribute, which raise the lattice's minimum, in cold and in warm.

Seconds are CPU seconds of the whole call in one process on one thread, after the kernels are loaded. S1 (other
machine, Java): exact methods ended at 6 quasi-identifiers on Cargo 2000 and 10 on its own data; KGen took 5 h 5 min for
25. Targets: OLA exact to 10 on Cargo within 600 s; KGen's 5,000 evaluations at 25 within 60 s; KGen never worse than
random search; all 97 attributes end with an answer; a warm window at most half of the checks of a cold one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from benchmarks.data_sets import ADULT, SPARKOV, MissingDataError, data_path, example_policy, read_feed
from benchmarks.lattice_tables import (
    CARGO,
    TAX_ATTRIBUTES,
    adult_lattice,
    cargo_lattice,
    sparkov_lattices,
    tax_lattice,
)
from benchmarks.node_losses import accuracy, node_losses
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.stopwatch import Spent, timed
from kanonflow.solvers.lattice.node_checks import KnownNodes
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.hierarchy_levels import Lattice
from kanonflow.solvers.shapes.lattices import LatticeSolution, LatticeTask, solve_lattice

K = 5
SUPPRESSION = 0.005
SIZES = (3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25)
SEEDS = (1, 2, 3)
AS_PRINTED = {"descent": False}
MOST_EXHAUSTIVE_NODES = 600_000


def solvers() -> dict[str, Callable[[Lattice, int], LatticeSolution]]:
    """Name -> (lattice, seed) -> solution."""

    def by(method: str, **named: Any) -> Callable[[Lattice, int], LatticeSolution]:
        return lambda lattice, seed: solve_lattice(
            LatticeTask(lattice, K, suppression=SUPPRESSION, seed=seed, **named), method
        )

    return {
        "exhaustive": by("exhaustive"),
        "ola": by("ola"),
        "kgen": by("kgen"),
        "kgen, no descent": by("kgen", parameters=AS_PRINTED),
        "random-search": by("random-search"),
        "datafly": by("datafly"),
    }


def measure(name: str, lattice: Lattice, table: ResultTable) -> dict[str, tuple[list[float], float]]:
    """Add one lattice's rows; returns LOG of every seed and the longest CPU seconds of each solver that ended."""
    found: dict[str, tuple[list[float], float]] = {}
    exact: LatticeSolution | None = None
    for method, solver in solvers().items():
        if method == "exhaustive" and lattice.nodes > MOST_EXHAUSTIVE_NODES:
            continue
        runs: list[tuple[LatticeSolution, Spent]] = []
        seeds = SEEDS if method.startswith(("kgen", "random")) else SEEDS[:1]
        with suppress(BudgetError):
            runs += [timed(solver, lattice, seed) for seed in seeds]
        if not runs:
            continue
        exact = runs[0][0] if runs[0][0].optimal else exact
        solution = max((run for run, _ in runs), key=lambda run: float(run.losses[0]))
        near = None if exact is None else accuracy(solution.nodes, exact.nodes, lattice.top)
        losses = node_losses(lattice, solution.best, K)
        cpu = max(spent.cpu for _, spent in runs)
        counts = solution.counts
        shown = (len(solution.nodes), losses.log, losses.los, losses.gcp, near)
        table.rows.append(
            (
                name,
                lattice.attributes,
                f"{lattice.nodes:.2g}",
                method,
                cpu,
                counts.asked,
                counts.checked,
                *shown,
            )
        )
        found[method] = ([float(run.losses[0]) for run, _ in runs], cpu)
    return found


def sweep(
    name: str, make: Callable[[int], Lattice], sizes: list[int], table: ResultTable
) -> dict[int, dict[str, tuple[list[float], float]]]:
    """All sizes of one data set."""
    return {size: measure(name, make(size), table) for size in sizes}


def never_worse(found: dict[int, dict[str, tuple[list[float], float]]], method: str) -> bool:
    """Whether a method's LOG is at most that of random search in every size and seed."""
    return all(
        own <= other + 1e-12
        for each in found.values()
        for own, other in zip(each[method][0], each["random-search"][0], strict=True)
    )


def cargo(sizes: list[int], table: ResultTable, goals: ResultTable) -> None:
    """Cargo 2000 and its targets."""
    path = data_path(CARGO)
    found = sweep("cargo2000", lambda size: cargo_lattice(path, size), sizes, table)
    ended = [size for size, each in found.items() if "ola" in each and each["ola"][1] <= 600]
    goals.rows.append(("Cargo: most attributes OLA proves within 600 s", max(ended, default=0), 10))
    if 25 in found:
        goals.rows.append(("Cargo: CPU s of KGen at 25 attributes", found[25]["kgen"][1], 60))
    for method in ("kgen", "kgen, no descent"):
        goals.rows.append(
            (f"Cargo: {method} never worse than random search", never_worse(found, method), True)
        )
    goals.rows.append(("Cargo: all 97 attributes end with an answer", "kgen" in found.get(97, {}), True))


def adult(findings: Findings) -> None:
    """OLA against exhaustive with the hierarchies of ARX."""
    table = findings.table(
        "Adult, hierarchies of ARX, k = 5",
        ["suppression", "method", "CPU s", "passes", "minimal nodes", "LOG", "LOS", "GCP", "same nodes"],
    )
    lattice = adult_lattice(data_path(ADULT))
    for suppression in (0.0, 0.05):
        wanted = None
        for method in ("exhaustive", "ola", "kgen", "datafly"):
            solution, spent = timed(
                solve_lattice, LatticeTask(lattice, K, suppression=suppression, seed=1), method
            )
            wanted = solution.nodes if wanted is None else wanted
            losses = node_losses(lattice, solution.best, K)
            same = bool(np.array_equal(wanted, solution.nodes))
            row = (solution.counts.checked, len(solution.nodes), losses.log, losses.los, losses.gcp, same)
            table.rows.append((suppression, method, spent.cpu, *row))


def sparkov(findings: Findings, goals: ResultTable, days: int) -> None:
    """OLA cold and warm over daily windows, for all minimal nodes, one of least LOG, and those of least GCP."""
    table = findings.table(
        "Sparkov, daily windows, k = 5, 1% suppressed: passes over the records",
        [
            *("asked for", "day", "rows", "minimal nodes", "loss", "cold", "warm", "warm / cold"),
            *("single", "proof", "same answer"),
        ],
        "warm: the minimal and the highest failing nodes of the day before are checked first.",
    )
    lattices = sparkov_lattices(read_feed(data_path(SPARKOV), example_policy("sparkov"), days=days))
    for asked_for, loss in (("all minimal", "log"), ("least LOG", "log"), ("least GCP", "gcp")):
        only_best = asked_for != "all minimal"
        known: KnownNodes | None = None
        passes = [0, 0]
        same = True
        for day, lattice in enumerate(lattices):
            ola = partial(
                solve_lattice,
                LatticeTask(lattice, K, suppression=0.01, only_best=only_best, loss=loss),
                "ola",
            )
            cold, warm = ola(), ola(known=known)
            agrees = float(cold.losses[0]) == float(warm.losses[0])
            if not only_best:
                agrees = bool(np.array_equal(cold.nodes, warm.nodes))
            elif loss == "gcp":
                agrees = bool(np.array_equal(cold.nodes[0], warm.nodes[0]))
            known, same = warm.known, same and agrees
            if day == 0:
                continue
            counts = cold.counts.checked, warm.counts.checked
            row = (len(cold.nodes), float(cold.losses[0]), *counts, counts[1] / counts[0])
            proof = None if only_best else len(cold.nodes) + len(cold.failing)
            table.rows.append((asked_for, day, lattice.records, *row, cold.counts.projected, proof, agrees))
            passes = [total + count for total, count in zip(passes, counts, strict=True)]
        told = f"Sparkov, {asked_for}: warm / cold passes of {days} days"
        goals.rows.append((f"{told} ({passes[1]} / {passes[0]})", passes[1] / passes[0], 0.5))
        goals.rows.append((f"Sparkov, {asked_for}: warm answers are those of cold", same, True))


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Lattice solvers on the paper's data and on windows.")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--days", type=int, default=15)
    parser.add_argument("--windows", action="store_true", help="the daily windows of sparkov only")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    if arguments.windows:
        findings = Findings("lattices_windows", __doc__ or "", module="lattices")
        try:
            sparkov(findings, findings.table("Targets", ["what", "found", "target"]), arguments.days)
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    findings = Findings("lattices", __doc__ or "")
    columns = (
        *("data", "attributes", "nodes", "method", "CPU s", "asked", "passes"),
        *("solutions", "LOG", "LOS", "GCP", "accuracy"),
    )
    table = findings.table(
        "Cargo 2000 and the tax table, k = 5, 0.5% suppressed",
        columns,
        "Methods that a lattice is too big for are missing there. Of several seeds: the worst LOG, the longest time.",
    )
    goals = findings.table("Targets", ["what", "found", "target"])
    solve_lattice(LatticeTask(tax_lattice(3), K, suppression=SUPPRESSION), "ola")
    made = sweep("tax", tax_lattice, [*arguments.sizes, TAX_ATTRIBUTES], table)
    for method in ("kgen", "kgen, no descent"):
        goals.rows.append((f"Tax: {method} never worse than random search", never_worse(made, method), True))
    parts: tuple[Callable[[], None], ...] = (
        lambda: cargo([*arguments.sizes, 97], table, goals),
        lambda: adult(findings),
        lambda: sparkov(findings, goals, arguments.days),
    )
    for part in parts:
        try:
            part()
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
