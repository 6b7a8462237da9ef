"""Does S0's local search improve the heuristics as its paper says, and what does ours make of the same starts?

Data: UCI Adult with 8 quasi-identifiers (adult-8) and with salary-class as a ninth (adult-9; S0 has 14, the copy here
9), first rows of the file; and generated tables, for S0's other two sets cannot be had: 23 numeric attributes
(wide-23, as wide as its Youtube set), four small integers (census-4, as its IPUMS set; mostly duplicates). Domains are
those of the rows taken, weights equal.

Starts: the heuristics of S0's tables that this version has, by name, built once a seed. From the same start: S0's
exhaustive local search (best improvement, incremental, not strict, unless said) and our search (default budget, one
thread). RPI = 100 (start - end) / start (S0, eq. 9), the mean over seeds of each seed's own. Graphs are as the search
left them: two-edge cuts, which the product exchanges away, are left in on both sides. Seconds are CPU seconds in one
process after the kernels are loaded: of S0's search alone; of our whole call, units, neighbours and start included,
unless a column says search alone. S0's search is cut off after ``--most-seconds`` (the paper has time limits too,
and says "anytime"); such cells are marked. A cell whose run is estimated to take longer than ``--seed-seconds``
takes one seed, so does split-and-carry, which runs on census-4 only. Ratios are formed in one run of this script.

Parts (``--parts``): gcp (Table 6, Fig. 7), growth (Fig. 6), sil (Fig. 8, 9, three readings of eq. 7), anytime (Fig. 5),
l-greedy (Fig. 4), evaluation (the same of the local search), optimum (how fast ours reaches S0's local optimum; targets
100 times whole, 500 times search alone), perturbation (section 5.4). Other sizes get files of their own by ``--name``;
``benchmarks/results/paper_s0.md`` shows all of them in the paper's order.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.paper_l_greedy import l_greedy_part
from benchmarks.paper_runs import (
    DATA_SETS,
    HEURISTICS,
    SLOW_START,
    Bench,
    Run,
    begin,
    improvement,
    our_run,
    paper_run,
    scan_seconds,
)
from benchmarks.paper_speed import anytime_part, evaluation_part, optimum_part, perturbation_part
from benchmarks.result_files import Findings, add_result_arguments, environment, publish, write_results
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.paper_search import PaperSearch

# Readings of eq. 7 -> how they are searched.
READINGS = {
    "all edges": PaperSearch(loss="sil"),
    "own record": PaperSearch(loss="sil-own"),
    "own record, strict": PaperSearch(loss="sil-own", strict=True),
}


def heuristics_and_searches(
    bench: Bench, rows_to_ks: Sequence[tuple[int, int]], names: Sequence[str], title: str
) -> None:
    """One line a (data set, rows, k, start): the heuristic, S0's search and ours from it."""
    table = bench.findings.table(
        title,
        ["data", "rows", "k", "start", "seeds", "GCP", "S0 GCP", "S0 RPI %", "S0 s", "cut off",
         "ours GCP", "ours RPI %", "ours s", "start s"],
        "RPI: improvement on the start. cut off: runs of S0's search that the time limit ended.",
    )  # fmt: skip
    for name in names:
        for rows, k in rows_to_ks:
            data = bench.table(name, rows)
            for start in bench.settings.starts if data is not None else ():
                line = searched_from(bench, name, data, k, start) if data is not None else None
                if line is not None:
                    table.rows.append((name, rows, k, start, *line))
                    bench.keep()


def searched_from(bench: Bench, name: str, data: Table, k: int, start: str) -> tuple[object, ...] | None:
    """Means over seeds of one line; None when there is no such start."""
    found: list[tuple[float, ...]] = []
    seeds = bench.seeds(min(scan_seconds(data, k), bench.settings.most_seconds))
    for seed in seeds[:1] if start == SLOW_START else seeds:
        begun = bench.begin(name, data, k, start, seed)
        if begun is None:
            return None
        theirs = paper_run(
            data, begun.members, PaperSearch(), seed=seed, most_seconds=bench.settings.most_seconds
        )
        ours, seconds = our_run(data, k, start, seed, bench.settings.per_row)
        rpi = improvement(theirs.before, theirs.after), improvement(ours.start_loss, ours.loss)
        line = (theirs.before, theirs.after, rpi[0], theirs.seconds, theirs.cut, ours.loss, rpi[1], seconds)
        found.append((*line, begun.seconds))
    mean = [float(value) for value in np.mean(found, axis=0)]
    mean_of = [*mean[:4], int(np.sum([line[4] for line in found])), *mean[5:]]
    return (len(found), *mean_of)


def gcp_part(bench: Bench) -> None:
    """Table 6 and Fig. 7: every data set, all k, at the smallest size."""
    least = min(bench.settings.rows)
    grid = [(least, k) for k in bench.settings.k]
    heuristics_and_searches(
        bench, grid, bench.settings.data, "GCP of heuristics, and of local searches from them"
    )


def growth_part(bench: Bench) -> None:
    """Fig. 6: the smallest k, all larger sizes."""
    sizes = sorted(bench.settings.rows)[1:]
    names = [name for name in bench.settings.data if name in ("adult-8", "census-4")]
    heuristics_and_searches(bench, [(rows, min(bench.settings.k)) for rows in sizes], names, "GCP as n grows")


