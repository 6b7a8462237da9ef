"""What a renewal gains, and what it costs who is in it: cohorts kept, of blocks, and searched (``renew:``).

The people of ``lasting``'s feeds, one row each with the values of their first rows, entered in intakes of 200, in an
order that means nothing. Then of every tenth person all values are those of another person: they moved. All are
renewed, under their values now.

    before, after   GCP of the boxes of the old cohorts and of the new ones, both of the values now, one row a person
    cold            the same of a search that begins without the old cohorts; us: CPU a person, of both searches
    least, mean     people, himself among them, who share both of a person's cohorts; alone: share with nobody else
    kept            mean share of the others of a person's old cohort that are in his new one
    again           least, after a second renewal in the same way, in which every tenth person moved once more
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data_sets import MissingDataError
from benchmarks.known_people import people_of
from benchmarks.lasting import FEEDS, Source
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.renew import RenewedCohorts
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.warm_up import warm_up_merging
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.roster.founding import budget_of, found, put_together
from kanonflow.transforms.roster.pool import empty_pool, quasi_schema
from kanonflow.transforms.roster.renewal import Renewal, renewed
from kanonflow.transforms.roster.roster import Roster, empty_roster
from kanonflow.transforms.rows.classify import cells_of

COLUMNS = (
    "feed", "people", "cohorts of", "renewed", "before", "after", "cold", "least", "mean", "alone %", "kept %", "again",
    "us", "us cold",
)  # fmt: skip
INTAKE, MOVED = 200, 10
FORMS = (
    (1, RenewedCohorts.KEPT, 2),
    (1, RenewedCohorts.SEARCHED, 2),
    (2, RenewedCohorts.KEPT, 2),
    (2, RenewedCohorts.BLOCKS, 5),
    (2, RenewedCohorts.SEARCHED, 2),
)
"""Size of cohorts in k, what becomes of them, and min_peers."""


def frozen(source: Source, bound: BoundPolicy) -> pa.Table:
    """The values of everybody, in an order that means nothing."""
    people = people_of(source, 1)
    columns = {
        column.name: cells_of(column, people.column(column.name).combine_chunks())[0]
        for column in bound.quasis
    }
    return pa.table(columns).cast(quasi_schema(bound)).combine_chunks()


def entered(values: pa.Table, bound: BoundPolicy) -> Roster:
    """The roster of people who entered by intakes, as they came."""
    roster, digests = empty_roster(1), np.arange(values.num_rows, dtype=np.uint64)
    domains = encode(values, bound, None, {}).domains
    ends = [*range(INTAKE, values.num_rows - INTAKE // 2, INTAKE), values.num_rows]
    for begin, end in zip([0, *ends], ends, strict=False):
        pool = empty_pool(bound).expecting(digests[begin:end], values.slice(begin, end - begin), bound)
        roster = roster.followed_by(found(pool, roster.head, bound, domains, seed=1, threads=1).segment)
    return roster


def moved(values: pa.Table, seed: int) -> pa.Table:
    """Every tenth person has the values of another."""
    rng, pick = np.random.default_rng(seed), np.arange(values.num_rows)
    some = rng.permutation(values.num_rows)[: values.num_rows // MOVED]
    pick[some] = rng.integers(values.num_rows, size=some.size)
    return values.take(pa.array(pick)).combine_chunks()


def renew(
    roster: Roster,
    values: pa.Table,
    together: NDArray[np.int64],
    bound: BoundPolicy,
    form: RenewedCohorts,
    peers: int,
) -> Renewal:
    """Everybody, known."""
    nobody = np.zeros(values.num_rows, dtype=np.bool_)
    return renewed(roster, values, nobody, together, bound, 2, cohorts=form, peers=peers, seed=2, threads=1)


def rows_of_feed(source: Source) -> list[tuple[Any, ...]]:
    """One row a form."""
    rows = []
    for times, form, peers in FORMS:
        size = times * source.policy.k
        policy = replace(source.policy, cohort_size=size, intake=max(size, source.policy.intake or 0))
        bound = bind(policy, source.table.schema, text=True, source=source.name)
        values = frozen(source, bound)
        roster, now = entered(values, bound), moved(values, 1)
        made, spent = timed(renew, roster, now, roster.cohort, bound, form, peers)
        again = renew(
            empty_roster(2).followed_by(made.segment), moved(now, 2), made.together, bound, form, peers
        )
        cold = us = None
        if form is RenewedCohorts.SEARCHED:
            table = encode(now, bound, None, {}).table
            budget = budget_of(None, table.records, size)
            (labels, _), own = timed(put_together, table, policy, size, budget, 2, 1)
            cold, us = gcp(table, Partition(labels.astype(np.int32))), 1e6 * own.cpu / values.num_rows
        rows.append(
            (
                source.name, values.num_rows, size, str(form), made.before, made.after, cold, int(made.left.min()),
                float(made.left.mean()), 100 * float((made.left == 1).mean()), 100 * float(made.staying.mean()),
                int(again.left.min()), 1e6 * spent.cpu / values.num_rows, us,
            )
        )  # fmt: skip
    return rows


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="A new epoch of people who are known.")
    feeds = [name for name in FEEDS if name != "sparkov weeks"]  # it has the people of its days
    parser.add_argument("--feeds", nargs="*", choices=list(FEEDS), default=feeds)
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("renewal", __doc__ or "")
    table = findings.table("People of an epoch that ended", COLUMNS)
    warm_up_merging()
    for name in arguments.feeds:
        try:
            table.rows += rows_of_feed(FEEDS[name]())
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
