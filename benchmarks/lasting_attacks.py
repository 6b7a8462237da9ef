"""What is left of k over an epoch: attacks on cohorts that last, and on the designs that were not taken.

Data: the first 91 days of sparkov (``--days``), policy ``sparkov`` with ``cohort: lasting``, no partitions, k = 5,
cohorts of 5; the product's own step, one thread, default effort. Each row's transaction number stands in the payload,
so that rows are linked without a mistake. Naive designs live on the same people and the same days, with the numeric
quasi-identifiers only (birth, place, size of the town), in cohorts of the product's own solver over those who were
there in the first three days.

A reader knows everybody's quasi-identifiers and the algorithm, and links all rows of a person. Of activity he knows
what a line names. *candidates* are the people (or of somebody known, the bundles) that he cannot rule out; the true
one is always among them. The reader of the product's releases is ``lasting_reader``, which shares no code with it.
Everything random has a seed. No times are measured; 91 days take a few minutes.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data_sets import SPARKOV, Feed, MissingDataError, data_path, example_policy, read_feed
from benchmarks.lasting_reader import Truth, bundles, epoch_candidates, first_releases
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from kanonflow.schemas.policy import Cohort, Policy
from kanonflow.schemas.policy_fields import Field, Role
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.roster.roster import segment_from_bytes
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.secret.seeds import Secret
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from kanonflow.transforms.windows.step import PartitionStep

K = 5
FOUNDING_DAYS = 3
"""Who was there by then founds the cohorts of the naive designs."""
SILENT_DAYS = 3
"""Who was away for longer is forgotten by the design that forgets."""
MOVERS = 0.05
VICTIMS, PLANTS = 40, 4
CHURN = 0.2
EFFORT = 500.0
SECRET = Secret(bytes(range(32)))
TAG = "trans_num"
COLUMNS = ("design", "attack", "followed", "candidates, mean", "fewest", "below k %", "one left %")


class People(NamedTuple):
    """points: float64 (p, d), scaled numeric quasi-identifiers. active: bool (t, p), who has rows in which window."""

    points: NDArray[np.float64]
    active: NDArray[np.bool_]


def spread(counts: Iterable[int]) -> tuple[float | int | None, ...]:
    """Of candidates: how many were followed, mean, fewest, share below k and of one."""
    left = np.fromiter(counts, dtype=np.int64)
    if left.size == 0:
        return (0, None, None, None, None)
    return (
        left.size, float(left.mean()), int(left.min()), 100 * float((left < K).mean()), 100 * float((left == 1).mean())
    )  # fmt: skip


def founded(points: NDArray[np.float64], size: int, seed: int = 1) -> NDArray[np.int64]:
    """Cohorts of at least ``size``, int64 (p,), by the product's solver; one point a person."""
    n, d = points.shape
    table = Table(points, np.empty((n, 0), np.int32), np.empty(0, np.int64), np.ones(d), np.arange(n))
    return solve(
        Task(table, size, shape="classes", budget=Budget(EFFORT), seed=seed)
    ).partition.labels.astype(np.int64)


