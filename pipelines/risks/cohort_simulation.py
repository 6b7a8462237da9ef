"""What would cohorts of so many people lose over this feed, and whom would they leave to a reader who knows more?

simulate(sample, bound, size) -> Simulation     the founding of every intake, as a run would do it
window_loss(...)                                merged as windows are, over some windows
candidates(...)                                 under a known match, planted accounts, churn
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import bdtr

from kanonflow.pipelines.risks.intakes import NEVER, entry_windows
from kanonflow.pipelines.risks.trails import Trails
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.kinds.domains import Domains
from kanonflow.transforms.release.ledger import own_ends
from kanonflow.transforms.roster.founding import found
from kanonflow.transforms.roster.pool import Pool, empty_pool
from kanonflow.transforms.roster.roster import Roster, RosterHead, empty_roster
from kanonflow.transforms.roster.window_groups import no_groups, window_groups

Numbers = NDArray[np.int64]
MOST_PEOPLE = 10_000
PLANTS = 4
STAY = 0.8
"""Share of people who are still there a year later, where the reader knows who has left."""
WINDOWS = 5
_MOST_VICTIMS, _LEAST_VICTIMS, _MOST_PLANTINGS = 200, 20, 5
_SEED = 1


class Left(NamedTuple):
    """Candidates that a reader is left with. mean: of them. below: share of the people left with fewer than k."""

    mean: float
    below: float


@dataclass(frozen=True)
class FoundedPartition:
    """A partition's roster at the end of the feed. members: int64, of the trails, sorted.

    domains: of the boxes.
    """

    members: Numbers
    roster: Roster
    domains: Domains


@dataclass(frozen=True)
class Simulation:
    """Cohorts of a feed.

    size: people a cohort at least.
    cohort: int64 (m,), of each member of the trails, 0 .. c-1; -1: in none.
    entered: int64 (m,), the window with which each entered; ``intakes.NEVER``.
    sizes: int64 (c,), people of each cohort.
    loss: GCP of the cohorts' hulls, one point a person.
    intakes: people of each intake.
    partitions: the rosters. largest: whom the largest intake took in.
    """

    size: int
    cohort: Numbers
    entered: Numbers
    sizes: Numbers
    loss: float
    intakes: tuple[int, ...]
    partitions: tuple[FoundedPartition, ...]
    largest: Pool | None


def simulated_members(trails: Trails, most: int = MOST_PEOPLE) -> Numbers:
    """Members whose cohorts are simulated: of whole partitions, the largest first, until there are so many.

    Of the first partition that is larger than that, those who came first: their cohorts are what they would be.
    """
    people = np.bincount(trails.partition, minlength=trails.partitions)
    taken: list[Numbers] = []
    left = most
    for partition in np.argsort(-people, kind="stable"):
        own = np.flatnonzero(trails.partition == partition)
        if own.size > left:
            if not taken:
                taken.append(np.sort(own[np.argsort(trails.first[own], kind="stable")[:left]]))
            break
        taken.append(own)
        left -= own.size
    return np.concatenate(taken) if taken else np.empty(0, dtype=np.int64)


def simulate(
    trails: Trails,
    members: Numbers,
    bound: BoundPolicy,
    size: int,
    *,
    digests: NDArray[np.uint64] | None = None,
    domains: Sequence[Domains] | None = None,
) -> Simulation:
    """Every intake of these members founded, in cohorts of ``size`` or more. Deterministic. Time: the solver's.

    digests: uint64 (m,), of each member of the trails, by which rosters know them; None: their place among the members
    of their partition. domains: of each partition, before anybody enters; None: those of nobody.
    The search's seed is the policy's; without one it is always the same.
    """
    bound = _of_size(bound, size)
    given = bound.policy.solver.seed
    seed = _SEED if given is None else given
    cohort = np.full(trails.partition.size, -1, dtype=np.int64)
    entered = np.full(trails.partition.size, NEVER, dtype=np.int64)
    sizes: list[Numbers] = []
    losses: list[float] = []
    intakes: list[int] = []
    partitions: list[FoundedPartition] = []
    largest: Pool | None = None
    ends = own_ends(trails.rows, bound)
    for partition in np.unique(trails.partition[members]):
        own = members[trails.partition[members] == partition]
        names = np.arange(own.size).astype(np.uint64) if digests is None else digests[own]
        mine = np.isin(trails.pair_member, own)
        place = np.searchsorted(own, trails.pair_member[mine])
        enters = entry_windows(place, trails.pair_window[mine], bound.policy, size)
        entered[own] = enters
        roster = empty_roster(0)
        known: Domains = {} if domains is None else domains[partition]
        rows = np.flatnonzero(np.isin(trails.member, own))
        at = np.searchsorted(own, trails.member[rows])
        for now in np.unique(enters[enters != NEVER]).tolist():
            seen = (enters[at] == now) & (trails.window[rows] <= now)
            pool = empty_pool(bound).having_seen(
                names[at[seen]], ends[rows[seen]], trails.rows.take(pa.array(rows[seen])), bound
            )
            founded = found(pool, roster.head, bound, known, seed=seed, threads=1)
            roster, known = roster.followed_by(founded.segment), founded.domains
            losses.append(founded.loss)
            intakes.append(pool.people.size)
            if largest is None or pool.people.size > largest.people.size:
                largest = pool
        if roster.head.people:
            before = sum(each.size for each in sizes)
            entrants = np.flatnonzero(enters != NEVER)
            cohort[own[entrants]] = roster.cohorts_of(names[entrants]) + before
            sizes.append(roster.members)
            partitions.append(FoundedPartition(own, roster, known))
    loss = float(np.average(losses, weights=intakes)) if intakes else float("nan")
    all_sizes = np.concatenate(sizes) if sizes else np.empty(0, dtype=np.int64)
    return Simulation(size, cohort, entered, all_sizes, loss, tuple(intakes), tuple(partitions), largest)


def _of_size(bound: BoundPolicy, size: int) -> BoundPolicy:
    policy = bound.policy
    assert policy.intake is not None
    return dataclasses.replace(
        bound, policy=dataclasses.replace(policy, cohort_size=size, intake=max(policy.intake, size))
    )


def sampled_windows(trails: Trails, simulations: Sequence[Simulation]) -> list[int]:
    """Some windows of the largest partition in which somebody is in a cohort in all simulations, spread evenly."""
    if not all(each.partitions for each in simulations):
        return []
    own = _largest(simulations[0]).members
    begins = max(int(each.entered[own].min()) for each in simulations)
    here = np.unique(trails.pair_window[np.isin(trails.pair_member, own)])
    here = here[here >= begins]
    return (
        here[np.unique(np.linspace(0, here.size - 1, WINDOWS).astype(np.int64))].tolist() if here.size else []
    )


def _largest(simulation: Simulation) -> FoundedPartition:
    return max(simulation.partitions, key=lambda each: each.members.size)


def window_loss(
    trails: Trails, simulation: Simulation, windows: Sequence[int], bound: BoundPolicy
) -> float | None:
    """GCP by rows of the groups' hulls in some windows of the largest partition; None: no window has k people who are
    in. Rows of people who are not in yet are left out."""
    if not simulation.partitions:
        return None
    largest = _largest(simulation)
    lost, rows = 0.0, 0
    for window in windows:
        there = np.flatnonzero(trails.window == window)
        member = trails.member[there]
        member = member[np.isin(member, largest.members)]
        member = member[simulation.entered[member] <= window]
        if np.unique(member).size < bound.policy.k:
            continue
        at = np.searchsorted(largest.members, member)
        cohort = largest.roster.cohorts_of(at.astype(np.uint64))
        groups = window_groups(largest.roster, cohort, at, bound, largest.domains, no_groups(), _SEED)
        lost += groups.merged.loss * member.size
        rows += member.size
    return lost / rows if rows else None


def after_matches(simulation: Simulation, k: int, known: int) -> Left | None:
    """Left under so many known matches in everybody's cohort."""
    return _left(simulation, simulation.sizes - known, k)


