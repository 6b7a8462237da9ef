"""Schedules by the thousand: ``make simulate SCHEDULES=n SEED=s``.

A failure prints its seed, the commit, what does not hold, and the schedule shrunk to what matters; the same seed on the
same commit plays it again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.simulation.audits import audited
from tests.simulation.invariants import broken, out_of, pair, shown, unlike_quiet
from tests.simulation.play import Played, play
from tests.simulation.store import Store, serving
from tests.simulation.worlds import Schedule, drawn, feed_of


class Verdict(NamedTuple):
    """Of one schedule. found: what does not hold, as sentences."""

    schedule: Schedule
    found: tuple[str, ...]
    played: Played | None


def judged(schedule: Schedule, *, twin: bool = True, quiet: bool = True) -> Verdict:
    """Play a schedule and say what does not hold. twin, quiet: whether to compare with those."""
    feed = feed_of(schedule)
    with serving(Store()) as store:
        try:
            played = play(schedule, feed, store)
        except Exception as error:
            return Verdict(schedule, (f"ends: {type(error).__name__}: {error}",), None)
        out = out_of(played)
        found = list(broken(played, out))
    if quiet:
        found += unlike_quiet(played, out)
    if not found:
        found += audited(played)
    if twin and schedule.protection == "lasting" and not found and (changes := pair(played, out)):
        with serving(Store()) as store:
            try:
                other = play(schedule, feed.exchanged(changes), store)
            except Exception as error:
                return Verdict(schedule, (f"exchanged: {type(error).__name__}: {error}",), None)
            one, its = shown(played, out), shown(other, out_of(other))
        if differing := sorted(name for name in {*one, *its} if one.get(name) != its.get(name)):
            found.append(f"exchanged: two people of a cohort, and {', '.join(differing[:4])} differ")
    return Verdict(schedule, tuple(found), played)


def shrunk(schedule: Schedule, found: Sequence[str]) -> Schedule:
    """The schedule without what does not matter to the first thing that was found."""
    kind = found[0].split(":")[0]
    left = True
    while left:
        left = False
        for number in range(len(schedule.disturbances)):
            less = schedule.without(number)
            if any(each.startswith(kind) for each in judged(less).found):
                schedule, left = less, True
                break
    return schedule


def schedules(first: int, count: int) -> Iterator[Schedule]:
    """Those of so many seeds."""
    return (drawn(seed) for seed in range(first, first + count))


def main(arguments: Sequence[str] | None = None) -> int:
    """Play schedules, and say what was found; 1 where something was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=5, help="failures after which it ends")
    asked = parser.parse_args(arguments)
    begin, failed = time.process_time(), 0
    played: Counter[str] = Counter()
    releases = refused = starts = 0
    done = 0
    for schedule in schedules(asked.seed, asked.schedules):
        done += 1
        verdict = judged(schedule)
        played[f"{schedule.mode} of {schedule.protection}"] += 1
        if verdict.played is not None:
            starts += verdict.played.starts
            refused += verdict.played.refused
            releases += sum(
                len(verdict.played.store.below(f"{output}/release")) for output in verdict.played.outputs
            )
        if verdict.found:
            failed += 1
            print(f"FAILED at commit {_commit()}: {schedule}")
            for sentence in verdict.found:
                print(f"    {sentence}")
            print(f"    shrunk to {shrunk(schedule, verdict.found)}", flush=True)
            if failed >= asked.most:
                break
    seconds = time.process_time() - begin
    print(
        f"{done} schedules from seed {asked.seed}, {failed} failed; {starts} starts, {releases} releases,"
        f" {refused} older states refused; {seconds:.0f} s of CPU, {1000 * seconds / done:.0f} ms a schedule"
    )
    print(", ".join(f"{name} {count}" for name, count in sorted(played.items())))
    return 1 if failed else 0


def _commit() -> str:
    told = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return told.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