def sil_part(bench: Bench) -> None:
    """Fig. 8 and 9: SIL in three readings, by S0's search; and by ours over all edges."""
    table = bench.findings.table(
        "SIL of heuristics, and of local searches from them",
        [
            "data",
            "rows",
            "k",
            "start",
            "reading of eq. 7",
            "seeds",
            "before",
            "after",
            "RPI %",
            "s",
            "cut off",
        ],
        "own record: record i against the average of slot i, as printed; strict: slot i also keeps record i. all edges:"
        " the mean over the k records of each slot, what the metrics report. ours: our search of that, default budget;"
        " from the NCP start's name, built under weights for SIL, so its start differs; RPI is to the start of S0's.",
    )
    rows = bench.settings.sil_rows
    for name in bench.settings.data:
        data = bench.table(name, rows)
        for k in bench.settings.k if data is not None else ():
            for start in HEURISTICS[:2]:
                if data is not None:
                    for reading, line in sil_lines(bench, name, data, k, start).items():
                        table.rows.append((name, rows, k, start, reading, *line))
                    bench.keep()


def sil_lines(bench: Bench, name: str, data: Table, k: int, start: str) -> dict[str, tuple[object, ...]]:
    """Means over seeds, by reading."""
    runs: dict[str, list[Run]] = {}
    seeds = bench.seeds(scan_seconds(data, k, "sil"))
    for seed in seeds:
        begun = bench.begin(name, data, k, start, seed)
        if begun is None:
            return {}
        for reading, given in READINGS.items():
            runs.setdefault(f"S0, {reading}", []).append(
                paper_run(data, begun.members, given, seed=seed, most_seconds=bench.settings.most_seconds)
            )
        ours, seconds = our_run(data, k, start, seed, bench.settings.per_row, "sil")
        before = runs["S0, all edges"][-1].before
        runs.setdefault("ours, all edges", []).append(
            Run(before, ours.loss, seconds, False, ours.evaluations, [])
        )
    return {
        reading: (
            len(seeds),
            float(np.mean([run.before for run in each])),
            float(np.mean([run.after for run in each])),
            float(np.mean([improvement(run.before, run.after) for run in each])),
            float(np.mean([run.seconds for run in each])),
            sum(run.cut for run in each),
        )
        for reading, each in runs.items()
    }


def warm(bench: Bench) -> None:
    """Load or compile the kernels of both searches, for tables with and without categories."""
    for name in bench.settings.data:
        data = bench.table(name, 60)
        for start in HEURISTICS if data is not None else ():
            if data is not None:
                begin(data, 3, start, 1)
        for loss in ("ncp", "sil") if data is not None else ():
            if data is not None:
                members = our_run(data, 3, "l-greedy", 1, 10.0, loss)[0].graph.members
                paper_run(data, members, PaperSearch(loss=loss), seed=1, most_seconds=1e9, iterated=True)


PARTS: dict[str, Callable[[Bench], None]] = {
    "gcp": gcp_part,
    "growth": growth_part,
    "sil": sil_part,
    "anytime": anytime_part,
    "l-greedy": l_greedy_part,
    "evaluation": evaluation_part,
    "optimum": optimum_part,
    "perturbation": perturbation_part,
}


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="S0's tables and figures, and our search from the same starts."
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--data", nargs="+", choices=DATA_SETS, default=list(DATA_SETS))
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[1_000, 5_000, 20_000], help="the first: gcp, anytime"
    )
    parser.add_argument(
        "--starts", nargs="+", choices=HEURISTICS, default=list(HEURISTICS), help="of gcp, growth"
    )
    parser.add_argument("--sil-rows", type=int, default=500, help="of the parts sil and perturbation")
    parser.add_argument("--optimum-rows", type=int, default=5_000)
    parser.add_argument("--k", type=int, nargs="+", default=[3, 5, 10, 20])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--most-seconds", type=float, default=12.0, help="CPU, a run of S0's search")
    parser.add_argument("--seed-seconds", type=float, default=2.0, help="longer runs take one seed")
    parser.add_argument(
        "--per-row", type=float, help="evaluations a row of our search (default: the product's)"
    )
    parser.add_argument(
        "--times", type=float, nargs="+", default=[0.03, 0.1, 0.3, 1.0, 3.0], help="of anytime"
    )
    parser.add_argument(
        "--evaluations", type=int, default=3_000_000, help="of each run of the part evaluation"
    )
    parser.add_argument("--name", help="of the result files (default: paper_tables, with the parts' names)")
    add_result_arguments(parser)
    settings = parser.parse_args(argv)
    begun = environment()
    whole = len(settings.parts) == len(PARTS)
    name = settings.name or ("paper_tables" if whole else "_".join(["paper_tables", *settings.parts]))
    findings = Findings(name, __doc__ or "", module=None if name == "paper_tables" else "paper_tables")
    bench = Bench(settings, findings, lambda: write_results(findings, settings, begun))
    warm(bench)
    for part in settings.parts:
        began = time.process_time()
        PARTS[part](bench)
        print(f"{part}: {time.process_time() - began:.0f} CPU s", flush=True)
    code = publish(bench.findings, settings, begun)
    for file, chart in bench.charts.items():
        (settings.results / file).write_text(chart, encoding="utf-8")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
