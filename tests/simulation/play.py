"""A schedule, played: jobs over a feed and a store, with all that happens to them, to their end."""

from __future__ import annotations

import contextlib
import errno
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from kanonflow.pipelines.chains.continued_run import (
    ContinueError,
    EarlierRun,
    cohorts_record,
    continue_once,
    copy_cohorts,
)
from kanonflow.pipelines.chains.expected_people import remove_expected, write_expected
from kanonflow.pipelines.chains.people_of_shard import people_by_shard, people_of_shard
from kanonflow.pipelines.chains.shards_record import begin_shards, kept_plan, plan_record, remove_shards
from kanonflow.pipelines.chains.split_cohorts import Splitting
from kanonflow.schemas.avro_schema import epoch_text
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.transforms.lineage.earlier_releases import OlderStateError, Remake
from kanonflow.transforms.lineage.release_lineage import ReleaseConflictError
from kanonflow.transforms.roster.continued_cohorts import ContinuedCohorts
from kanonflow.transforms.rows.element_rows import text_schema
from kanonflow.transforms.secret.seeds import Secret
from kanonflow.transforms.shards.shard_plan import PlanError, ShardPlan
from kanonflow.transforms.shards.split_shard import LARGEST, named_shard, split_shard
from kanonflow.transforms.windows.chain import Chain
from kanonflow.transforms.windows.expected_people import PeopleFile
from tests.privacy.test_swap_people import expected_rows, named_of
from tests.privacy.test_swap_shards import planned
from tests.simulation.jobs import Job, Site, State
from tests.simulation.store import BUCKET, Died, Store, Write, nothing
from tests.simulation.worlds import Disturbance, Kind, Mode, Schedule, edited, until_ms
from tests.small_feeds import SECRET
from tests.swapped_feeds import EPOCH, TrailFeed

ROTATED = Secret(b"the second secret of a feed in the simulator").after([SECRET], 2)
MOST_STARTS = 60
_PAUSE = 20
"""Ticks."""


@dataclass
class Played:
    """What came of a schedule. outputs: of each night. refused: how often an older state was refused.

    stopped: a run over files that came to another release than the one that is published, and said so.
    named: whom a file of people names. plan: of shards.
    """

    schedule: Schedule
    feed: TrailFeed
    bound: BoundPolicy
    store: Store
    outputs: list[str] = field(default_factory=list)
    starts: int = 0
    refused: int = 0
    stopped: bool = False
    named: tuple[int, ...] = ()
    plan: ShardPlan | None = None


def play(schedule: Schedule, feed: TrailFeed, store: Store) -> Played:
    """Play a schedule over a feed. The choices of the runner follow from the seed and from the shape of the feed."""
    bound = bind(feed.policy, text_schema(feed.policy), text=True, source="simulation")
    played = Played(schedule, feed, bound, store)
    if schedule.people.named:
        played.named = tuple(named_of(feed, schedule.seed))
    if schedule.people.shards:
        played.plan = planned(feed, played.named, schedule.people.shards)
    last = max(row.arrives for row in feed.rows) + 1
    ends = tuple(end for end in schedule.ends if end < last)
    bounds = (*ends, last)
    course = _Course(played)
    begin, earlier = 0, None
    for place, end in enumerate(bounds):
        output = f"{BUCKET}/out{place}"
        played.outputs.append(output)
        if earlier is not None and schedule.people.parts:
            played.plan = split_plan(earlier, bound, place)
        slow = 0.15 if schedule.mode is Mode.STREAM and not schedule.punctual else 0.0
        site = Site(feed, bound, output, end, slow=slow, first=begin, plan=played.plan)
        if schedule.mode is Mode.NIGHTS:
            carry = place < len(ends) and schedule.carries[place]
            chain = Chain(place, carry, until_ms(end - 1) if carry else None)
            site = replace(site, at_once=True, chain=chain if schedule.protection == "lasting" else None)
        course.run(site, earlier)
        store.land()
        if played.stopped:
            break
        if site.chain is not None:
            record = {
                "epoch": epoch_text(EPOCH),
                "continued": earlier is not None,
                "chain": {"place": place, "carry": site.chain.carry},
            } | plan_record(played.plan)
            store.objects[f"{output}/restricted/run.json"] = json.dumps(record).encode()
        store.objects[f"{output}/restricted/ended"] = b""
        earlier, begin = output, end
    return played


