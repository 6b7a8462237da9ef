"""What do 50 million people in 1,000 shards take: state, restart, intake, and who is where?

One shard: people like sparkov's (``benchmarks.rosters.Crowd``, seed 1), k = 5, a thousandth of ``--people``. Intake:
``found`` over all of them at once, one thread. Roster, pool: bytes as a checkpoint has them, of cohorts and of people
who wait. Restart: CPU of reading each from its bytes, median of ``--repeats``. All shards: the same times their number;
nothing in a shard hangs on the others.

The directory: the shard of each of ``--people``, as the run writes it and a worker of the same machine maps it; to make
it is to draw digests at random, sort them, and pack them. Looking up: the shards of 10,000 people who are in it, CPU,
median, once the file has been touched. A bucket: what the step of strangers keeps if nobody is in the directory, a
1,024th of the people: bytes, and CPU of reading and writing it once, which each firing of a bucket takes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.data_sets import SPARKOV, MissingDataError, data_path
from benchmarks.lasting import text_table
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.rosters import EPOCH, SEED, Crowd, milliseconds
from benchmarks.stopwatch import timed
from kanonflow.transforms.roster.first_partitions import (
    BUCKETS,
    FirstPartitions,
    first_partitions_from_bytes,
)
from kanonflow.transforms.roster.founding import found
from kanonflow.transforms.roster.pool import Pool
from kanonflow.transforms.roster.roster import RosterHead, roster_of
from kanonflow.transforms.roster.roster_state import pool_from_bytes, pool_to_bytes
from kanonflow.transforms.shards.known_shards import KnownShards

OF_SHARDS = ("what", "people", "intake CPU s", "roster MB", "pool MB", "roster restart ms", "pool restart ms")
OF_ROUTE = ("what", "people", "MB", "CPU s to make", "CPU ms")
LOOKED_UP = 10_000
MB = 1_000_000


def add_shards(table: ResultTable, crowd: Crowd, people: int, shards: int, repeats: int) -> None:
    """A row for one shard, and one for all."""
    pool: Pool = crowd.draw(people // shards)[1]
    made, spent = timed(found, pool, RosterHead(EPOCH), crowd.bound, {}, seed=SEED, threads=1)
    segment, waits = made.segment.to_bytes(), pool_to_bytes(pool)
    head = made.segment.after
    one = (
        spent.cpu,
        len(segment) / MB,
        len(waits) / MB,
        milliseconds(lambda: roster_of(head, [segment]), repeats),
        milliseconds(lambda: pool_from_bytes(waits), repeats),
    )
    table.rows.append(("one shard", pool.people.size, *one))
    table.rows.append((f"{shards:,} shards", people, *(shards * each for each in one)))


def known(people: int, shards: int, rng: np.random.Generator) -> FirstPartitions:
    """So many people in so many shards."""
    digests = np.unique(rng.integers(0, 1 << 64, size=people, dtype=np.uint64))
    shard = rng.integers(0, shards, size=digests.size, dtype=np.uint32)
    return FirstPartitions(digests, shard, tuple(rng.bytes(16) for _ in range(shards)))


def add_route(table: ResultTable, people: int, shards: int, repeats: int, place: Path) -> None:
    """A row for the directory, and one for a bucket of strangers."""
    rng = np.random.default_rng(SEED)
    everybody, made = timed(known, people, shards, rng)
    data, written = timed(everybody.to_bytes)
    path = place / "shards.state"
    path.write_bytes(data)
    there = KnownShards(str(path)).open()
    some = rng.choice(everybody.people, LOOKED_UP)
    looked = milliseconds(lambda: there.of(some), repeats)
    table.rows.append(
        ("the directory", everybody.people.size, len(data) / MB, made.cpu + written.cpu, looked)
    )
    bucket, made = timed(known, people // BUCKETS, shards, rng)
    state = bucket.to_bytes()
    turn = milliseconds(lambda: first_partitions_from_bytes(state).to_bytes(), repeats)
    table.rows.append(("a bucket of strangers", bucket.people.size, len(state) / MB, made.cpu, turn))


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Many people in many shards.")
    parser.add_argument("--people", type=int, default=50_000_000)
    parser.add_argument("--shards", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--note", default="", help="a sentence on the circumstances, for the results")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("many_shards", __doc__ or "")
    of_shards = findings.table("Shards", OF_SHARDS, arguments.note)
    try:
        data_path(SPARKOV)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
    else:
        crowd = Crowd(text_table(SPARKOV))
        # Loads the kernels.
        found(crowd.draw(200)[1], RosterHead(EPOCH), crowd.bound, {}, seed=SEED, threads=1)
        add_shards(of_shards, crowd, arguments.people, arguments.shards, arguments.repeats)
    with tempfile.TemporaryDirectory() as place:
        add_route(
            findings.table("Who is where", OF_ROUTE),
            arguments.people,
            arguments.shards,
            arguments.repeats,
            Path(place),
        )
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    sys.exit(main())
