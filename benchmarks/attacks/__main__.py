"""How often does an attacker who has the released files find the right record, and what is left to him?

Data: the made-up demo feed (days of about 150 rows and 60 people, or about 130 people where each row is its own
individual), policy ``transactions``; sparkov's days (about 2,300 rows) and Adult's first 3,000 rows where
KANONFLOW_DATA names them. k = 5 unless a table says otherwise. Releases are made by ``release_window``, window after
window, one thread, with a search of 200 evaluations a row: less than the default, which moves boxes and not promises.
Secrets follow from a number, so that a run repeats.

An attacker has the released rows in the order of the file, every quasi-identifier, the members of every slot and class
(which the promise grants), and what a table names. Rates are shares of right guesses over all guesses. Naive publishers
leave out one step of the recipe each: they are in the same tables. ``within`` compares with a 99.9% interval about the
chance that the structure allows, so that one in a thousand such lines is out of it by accident. No times are measured;
the whole takes a few CPU minutes.
"""

from __future__ import annotations

import argparse

from benchmarks.attacks import (
    across_windows,
    homogeneity,
    identity_and_order,
    known_matches,
    linked_rows,
    predictable_seed,
    replay,
)
from benchmarks.attacks.effort import FULL, QUICK
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from kanonflow.solvers.warm_up import warm_up

ATTACKS = (
    identity_and_order,
    replay,
    predictable_seed,
    known_matches,
    linked_rows,
    across_windows,
    homogeneity,
)
NAMES = {module.__name__.rsplit(".", 1)[-1]: module for module in ATTACKS}


def main(argv: list[str] | None = None) -> int:
    """Run the attacks; returns the exit code."""
    parser = argparse.ArgumentParser(description="Attacks on releases, against naive publishers and chance.")
    parser.add_argument("names", nargs="*", help=f"only these: {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="a few releases, to see that the bench works")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    if unknown := sorted(set(arguments.names) - set(NAMES)):
        parser.error(f"unknown attack {', '.join(unknown)}: choose from {', '.join(NAMES)}")
    begun = environment()
    findings = Findings("attacks", __doc__ or "")
    warm_up()
    charts: dict[str, str] = {}
    for name in arguments.names or NAMES:
        charts |= NAMES[name].measure(findings, QUICK if arguments.quick else FULL)
    code = publish(findings, arguments, begun)
    for name, chart in charts.items():
        (arguments.results / f"attacks_{name}.svg").write_text(chart, encoding="utf-8")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