def split_plan(earlier: str, bound: BoundPolicy, place: int) -> ShardPlan:
    """The plan of a night, in which the largest shard of the one before is split, where it has people enough."""
    there = kept_plan(earlier)
    assert there is not None
    plan, keys = there
    try:
        partition, shard = named_shard(keys, plan, LARGEST, people_by_shard(earlier))
        _, people = people_of_shard(earlier, keys[partition][shard], bound)
        tried = split_shard(plan, partition, shard, people, bound, 2, place)
    except (ContinueError, PlanError):
        return plan
    return tried.plan if min(tried.people) >= bound.policy.cohorts.cohort_size else plan


class _Course:
    """The one course of all jobs of a schedule: ticks, and what happens at them."""

    def __init__(self, played: Played) -> None:
        self.played = played
        self.schedule = played.schedule
        self.rng = np.random.default_rng([played.schedule.seed, 3])
        self.tick = 0
        self.secret = SECRET
        self.left = list(played.schedule.disturbances)
        self.store = played.store
        self.feed = played.feed
        self.chance = np.random.default_rng([played.schedule.seed, 7])
        self.met: Exception | None = None

    def run(self, site: Site, earlier: str | None) -> None:
        """One output, to the end of its feed."""
        begun = False
        kept: list[State] = []
        """The checkpoints that are there, whichever job completed them."""
        state, remake, beside = State(site.first), None if site.at_once else Remake.REFUSE, None
        again = False
        while True:
            self.played.starts += 1
            site = replace(site, feed=self.feed)
            assert self.played.starts < MOST_STARTS, "the job begins again and again"
            try:
                if not begun:
                    site = self._begun(site, earlier)
                    begun = True
                if site.at_once:
                    remake = Remake.STOP if again else None
                again = True
                job = self._job(site, state, remake)
                self._go(job, kept, beside)
                return
            except _StartsAgainError as asked:
                state, remake, beside = asked.state or State(site.first), asked.remake, asked.beside
            except OlderStateError:
                # Whoever runs the stream reads what it says, and either has the newest state or rewinds on purpose.
                self.played.refused += 1
                newest = kept[-1] if kept else State(site.first)
                remake = (
                    Remake.REWIND if state is newest or (remake is Remake.REFUSE and not kept) else remake
                )
                remake = Remake.REWIND if self.played.refused > 1 else remake
                state, beside = newest, None
            except ReleaseConflictError:
                self.played.stopped = True
                return
            except (Died, OSError):
                # A run over files has no checkpoints.
                state = kept[-1] if kept else State(site.first)
                beside = None

    def _begun(self, site: Site, earlier: str | None) -> Site:
        """The run with all that it lays down before its first row: cohorts, people who are expected, the plan."""
        bound, output, named = site.bound, site.output, self.played.named
        if self.schedule.protection != "lasting" or (earlier is None and not named):
            return site
        if earlier is not None:
            record = {"epoch": epoch_text(EPOCH), "cohorts": cohorts_record(bound), "chain": {}}
            run = EarlierRun(earlier, record, bound)
            continue_once(run, output)
            place = 0 if site.chain is None else site.chain.place
            copy_cohorts(run, output, Splitting(site.plan, bound, self.secret, place))
        if named:
            remove_expected(output)
            remove_shards(output)
            people = PeopleFile("people.csv", {}, expected_rows(self.feed, named))
            place = 0 if site.chain is None else site.chain.place
            write_expected(output, people, bound, self.secret, EPOCH, place, site.plan)
        if site.plan is not None:
            begin_shards(output, site.plan, bound, self.secret)
        cohorts = ContinuedCohorts(output, bound, EPOCH, expects=bool(named))
        return replace(site, continued=cohorts, woken=tuple(cohorts.keys()))

    def _job(self, site: Site, state: State, remake: Remake | None) -> Job:
        workers = 1 if site.at_once else int(self.rng.integers(1, 4))
        return Job(site, state.copy(), self.played.starts, remake, self.secret, workers, self.rng)

    def _go(self, job: Job, kept: list[State], beside: State | None) -> None:
        """Let a job run, and perhaps a second one beside it, to its end."""
        jobs = [(job, job.ticks())]
        if beside is not None:
            other = self._job(job.site, beside, Remake.REFUSE)
            jobs.append((other, other.ticks()))
        while jobs:
            # The first one ends the course; what a second one meets is its own affair.
            number = int(self.rng.integers(len(jobs)))
            chosen, ticks = jobs[number]
            try:
                self._happens(job, kept)
                with self._between(jobs[0][1] if chosen is not jobs[0][0] is job else None):
                    next(ticks)
                if chosen is job:
                    kept += chosen.checkpoints
                    chosen.checkpoints.clear()
            except StopIteration:
                if chosen is job:
                    kept += chosen.checkpoints
                del jobs[number]
            except (OSError, OlderStateError):
                if chosen is job:
                    raise
                del jobs[number]
            met, self.met = self.met, None
            if isinstance(met, StopIteration):
                kept += job.checkpoints
                del jobs[0]
            elif met is not None:
                raise met

    @contextlib.contextmanager
    def _between(self, ticks: Iterator[None] | None) -> Iterator[None]:
        """Let one job go on between what another one has read and its next write, in every second case: until that file
        is there, or for some ticks."""
        store = self.store
        if ticks is None or store.before is not nothing or self.chance.random() < 0.5:
            yield
            return

        def before(write: Write) -> None:
            store.before = nothing
            try:
                for _ in range(_PAUSE):
                    if write.path in store.objects:
                        return
                    next(ticks)
            except (StopIteration, OSError, OlderStateError) as met:
                self.met = met

        store.before = before
        try:
            yield
        finally:
            store.before = nothing

    def _happens(self, job: Job, kept: list[State]) -> None:
        self.tick += 1
        self.rng.random()
        if self.store.late and self.tick % 5 == 0:
            self.store.land()
        while self.left and self.left[0].at <= self.tick:
            self._disturb(self.left.pop(0), job, kept)

    def _disturb(self, what: Disturbance, job: Job, kept: list[State]) -> None:
        newest = kept[-1] if kept else None
        older = kept[-1 - what.size] if len(kept) > what.size else (kept[0] if kept else None)
        keeps = Remake.REWIND if job.remake is Remake.REWIND else Remake.REFUSE
        match what.kind:
            case Kind.CRASH:
                raise Died
            case Kind.EDIT:
                self.feed = edited(self.feed, self.schedule.seed + what.size)
                raise Died
            case Kind.DIE | Kind.LOST | Kind.ZOMBIE | Kind.FULL:
                self._trouble(what)
            case Kind.FAIL | Kind.LAG | Kind.SLOW:
                job.flags.add(str(what.kind))
            case Kind.EARLY:
                job.fire_early(what.size)
            case Kind.RESCALE:
                raise _StartsAgainError(newest, keeps)
            case Kind.ROTATE:
                self.secret = ROTATED
                raise _StartsAgainError(newest, keeps)
            case Kind.REWIND:
                if older is not None:
                    del kept[kept.index(older) + 1 :]
                raise _StartsAgainError(older, Remake.REWIND)
            case Kind.OLDER:
                raise _StartsAgainError(older, keeps)
            case Kind.BESIDE:
                raise _StartsAgainError(newest, keeps, older or State(job.site.first))

    def _trouble(self, what: Disturbance) -> None:
        """The next writes meet what stores do."""
        store, count = self.store, [what.size]

        def quiet() -> None:
            store.before = store.after = nothing

        def before(write: Write) -> None:
            count[0] -= 1
            if what.kind is Kind.FULL:
                if count[0] <= 0:
                    quiet()
                raise OSError(errno.ENOSPC, "no space left")
            if count[0] > 0:
                return
            if what.kind is Kind.DIE:
                quiet()
                raise Died
            if what.kind is Kind.ZOMBIE:
                store.late.append(write)
                quiet()
                raise Died

        def after(write: Write) -> None:
            if what.kind is Kind.LOST and count[0] <= 0:
                quiet()
                raise OSError(errno.EIO, "the answer was lost")

        store.before, store.after = before, after


class _StartsAgainError(Exception):
    """The job ends, and another start goes on from a state. state: None: the beginning. beside: of a second job."""

    def __init__(self, state: State | None, remake: Remake | None, beside: State | None = None) -> None:
        super().__init__()
        self.state, self.remake, self.beside = state, remake, beside
