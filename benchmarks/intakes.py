"""What does it gain newcomers to wait for each other, and how long do they?

A partition of 100,000 people to whom 2,000 new ones come a day, like sparkov's. They enter when so many wait: at the
least intake of k = 5, which is 1,000; at 5% of those who have entered, which is 5,000 and more; and at others. All
are founded by the product's own founding, in one process, one thread, the same secret; how the 100,000 were founded
does not matter to them.

Loss: GCP of the frozen boxes of 20,000 newcomers, mean over people. Ratio: to intakes of 1,000. Waits: days until the
last of an intake is there, for the first of it; a max_delay below that makes them enter earlier. Us: processor time of
founding, a person.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.data_sets import SPARKOV, MissingDataError, data_path
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.rosters import Crowd, text_table
from benchmarks.stopwatch import timed
from kanonflow.solvers.warm_up import warm_up_merging
from kanonflow.transforms.roster.founding import found
from kanonflow.transforms.roster.roster import RosterHead

NEWCOMERS, A_DAY, ENTERED = 20_000, 2_000, 100_000
INTAKES = (200, 500, 1_000, 2_000, 4_000, 5_000, 10_000, 20_000)
COLUMNS = ("intake", "of those who have entered %", "gcp", "ratio", "waits days", "us a person")


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="What waiting for an intake gains newcomers.")
    parser.add_argument("--newcomers", type=int, default=NEWCOMERS)
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("intakes", __doc__ or "")
    table = findings.table(f"{arguments.newcomers:,} newcomers, {A_DAY:,} a day", COLUMNS, "")
    try:
        data_path(SPARKOV)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    crowd = Crowd(text_table(SPARKOV))
    # Loads the kernels.
    found(crowd.draw(200)[1], RosterHead(1), crowd.bound, {}, seed=1, threads=1)
    warm_up_merging()
    _, everybody = crowd.draw(arguments.newcomers)
    # In the order in which they come, which their digests do not know.
    comes = np.random.default_rng(7).permutation(arguments.newcomers)
    losses: dict[int, tuple[float, float]] = {}
    for intake in INTAKES:
        lost = spent = 0.0
        for begin in range(0, arguments.newcomers, intake):
            enters = np.zeros(arguments.newcomers, dtype=np.bool_)
            enters[comes[begin : begin + intake]] = True
            founded, watch = timed(
                found, everybody.of(enters), RosterHead(1), crowd.bound, {}, seed=begin, threads=1
            )
            lost += founded.loss * enters.sum()
            spent += watch.cpu
        losses[intake] = lost / arguments.newcomers, 1e6 * spent / arguments.newcomers
    for intake, (loss, each) in losses.items():
        share = 100 * intake / ENTERED
        table.rows.append((intake, share, loss, loss / losses[1_000][0], intake / A_DAY, each))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