def after_churn(simulation: Simulation, k: int, years: float) -> Left | None:
    """Left when the reader knows who has gone: a member is there after a year with probability ``STAY``.

    Whoever is looked for is there: 1 + Binomial(size - 1, STAY^years).
    """
    stay, others = STAY**years, simulation.sizes - 1
    # Of no more than k - 2 others fewer than k - 1 stay for certain; bdtr knows no such case.
    below = np.where(others > k - 2, bdtr(float(k - 2), np.maximum(others, k - 1), stay), 1.0)
    found = _left(simulation, 1.0 + others * stay, k)
    if found is None:
        return None
    return Left(found.mean, float(np.average(below, weights=simulation.sizes)))


def _left(simulation: Simulation, candidates: Numbers | NDArray[np.float64], k: int) -> Left | None:
    sizes = simulation.sizes
    if sizes.size == 0:
        return None
    mean = float(np.average(candidates.astype(np.float64), weights=sizes))
    return Left(mean, float(np.average(candidates < k, weights=sizes)))


def after_plants(simulation: Simulation, bound: BoundPolicy) -> Left | None:
    """Left when ``PLANTS`` accounts with a person's own attributes enter together with that person: the others that
    are in its cohort, and itself.

    Tried in the largest intake, for a 40th of its people at a time. Time: up to five foundings.
    """
    pool, size = simulation.largest, simulation.size
    if pool is None:
        return None
    bound, rng = _of_size(bound, size), np.random.default_rng(_SEED)
    real = pool.people.size
    victims = min(max(real // 40, 1), _MOST_VICTIMS)
    left: list[Numbers] = []
    for _ in range(min(_MOST_PLANTINGS, -(-_LEAST_VICTIMS // victims))):
        chosen = rng.choice(real, victims, replace=False)
        rows = np.concatenate([np.arange(real), np.repeat(chosen, PLANTS)])
        # Digests are random in a run, and say in which order people are taken.
        place = rng.permutation(rows.size)
        mixed = Pool(
            np.arange(rows.size, dtype=np.uint64),
            pool.values.take(pa.array(rows[np.argsort(place)])),
            pool.ends[rows[np.argsort(place)]],
            pool.changed[rows[np.argsort(place)]],
        )
        cohort = found(mixed, RosterHead(0), bound, {}, seed=_SEED, threads=1).segment.cohort[place]
        members = np.bincount(cohort[:real], minlength=int(cohort.max()) + 1)
        left.append(members[cohort[chosen]])
    counts = np.concatenate(left)
    return Left(float(counts.mean()), float((counts < bound.policy.k).mean()))
