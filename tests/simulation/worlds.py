"""What a schedule is drawn from: a feed with its policy, and what happens to the job, by one seed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from typing import Any, NamedTuple

import numpy as np

from tests.small_feeds import START
from tests.swapped_feeds import NO_TEXT, TrailFeed, TrailRow, generated_feed, split_feed

FAR = 24 * 365 * 20
"""Hours after which nobody looks for a row."""


class Mode(StrEnum):
    """How the feed is run: as a stream with checkpoints, or over files, night by night."""

    STREAM = auto()
    NIGHTS = auto()


class Kind(StrEnum):
    """What can happen.

    CRASH       the job is gone between two things that it does; it goes on from its last checkpoint, or by --resume
    DIE         it is gone before a write
    LOST        a write is made, and its writer is told that it failed, or gone before it is told
    ZOMBIE      the writer is gone, and the write lands later
    FULL        the store has no room for some writes
    FAIL        a bundle is done again, by the same worker
    RESCALE     a savepoint, and another number of workers
    REWIND      the job goes on from an older checkpoint, and is told to
    OLDER       the same, and it is not told to
    BESIDE      a second job from a checkpoint writes to the same output, also between what the first reads and writes
    EARLY       a timer fires though nothing is due
    LAG         the watermark stays where it is for a step
    SLOW        some rows of a step come a step later, where the feed has late rows
    ROTATE      from the next start on the secret is another
    EDIT        a run over files dies, and some rows of its input have another payload when it begins again
    """

    CRASH = auto()
    DIE = auto()
    LOST = auto()
    ZOMBIE = auto()
    FULL = auto()
    FAIL = auto()
    RESCALE = auto()
    REWIND = auto()
    OLDER = auto()
    BESIDE = auto()
    EARLY = auto()
    LAG = auto()
    SLOW = auto()
    ROTATE = auto()
    EDIT = auto()


_OF_NIGHTS = (Kind.CRASH, Kind.DIE, Kind.LOST, Kind.ZOMBIE, Kind.FULL)


class Disturbance(NamedTuple):
    """at: the tick at which it happens. size: how far back, how many writes, which key: what the kind takes."""

    at: int
    kind: Kind
    size: int


class People(NamedTuple):
    """What is known of people where cohorts last. named: whether a file names some from the start. shards: into which
    each partition is cut; 0: it is whole. split: whether windows are split. share: of those who have entered, as many
    newcomers as an intake waits for; None: it goes by its size alone. parts: whether the largest shard is split between
    two nights. against: the number of the clause by which rows are dropped; None: there is none.
    """

    named: bool = False
    shards: int = 0
    split: bool = False
    share: float | None = None
    parts: bool = False
    against: int | None = None


NOBODY = People()


@dataclass(frozen=True)
class Schedule:
    """seed: of the feed, and of all that the runner does on its own. punctual: whether no row comes late.

    ends, carries: of nights, behind the last step of each, and whether it hands on what waits.
    """

    seed: int
    mode: Mode
    protection: str
    punctual: bool
    disturbances: tuple[Disturbance, ...]
    ends: tuple[int, ...] = ()
    carries: tuple[bool, ...] = ()
    people: People = NOBODY

    def has(self, *kinds: Kind) -> bool:
        """Whether something of these kinds happens in it."""
        return any(each.kind in kinds for each in self.disturbances)

    def without(self, number: int) -> Schedule:
        """The schedule in which one disturbance does not happen."""
        left = [each for at, each in enumerate(self.disturbances) if at != number]
        return replace(self, disturbances=tuple(left))

    def __str__(self) -> str:
        told = ", ".join(f"{each.kind} {each.size} at {each.at}" for each in self.disturbances) or "nothing"
        nights = f", nights that end at {self.ends}, carried over: {self.carries}" if self.ends else ""
        late = "" if self.punctual else ", late rows"
        known = "" if self.people == NOBODY else f", {self.people}"
        return f"seed {self.seed}: {self.mode} of {self.protection}{late}{nights}{known}; {told}"


PROTECTIONS: dict[str, dict[str, Any]] = {
    "lasting": {},
    "window": {"cohort": "window", "cohort_size": None, "intake": None},
    "row": {"protect": "row", "cohort": None, "cohort_size": None, "intake": None},
}


PLAIN = 2000
"""Seeds below play worlds without people who are named, shards, splits and shares: faults of old are found there."""
WHOLE = 3000
"""Seeds below play worlds whose shards stay as they are."""
ANYBODY = 4000
"""Seeds below play worlds in which no rows are dropped for who knows more."""
CLAUSES: tuple[dict[str, Any], ...] = (
    {"known_windows": {"count": 1, "drop": True}},
    {"known_windows": {"count": 3, "drop": True}, "known_people": 1},
    {"known_purchases": {"count": 2, "of": ["amount"], "drop": True}},
    {
        "known_windows": {"count": 2, "drop": True},
        "known_purchases": {"count": 1, "of": ["amount"], "drop": True},
    },
)
"""Clauses of a policy against a reader who knows more."""


def drawn(seed: int) -> Schedule:
    """The schedule of a seed."""
    rng = np.random.default_rng([seed, 1])
    mode = Mode.STREAM if rng.random() < 0.7 else Mode.NIGHTS
    protection = str(rng.choice(["lasting", "window", "row"], p=[0.7, 0.15, 0.15]))
    punctual = bool(rng.random() < 0.5)
    kinds = [each for each in Kind if mode is Mode.STREAM or each in _OF_NIGHTS]
    kinds = [each for each in kinds if each is not Kind.EDIT]
    if punctual and Kind.SLOW in kinds:
        kinds.remove(Kind.SLOW)
    ends: tuple[int, ...] = ()
    carries: tuple[bool, ...] = ()
    if mode is Mode.NIGHTS and protection == "lasting":
        ends = tuple(sorted({int(each) for each in rng.integers(1, 6, size=int(rng.integers(0, 3)))}))
        carries = tuple(bool(rng.random() < 0.7) for _ in ends)
    # Some schedules have one kind only: what it does is not hidden by the others.
    some = rng.choice(len(kinds), size=int(rng.integers(1, 5)), replace=False)
    happens = [
        Disturbance(int(rng.integers(1, 60)), kinds[int(rng.choice(some))], int(rng.integers(1, 6)))
        for _ in range(int(rng.integers(0, 7)))
    ]
    # By a generator of its own: what is drawn besides stays as it was.
    rng = np.random.default_rng([seed, 5])
    if mode is Mode.NIGHTS and rng.random() < 0.15:
        happens.append(Disturbance(int(rng.integers(1, 60)), Kind.EDIT, int(rng.integers(1, 6))))
    people = _people(seed) if protection == "lasting" and seed >= PLAIN else NOBODY
    return Schedule(seed, mode, protection, punctual, tuple(sorted(happens)), ends, carries, people)


def _people(seed: int) -> People:
    rng = np.random.default_rng([seed, 8])
    named, shards = bool(rng.random() < 0.5), int(rng.integers(2, 4)) if rng.random() < 0.6 else 0
    split, share = bool(rng.random() < 0.2), (None, None, 0.2, 0.6)[int(rng.integers(4))]
    shards = shards if named else 0
    parts = seed >= WHOLE and shards > 0 and bool(np.random.default_rng([seed, 9]).random() < 0.8)
    rng = np.random.default_rng([seed, 10])
    against = int(rng.integers(len(CLAUSES))) if seed >= ANYBODY and rng.random() < 0.8 else None
    return People(named, shards, split, share, parts, against)


def feed_of(schedule: Schedule) -> TrailFeed:
    """The rows, and the policy."""
    rng = np.random.default_rng([schedule.seed, 2])
    repeats = 0.0 if schedule.punctual else 0.03
    people = schedule.people
    make = split_feed if people.split else generated_feed
    head = PROTECTIONS[schedule.protection] | ({} if people.against is None else _against(people.against))
    feed = make(schedule.seed, repeats=repeats, intake_share=people.share, **head)
    rows: Iterable[TrailRow] = feed.rows
    if schedule.punctual:
        rows = (row._replace(arrives=row.hour) for row in rows)
    if people.against is not None:
        # Few amounts, so that several people have one.
        rows = (row._replace(amount=row.amount[:1]) for row in rows)
    if rng.random() < 0.7:
        # What a text file can hold: such feeds are audited, too.
        rows = (row if NO_TEXT not in row.said.values() else row._replace(said={}) for row in rows)
    rows = list(rows)
    if rng.random() < 0.3:
        # Few rows an hour: many wait, and windows go without a release.
        kept = [at for at in range(len(rows)) if rng.random() < 0.25] or [0]
        rows, feed = [rows[at] for at in kept], replace(feed, owners=feed.owners[kept])
    if rng.random() < 0.15:
        # A partition that falls silent, or begins late.
        town = "Bonn" if rng.random() < 0.5 else "Ulm"
        hour, later = int(rng.integers(1, 5)), bool(rng.random() < 0.5)
        kept = [
            at
            for at, (row, owner) in enumerate(zip(rows, feed.owners, strict=True))
            if feed.people[owner].town != town or (row.hour >= hour) == later
        ]
        if len(kept) > len(rows) // 3:
            rows, feed = [rows[at] for at in kept], replace(feed, owners=feed.owners[kept])
    if schedule.mode is Mode.NIGHTS:
        # A file has rows of the hours after its own.
        early = (max(0, row.arrives - int(rng.random() < 0.15) * int(rng.integers(1, 3))) for row in rows)
        rows = [row._replace(arrives=arrives) for row, arrives in zip(rows, early, strict=True)]
    if not schedule.ends and rng.random() < 0.1:
        at = int(rng.integers(len(rows)))
        far = rows[at]
        rows[at] = far._replace(hour=FAR, when="2044-03-01T00:30:00+00:00", said={})
    feed = replace(feed, rows=tuple(rows))
    return _silent_for_a_night(schedule, feed) if schedule.ends else feed


def _against(number: int) -> dict[str, Any]:
    """A clause, and cohorts large enough that some rows go out under it."""
    return {"against": CLAUSES[number], "k": 2, "cohort_size": 8, "intake": 8}


def _silent_for_a_night(schedule: Schedule, feed: TrailFeed) -> TrailFeed:
    """In some chains a partition has no row of a whole night, behind one in which it had some."""
    rng = np.random.default_rng([schedule.seed, 4])
    if rng.random() >= 0.4:
        return feed
    town, night = ("Bonn", "Ulm")[int(rng.integers(2))], int(rng.integers(len(schedule.ends)))
    begin, end = (*schedule.ends, FAR)[night : night + 2]
    kept = [
        at
        for at, (row, owner) in enumerate(zip(feed.rows, feed.owners, strict=True))
        if feed.people[owner].town != town or not begin <= row.arrives < end
    ]
    if len(kept) <= len(feed.rows) // 3:
        return feed
    return replace(feed, rows=tuple(feed.rows[at] for at in kept), owners=feed.owners[kept])


def edited(feed: TrailFeed, seed: int) -> TrailFeed:
    """The feed in which a third of the rows, whosever they are, have another payload."""
    rng = np.random.default_rng([seed, 6])
    rows = (row._replace(amount=f"9{row.amount}") if rng.random() < 1 / 3 else row for row in feed.rows)
    return replace(feed, rows=tuple(rows))


def until_ms(step: int) -> int:
    """The end of a step, in ms of event time."""
    return START + (step + 1) * 3_600_000