def hull(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Low and high ends, float64 (d,) each."""
    return points.min(axis=0), points.max(axis=0)


def grown_box_candidates(
    old: NDArray[np.float64], joined: NDArray[np.float64], unseen: NDArray[np.float64]
) -> int:
    """Who of the unseen may be one of the joiners of a box that grew in one release.

    old, joined: points of its people, (m, d) and (j, d). unseen: (u, d), the joiners among them. A joiner lies in the
    new box; one who came alone explains all of its growth.
    """
    low, high = hull(np.concatenate([old, joined]))
    inside = ((unseen >= low) & (unseen <= high)).all(axis=1)
    if len(joined) == 1:
        before_low, before_high = hull(old)
        grown_low, grown_high = low < before_low, high > before_high
        inside &= (unseen[:, grown_low] == low[grown_low]).all(axis=1)
        inside &= (unseen[:, grown_high] == high[grown_high]).all(axis=1)
    return int(inside.sum())


def silent_join_candidates(box: NDArray[np.float64], everybody: NDArray[np.float64]) -> int:
    """Who may have joined a box that did not grow: all who lie in it but those who alone hold one of its sides.

    box: points of its founders. everybody: (p, d). Whoever alone holds a side was there when the box came to be.
    """
    low, high = hull(box)
    inside = everybody[((everybody >= low) & (everybody <= high)).all(axis=1)]
    alone = np.zeros(len(inside), dtype=np.bool_)
    for side in (low, high):
        held = inside == side
        alone |= (held & (held.sum(axis=0) == 1)).any(axis=1)
    return int((~alone).sum())


def present_hull_candidates(points: NDArray[np.float64], active: NDArray[np.bool_]) -> list[int]:
    """Of each member of a cohort with rows, who its bundle can be where a box is the hull of those present.

    points: (m, d). active: bool (t, m). A member is ruled out who lies outside of the hull of a window with rows of the
    bundle, or alone holds a side of one without.
    """
    m = len(points)
    possible = np.ones((m, m), dtype=np.bool_)  # bundle, member
    for here in active:
        if not here.any():
            continue
        low, high = hull(points[here])
        inside = ((points >= low) & (points <= high)).all(axis=1)
        needed = np.zeros(m, dtype=np.bool_)
        for side in (low, high):
            held = points == side
            needed |= (held & (held.sum(axis=0) == 1)).any(axis=1)
        possible[here] &= inside
        possible[~here] &= ~needed
    return possible.sum(axis=1)[active.any(axis=0)].tolist()


def moved_candidates(active: NDArray[np.bool_], mover: int, since: int) -> int | None:
    """Bundles that may be of somebody who moved, where the box grows in the first window with rows after the move.

    active: bool (t, m), of the cohort. None: there is no such window.
    """
    after = np.flatnonzero(active[since:, mover])
    return None if after.size == 0 else int(active[since + after[0]].sum())


def known_activity_candidates(active: NDArray[np.bool_], person: int, windows: NDArray[np.int64]) -> int:
    """Members of a cohort who were there in the same ones of some windows as a person. active: bool (t, m)."""
    return int((active[windows] == active[windows, person][:, None]).all(axis=0).sum())


def forgotten_candidates(people: People, silent: int, size: int, found: Callable[..., Any]) -> list[int]:
    """Of everybody who came back after being forgotten, who is in all of its cohorts.

    Newcomers, and those who were away for more than ``silent`` windows, are put into cohorts as soon as ``size`` of
    them are there. found(points, size) -> labels.
    """
    count = people.active.shape[1]
    last = np.full(count, -1)
    known = np.zeros(count, dtype=np.bool_)
    of: list[list[frozenset[int]]] = [[] for _ in range(count)]
    pool: set[int] = set()
    for window, here in enumerate(people.active):
        known &= last >= window - silent - 1
        pool |= set(np.flatnonzero(here & ~known).tolist())
        last[here] = window
        if len(pool) < size:
            continue
        entering = np.array(sorted(pool))
        labels = np.asarray(found(people.points[entering], size))
        for label in np.unique(labels):
            members = frozenset(entering[labels == label].tolist())
            for person in members:
                of[person].append(members)
        known[entering], last[entering] = True, window
        pool.clear()
    return [len(frozenset.intersection(*cohorts)) for cohorts in of if len(cohorts) > 1]


def planted_candidates(
    points: NDArray[np.float64], victims: NDArray[np.int64], plants: int, size: int, found: Callable[..., Any]
) -> list[int]:
    """People of each victim's cohort who are none of the accounts that an attacker made with its attributes."""
    labels = np.asarray(found(np.concatenate([points, np.repeat(points[victims], plants, axis=0)]), size))
    own = labels[len(points) :].reshape(victims.size, plants)
    members = np.bincount(labels[labels >= 0])
    return [
        int(members[labels[victim]] - (own[place] == labels[victim]).sum())
        for place, victim in enumerate(victims)
    ]


def after_churn(
    sizes: NDArray[np.int64], rate: float, years: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Candidates of somebody who is still there, where the reader knows who has left. sizes: of people's cohorts."""
    return 1 + rng.binomial(sizes - 1, (1 - rate) ** years)


def naive_designs(people: People) -> Iterable[tuple[Any, ...]]:
    """Lines of the designs that were not taken."""
    points, active = people
    t, p = active.shape
    rng = np.random.default_rng(1)
    first = np.array(
        [np.flatnonzero(active[:, person])[0] if active[:, person].any() else t for person in range(p)]
    )
    founders = np.flatnonzero(first < FOUNDING_DAYS)
    labels = founded(points[founders], K)
    cohorts = [founders[labels == number] for number in range(labels.max() + 1)]
    yield (
        "newcomers join, boxes grow",
        "the box before and after",
        *spread(_grown(points, first, cohorts, t)),
    )
    silent = [
        silent_join_candidates(points[cohort], points)
        for person in np.flatnonzero((first >= FOUNDING_DAYS) & (first < t))
        for cohort in _holding(points, cohorts, person)
    ]
    yield ("newcomers join boxes that hold them", "who holds a side alone is a founder", *spread(silent))
    present = [
        left for cohort in cohorts for left in present_hull_candidates(points[cohort], active[:, cohort])
    ]
    yield ("boxes are hulls of those present", "who holds a side was there", *spread(present))
    moved = []
    for cohort in cohorts:
        low, high = hull(points[cohort])
        for member in np.flatnonzero(rng.random(cohort.size) < MOVERS):
            to = points[rng.integers(p)]
            if ((to < low) | (to > high)).any():
                left = moved_candidates(active[:, cohort], int(member), int(rng.integers(FOUNDING_DAYS, t)))
                moved += [] if left is None else [left]
    yield ("boxes grow with changed values", "who was there when it grew", *spread(moved))
    yield (
        f"people are forgotten after {SILENT_DAYS} windows", "a bundle is in both cohorts",
        *spread(forgotten_candidates(people, SILENT_DAYS, K, founded)),
    )  # fmt: skip


def _grown(
    points: NDArray[np.float64], first: NDArray[np.int64], cohorts: list[NDArray[np.int64]], windows: int
) -> list[int]:
    """Candidates of all who join, each the cohort whose box grows least."""
    of = [cohort.tolist() for cohort in cohorts]
    left = []
    for window in range(FOUNDING_DAYS, windows):
        unseen = points[first >= window]
        joiners: dict[int, list[int]] = {}
        ends = [hull(points[cohort]) for cohort in of]
        for person in np.flatnonzero(first == window):
            growth = [
                float((np.maximum(high, points[person]) - np.minimum(low, points[person]) - high + low).sum())
                for low, high in ends
            ]
            joiners.setdefault(int(np.argmin(growth)), []).append(int(person))
        for number, people in joiners.items():
            left += [grown_box_candidates(points[of[number]], points[people], unseen)] * len(people)
            of[number] += people
    return left


def _holding(
    points: NDArray[np.float64], cohorts: list[NDArray[np.int64]], person: int
) -> list[NDArray[np.int64]]:
    """The first cohort whose box holds somebody, if one does."""
    for cohort in cohorts:
        low, high = hull(points[cohort])
        if ((points[person] >= low) & (points[person] <= high)).all():
            return [cohort]
    return []


class Ours(NamedTuple):
    """Releases of the product.

    rows: of each, in the order of time. cohort: int64 (p,), -1: never entered. entered: int64 (p,), with which release.
    """

    rows: list[list[Mapping[str, Any]]]
    cohort: NDArray[np.int64]
    entered: NDArray[np.int64]


def released(feed: Feed, names: list[str]) -> Ours:
    """The product's releases of a feed of one partition, and the cohorts of these people."""
    partition = PartitionInMemory(PartitionStep(feed.bound, SECRET, 1, epoch=1), b"one partition")
    for window in feed.windows:
        partition.arrive(window.number, window.rows)
    return shown(partition.finish(), names)


def shown(results: Iterable[WindowResult], names: list[str]) -> Ours:
    """What results show of these people."""
    rows: list[list[Mapping[str, Any]]] = []
    cohort, entered = np.full((2, len(names)), -1, dtype=np.int64)
    digests = person_digests(names, SECRET.lasting.derive("partition", "people"))
    place = {int(digest): number for number, digest in enumerate(digests)}
    for result in results:
        if result.release is not None:
            rows.append(from_ipc(result.release.ipc).to_pylist())
        if result.segment is not None:
            segment = segment_from_bytes(result.segment)
            people = [place[person] for person in segment.people.tolist()]
            cohort[people], entered[people] = segment.cohort, len(rows) - 1
    return Ours(rows, cohort, entered)


def lasting_lines(ours: Ours, truth: Truth, people: People) -> Iterable[tuple[Any, ...]]:
    """Lines of cohorts that last."""
    cohort, active = ours.cohort, people.active
    rng = np.random.default_rng(2)
    found = bundles(ours.rows, truth, TAG)
    known = {
        "all boxes, and with which release everybody entered": ours.entered,
        "all boxes, and in which release everybody's first row is (not promised)": first_releases(
            found, len(truth.values)
        ),
    }
    for told, since in known.items():
        left = epoch_candidates(found, truth, since)
        yield ("cohorts that last", told, *spread(map(len, left.values())))
    members = {number: np.flatnonzero(cohort == number) for number in np.unique(cohort[cohort >= 0])}
    yield (
        "cohorts that last", "the cohort itself, as the promise grants",
        *spread(members[cohort[person]].size for person in found),
    )  # fmt: skip
    for told, choose in KNOWN.items():
        counts = []
        for person in found:
            windows = choose(active[:, person], rng)
            if windows is not None:
                own = members[cohort[person]]
                counts.append(
                    known_activity_candidates(active[:, own], int(np.searchsorted(own, person)), windows)
                )
        yield ("cohorts that last", f"known of activity: {told}", *spread(counts))
    sizes = np.array([members[cohort[person]].size for person in found])
    for years in (1, 3):
        yield (
            "cohorts that last", f"who has left is known, {100 * CHURN:.0f}% a year, {years} years",
            *spread(after_churn(sizes, CHURN, years, rng)),
        )  # fmt: skip
    victims = rng.choice(len(people.points), VICTIMS, replace=False)
    for size in (K, 2 * K):
        yield (
            "cohorts that last", f"{PLANTS} accounts planted with a victim's attributes, cohorts of {size}",
            *spread(planted_candidates(people.points, victims, PLANTS, size, founded)),
        )  # fmt: skip


def groups_met(ours: Ours, truth: Truth) -> dict[int, int]:
    """How many cohorts are in all groups that a bundle was in."""
    common: dict[int, set[int]] = {}
    for rows in ours.rows:
        groups: dict[int, set[int]] = {}
        for row in rows:
            groups.setdefault(row["class_id"], set()).add(int(ours.cohort[truth.owner[row[TAG]]]))
        for row in rows:
            person = truth.owner[row[TAG]]
            common[person] = common.get(person, groups[row["class_id"]]) & groups[row["class_id"]]
    return {person: len(cohorts) for person, cohorts in common.items()}


def _some(count: int) -> Callable[[NDArray[np.bool_], np.random.Generator], NDArray[np.int64] | None]:
    def chosen(active: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64] | None:
        here = np.flatnonzero(active)
        return None if here.size < count else rng.choice(here, count, replace=False)

    return chosen


def _gap(active: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64] | None:
    """The longest time without rows between two windows with rows, if it has three windows."""
    here = np.flatnonzero(active)
    lengths = np.diff(here)
    if lengths.size == 0 or lengths.max() < 4:
        return None
    begin = here[np.argmax(lengths)]
    return np.arange(begin + 1, begin + lengths.max())


def _whole(active: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64] | None:
    return rng.choice(active.size, 5, replace=False) if active.size >= 5 else None


KNOWN = {
    "one window with rows": _some(1),
    "three windows with rows": _some(3),
    "the longest gap of three windows or more": _gap,
    "five windows, there or not": _whole,
}


def lasting_policy() -> Policy:
    """Sparkov with cohorts that last; the transaction's number is published, for the truth's sake."""
    policy = example_policy("sparkov")
    fields = tuple(
        Field(field.name, Role.INSENSITIVE) if field.name == TAG else field for field in policy.fields
    )
    return dataclasses.replace(
        policy,
        fields=fields,
        cohort=Cohort.LASTING,
        cohort_size=K,
        intake=None,
        intake_share=None,
        max_outdated=None,
        partition_by=(),
    )


def truth_of(feed: Feed) -> tuple[list[str], Truth, People]:
    """Names of the people of a feed, the truth about them, and their points and activity. Values are of first rows."""
    policy = feed.bound.policy
    assert policy.individual is not None
    who = [
        window.rows.column(policy.individual.name).cast(pa.string()).to_pylist() for window in feed.windows
    ]
    names = sorted({name for window in who for name in window})
    place = {name: number for number, name in enumerate(names)}
    everything = pa.concat_tables([window.rows for window in feed.windows])
    owner = np.array([place[name] for window in who for name in window])
    first = np.unique(owner, return_index=True)[1]
    rows = everything.take(pa.array(first))
    values = [
        {column.published_name: row[column.name] for column in feed.bound.quasis} for row in rows.to_pylist()
    ]
    tags = everything.column(TAG).to_pylist()
    active = np.zeros((len(who), len(names)), dtype=np.bool_)
    for number, window in enumerate(who):
        active[number, [place[name] for name in window]] = True
    points = encode(rows, feed.bound, None, {}).table.numeric
    return names, Truth(values, dict(zip(tags, owner.tolist(), strict=True))), People(points, active)


def main(argv: list[str] | None = None) -> int:
    """Run the attacks; returns the exit code."""
    parser = argparse.ArgumentParser(description="Attacks on cohorts that last, and on naive designs.")
    parser.add_argument("--days", type=int, default=91, help="days of sparkov")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("lasting_attacks", __doc__ or "")
    table = findings.table(
        f"Candidates over an epoch, k = {K}",
        COLUMNS,
        "followed: joiners, movers, who came back, victims, or all bundles. Naive designs first. The promise is about"
        " readers who know nothing of activity: what is below k under known activity, churn and plants is what the"
        " documents warn of.",
    )
    try:
        feed = read_feed(data_path(SPARKOV), lasting_policy(), days=arguments.days, lasting=True)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    names, truth, people = truth_of(feed)
    ours = released(feed, names)
    table.rows += naive_designs(people)
    table.rows += lasting_lines(ours, truth, people)
    met = np.array(list(groups_met(ours, truth).values()))
    findings.table(
        "Cohorts that are in all groups of a bundle",
        ("bundles", "cohorts, mean", "one left %"),
        "Merging for a window hides no cohort from who links rows: whatever is to hold over an epoch, such as"
        " diversity, must hold in each cohort.",
    ).rows.append((met.size, float(met.mean()), 100 * float((met == 1).mean())))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
