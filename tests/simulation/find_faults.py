"""In how many schedules the simulator finds each fault of old: ``python -m tests.simulation.find_faults``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import pytest

from tests.simulation.old_faults import FAULTS, Fault
from tests.simulation.simulate import Verdict, judged, schedules


def found(fault: Fault, first: int, most: int) -> Verdict | None:
    """The first schedule from a seed on in which a fault is found; None: in none of so many."""
    with pytest.MonkeyPatch.context() as patch:
        fault.put_back(patch)
        able = (each for each in schedules(first, most) if fault.can_show(each))
        return next((verdict for each in able if (verdict := judged(each)).found), None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each fault; 1 where one was not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first fault")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args(arguments)
    missed = 0
    for fault in FAULTS[asked.first :]:
        if asked.names and not any(name in fault.name for name in asked.names):
            continue
        verdict = found(fault, asked.seed, asked.most)
        if verdict is None:
            missed += 1
            print(f"| {fault.name} | {fault.told} | not in {asked.most} | |", flush=True)
        else:
            number = verdict.schedule.seed - asked.seed + 1
            print(f"| {fault.name} | {fault.told} | {number} | {verdict.found[0][:150]} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
