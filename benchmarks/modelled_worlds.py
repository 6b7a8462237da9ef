"""Whole sets of small worlds through the product's step and through the model that the theorem speaks of.

Of each world: who enters and with whom, which cohorts are one group, which rows go out, wait and are rejected, at each
step. Founding and merging must answer each question alike in all worlds of a set. Half of the sets have people of equal
quasi-identifiers, two and two.

    worlds        how many were run: all, or drawn at random where ``--most`` is fewer
    questions     to founding and to merging, that were different
    differences   steps in which the two come to something else, and questions that were answered in two ways

With ``--until m`` instead all worlds of 6 people and 3 windows up to names, whose first two windows are the
``--begin``-th to the m-th of 3,003 (not counting the m-th): 906,192 worlds in all, which stand for 387,420,489. What
they have in common is done once. What earlier runs have found stays in the result files.

With ``--feeds n`` instead feeds drawn at random, of policies that are drawn at random too, 100 feeds each: more people
and windows than whole sets can have.

Needs coq, MathComp and an OCaml compiler, and no data set.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from tests.modelled_worlds import Product, Rules, World, differences, differing_runs, tools

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
_FEEDS_A_POLICY = 100


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


NAMELESS = Rules(6, 3, k=2, cohort_size=2, intake=4)
"""Of the worlds that are told apart by no names. All people are equal."""


def measure_nameless(table: ResultTable, begin: int, until: int, commit: str) -> int:
    """One row of the table, of worlds with some of the first two windows; returns how many differences there were."""
    product, program = Product(NAMELESS, alike=NAMELESS.people), ROOT / ".proofs" / "model"
    began, differ, worlds = time.process_time(), 0, 0
    prefixes = product.walk(product.begun(), NAMELESS.windows - 1)
    for prefix in itertools.islice(prefixes, begin, until):
        courses = list(product.walk(prefix, NAMELESS.windows))
        runs = [product.ended(course) for course in courses]
        found = differing_runs(product, [course.trails for course in courses], runs, program)
        for each in found[:3]:
            print(each, flush=True)
        differ += len(found)
        worlds += len(courses)
    spent = time.process_time() - began
    row = (begin, until, worlds, len(product.answered), differ, commit, round(1e3 * spent / worlds, 1))
    table.rows.append(row)
    table.rows.sort()
    print(table.render().splitlines()[-1], flush=True)
    return differ


def earlier_rows(folder: Path, table: ResultTable, name: str) -> list[tuple[Any, ...]]:
    """What a table of a result file has; nothing where there is no such file."""
    file = folder / f"{name}.json"
    if not file.is_file():
        return []
    rows = json.loads(file.read_text(encoding="utf-8"))["tables"][0]["rows"]
    return [tuple(row[column] for column in table.columns) for row in rows]


def random_rules(rng: np.random.Generator) -> Rules:
    """A policy, and how many people and windows its feeds have."""
    k = int(rng.integers(2, 4))
    size = k + int(rng.integers(2))
    return Rules(
        int(rng.integers(k, 10)),
        int(rng.integers(1, 6)),
        k=k,
        cohort_size=size,
        intake=size + int(rng.integers(4)),
        percent=int(rng.choice([0, 0, 40, 75])),
        delay=int(rng.integers(3)),
    )


def measure_feeds(table: ResultTable, feeds: int, seed: int) -> int:
    """One row of the table, of so many feeds; returns how many differences there were."""
    program, rng = ROOT / ".proofs" / "model", np.random.default_rng(seed)
    began, differ, questions, policies = time.process_time(), 0, 0, 0
    for policies in range(1, -(-feeds // _FEEDS_A_POLICY) + 1):
        rules = random_rules(rng)
        product = Product(rules, alike=int(rng.integers(1, 4)))
        worlds = [rules.random(rng) for _ in range(_FEEDS_A_POLICY)]
        found = differences(product, worlds, program)
        for each in found[:3]:
            print(f"policy {policies}, {rules}, {product.alike} alike: {each}", flush=True)
        differ += len(found)
        questions += len(product.answered)
        if policies % 50 == 0:
            print(f"{policies * _FEEDS_A_POLICY:,} feeds, {differ} differences", flush=True)
    spent = time.process_time() - began
    run = policies * _FEEDS_A_POLICY
    table.rows.append((seed, policies, f"{run:,}", questions, differ, round(1e3 * spent / run, 1)))
    print(table.render().splitlines()[-1], flush=True)
    return differ


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="The step against its model, world by world.")
    parser.add_argument(
        "--most", type=int, default=20_000, help="worlds of a set; of a larger set, drawn at random"
    )
    parser.add_argument(
        "--begin", type=int, default=0, help="with --until: the first of the first two windows"
    )
    parser.add_argument(
        "--until", type=int, default=0, help="worlds up to names, of first windows before this"
    )
    parser.add_argument("--feeds", type=int, default=0, help="drawn at random, of policies drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of these")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("modelled_worlds", __doc__ or "", module="modelled_worlds")
    differ = 0
    if (missing := tools()) is not None:
        findings.skipped.append(missing)
    else:
        if not (ROOT / ".proofs" / "model").is_file():
            subprocess.run(["make", "--silent", "proofs"], cwd=ROOT, check=True)
        if arguments.until:
            findings.name = "modelled_nameless"
            columns = ("begin", "until", "worlds", "questions", "differences", "commit", "ms CPU a world")
            table = findings.table("Worlds of 6 people and 3 windows, up to names", columns)
            table.rows += earlier_rows(arguments.results, table, findings.name)
            differ = measure_nameless(table, arguments.begin, arguments.until, begun["commit"])
        elif arguments.feeds:
            findings.name = "modelled_feeds"
            columns = ("seed", "policies", "feeds", "questions", "differences", "ms CPU a feed")
            differ = measure_feeds(
                findings.table("Feeds drawn at random", columns), arguments.feeds, arguments.seed
            )
        else:
            columns = ("people", "windows", "k", "cohort size", "intake", "delay", "alike", "worlds")
            columns += ("questions", "differences", "ms CPU a world")
            table = findings.table("Product and model", columns)
            differ = sum(measure(table, rules, alike, arguments.most) for rules in SETS for alike in (2, 1))
    return publish(findings, arguments, begun) or int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
