"""Whole sets of small worlds through the product's step and through the model that the theorem speaks of.

Of each world: who enters and with whom, which cohorts are one group, which rows go out, wait and are rejected, at each
step. Founding and merging must answer each question alike in all worlds of a set. Half of the sets have people of equal
quasi-identifiers, two and two.

    worlds        how many were run: all, or drawn at random where ``--most`` is fewer
    questions     to founding and to merging, that were different
    differences   steps in which the two come to something else, and questions that were answered in two ways

Needs coq, MathComp and an OCaml compiler, and no data set.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from tests.modelled_worlds import Product, Rules, World, differences, tools

ROOT = Path(__file__).parents[1]
SETS = (
    Rules(4, 3),
    Rules(6, 2),
    Rules(3, 3),
    Rules(4, 2),
    Rules(4, 2, delay=0),
    Rules(4, 2, intake=2),
    Rules(5, 2, k=3, cohort_size=3, intake=5),
    Rules(6, 3, k=2, cohort_size=2, intake=4),
    Rules(6, 3, k=3, cohort_size=3, intake=6, delay=2),
)
_AT_ONCE = 2_000


def measure(table: ResultTable, rules: Rules, alike: int, most: int) -> int:
    """One row of the table; returns how many differences there were."""
    product, program = Product(rules, alike=alike), ROOT / ".proofs" / "model"
    total = 3 ** (rules.people * rules.windows)
    rng = np.random.default_rng(7)
    drawn = rules.worlds() if total <= most else (rules.random(rng) for _ in range(most))
    began, differ = time.process_time(), 0
    for batch in iter(lambda: list(itertools.islice(drawn, _AT_ONCE)), []):
        worlds: list[World] = batch
        found = differences(product, worlds, program)
        for each in found[:3]:
            print(each, flush=True)
        differ += len(found)
    spent = time.process_time() - began
    run = min(total, most)
    table.rows.append(
        (
            rules.people,
            rules.windows,
            rules.k,
            rules.cohort_size,
            rules.intake,
            rules.delay,
            "two and two" if alike == 2 else "no",
            f"{run:,}" + (" (all)" if run == total else f" of {total:,}"),
            len(product.answered),
            differ,
            round(1e3 * spent / run, 1),
        )
    )
    print(table.render().splitlines()[-1], flush=True)
    return differ


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="The step against its model, world by world.")
    parser.add_argument(
        "--most", type=int, default=20_000, help="worlds of a set; of a larger set, drawn at random"
    )
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("modelled_worlds", __doc__ or "", module="modelled_worlds")
    columns = ("people", "windows", "k", "cohort size", "intake", "delay", "alike", "worlds", "questions")
    table = findings.table("Product and model", (*columns, "differences", "ms CPU a world"))
    differ = 0
    if (missing := tools()) is not None:
        findings.skipped.append(missing)
    else:
        subprocess.run(["make", "--silent", "proofs"], cwd=ROOT, check=True)
        differ = sum(measure(table, rules, alike, arguments.most) for rules in SETS for alike in (2, 1))
    return publish(findings, arguments, begun) or int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
