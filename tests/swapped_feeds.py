"""Generated feeds of people with trails, run through the step of each partition; and the same feeds with trails
exchanged.

A *trail* is all rows of a person: when they come, their times, event ids and payload, and which of their cells do not
say what their person's do. The quasi-identifiers are the person's. To exchange the trails of two people is to give each
the other's rows.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy, to_mapping
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.roster.continued import Continued
from kanonflow.transforms.roster.roster import segment_from_bytes
from kanonflow.transforms.roster.window_groups import no_groups
from kanonflow.transforms.rows.classify import classify_places
from kanonflow.transforms.rows.element_rows import rows_to_table, text_schema
from kanonflow.transforms.rows.elements import Release, from_ipc
from kanonflow.transforms.rows.split import END_OF_TIME_MS, split
from kanonflow.transforms.secret.seeds import partition_key
from kanonflow.transforms.shards.route import RouteInMemory
from kanonflow.transforms.windows.chain import Chain
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from kanonflow.transforms.windows.step import EarlierCohorts, PartitionStep
from tests.small_feeds import HOUR, SECRET, START

EPOCH = 7
TOWNS = ("Bonn", "Ulm")
CHANNELS = ("web", "app", "shop")
QUASIS = ("age", "born", "job", "place")
LEAVES = tuple(f"{land}{number}" for land in "abc" for number in range(3))
PLACES = [[leaf, leaf[0], "*"] for leaf in LEAVES]
JOBS = ("baker", "clerk", "nurse", "smith", "tailor")
UNREADABLE = {"age": "old", "born": "last spring", "job": "pirate", "place": "nowhere"}
"""What no row may say: of a job, where jobs are declared."""
NO_TEXT = "\ud800"
"""What is no value of any field: half of a surrogate pair."""
_OF_CONTENT = frozenset({"digest", "solve_ms", "publish_ms", "state_bytes", "job_start"})
"""Metrics that tell which payload stands on which row, the time that went by, or what a runner keeps."""

Cells = dict[str, str | None]


class Person(NamedTuple):
    """name: as in its rows. town: its partition. cells: its quasi-identifiers."""

    name: str
    town: str
    cells: Cells


class TrailRow(NamedTuple):
    """One row of a trail.

    arrives: the step at which it comes. hour: its own window. when: its time as text, which may be none.
    said: cells that are not its person's. channel: of feeds whose windows are split by it.
    """

    arrives: int
    hour: int
    when: str | None
    event: str | None
    amount: str
    tag: str
    said: Mapping[str, str | None]
    channel: str | None = None


@dataclass(frozen=True)
class TrailFeed:
    """owners: int64 (n,), the person of each row."""

    policy: Policy
    people: tuple[Person, ...]
    rows: tuple[TrailRow, ...]
    owners: NDArray[np.int64]

    def exchanged(self, changes: Mapping[int, int]) -> TrailFeed:
        """The feed in which the rows of ``person`` are those of ``changes[person]``."""
        given = np.arange(len(self.people))
        for person, other in changes.items():
            given[person] = other
        return replace(self, owners=given[self.owners])

    def records(self, step: int) -> list[dict[str, str | None]]:
        """The rows that come at a step, as text."""
        return [self.record(number) for number, row in enumerate(self.rows) if row.arrives == step]

    def record(self, number: int) -> dict[str, str | None]:
        """One row, as text."""
        row, person = self.rows[number], self.people[self.owners[number]]
        cells = {**person.cells, **{name: row.said[name] for name in row.said if name in person.cells}}
        own = {"who": person.name, "when": row.when, "town": person.town, "amount": row.amount}
        split = (
            {"channel": row.channel} if self.policy.split_by or "channel" in self.policy.partition_by else {}
        )
        return {**own, **split, "tag": row.tag, "event": row.event, **cells}


@dataclass
class Course:
    """What came of a feed. results: (partition, step, result), in the order in which they came.

    carried: of a chain of runs, what the last one left.
    entered: of each person that is in a cohort, who it is with. refused: rows that no release could take any more.
    """

    feed: TrailFeed
    results: list[tuple[bytes, int, WindowResult]] = field(default_factory=list)
    refused: list[tuple[Any, ...]] = field(default_factory=list)
    carried: Handed | None = None

    @cached_property
    def entered(self) -> dict[int, Entry]:
        """Of each person that is in a cohort, the release with which it entered."""
        names = [person.name for person in self.feed.people]
        digests = person_digests(names, SECRET.lasting.derive("partition", "people"))
        numbers = {int(digest): number for number, digest in enumerate(digests)}
        found = {}
        for key, step, result in self.results:
            if result.segment is not None:
                segment = segment_from_bytes(result.segment)
                for digest, cohort in zip(segment.people.tolist(), segment.cohort.tolist(), strict=True):
                    found[numbers[digest]] = Entry(key, step, int(result.metrics["window_end"]), cohort)
        return found

    def generations(self) -> list[list[int]]:
        """People who entered in one release into one cohort."""
        found: dict[tuple[bytes, int], list[int]] = defaultdict(list)
        for person, entry in sorted(self.entered.items()):
            found[entry.partition, entry.cohort].append(person)
        return list(found.values())


class Entry(NamedTuple):
    """Where, at which step, with which window's release, and into which cohort somebody entered."""

    partition: bytes
    step: int
    window_end: int
    cohort: int


def run(feed: TrailFeed, known: EarlierCohorts | None = None, route: RouteInMemory | None = None) -> Course:
    """The feed through the step of each partition; at each step rows come, and what is due by then is done.

    known: who is known from the start. route: to shards of partitions, with those people in its memory.
    """
    bound = bind(feed.policy, text_schema(feed.policy), text=True, source="test")
    earliest = route is not None
    step = PartitionStep(bound, SECRET, 1, time=lambda: 0.0, epoch=EPOCH, continued=known, earliest=earliest)
    partitions: dict[bytes, PartitionInMemory] = {}
    course = Course(feed)
    last = max(row.arrives for row in feed.rows)
    for now in range(last + 1):
        arrive(course, now, step, partitions, route)
        if route is not None:
            end = END_OF_TIME_MS if now == last else START + (now + 1) * HOUR
            lay_down(course, route.due(end), step, partitions)
        for key in sorted(partitions):
            while (at := partitions[key].fires_at) is not None and (
                at <= START + (now + 1) * HOUR or now == last
            ):
                course.results += [(key, now, result) for result in partitions[key].fire()]
    return course


@dataclass
class Handed:
    """What a run of a chain has left for the next one, as of ``step.EarlierCohorts``."""

    left: dict[bytes, Continued] = field(default_factory=dict)
    named: EarlierCohorts | None = None
    """Whom a file of people names for the next one."""

    def of(self, key: bytes) -> Continued | None:
        """Of a partition."""
        left, named = self.left.get(key), None if self.named is None else self.named.of(key)
        if left is None or named is None:
            return left or named
        return left._replace(expected=named.expected)

    def keys(self) -> list[bytes]:
        """Of which ones."""
        return sorted({*self.left, *(() if self.named is None else self.named.keys())})


def run_chain(
    feed: TrailFeed,
    ends: Sequence[int],
    carries: Sequence[bool],
    drop: frozenset[str] = frozenset(),
    policies: Sequence[Policy] = (),
    named: Sequence[EarlierCohorts] = (),
) -> Course:
    """The feed as runs over files that continue each other: all rows of a run come before anything is done.

    ends: behind the last step of each run; what comes after the last of them is of another run, which ends the chain.
    carries: whether each of them carries over. drop: rules to switch off, ``wake`` or ``state``.
    policies: of each run; none: the feed's. named: whom a file of people names for each run.
    """
    course, handed, begin = Course(feed), Handed(), 0
    bounds = (*ends, max(row.arrives for row in feed.rows) + 1)
    for place, (end, carry) in enumerate(zip(bounds, (*carries, False), strict=True)):
        policy = policies[place] if policies else feed.policy
        bound = bind(policy, text_schema(policy), text=True, source="test")
        chain = Chain(place, carry, START + end * HOUR if carry else None)
        handed.named = named[place] if named else None
        step = PartitionStep(bound, SECRET, 1, time=lambda: 0.0, epoch=EPOCH, continued=handed, chain=chain)
        woken = [] if "wake" in drop else handed.keys()
        partitions = {key: PartitionInMemory(step, key) for key in woken}
        for partition in partitions.values():
            partition.wake()
        for now in range(begin, end):
            arrive(course, now, step, partitions)
        for key in sorted(partitions):
            course.results += [(key, end - 1, result) for result in partitions[key].finish()]
        handed = Handed({**handed.left, **{key: left_of(partitions[key], drop) for key in partitions}})
        begin = end
    course.carried = handed
    return course


def left_of(partition: PartitionInMemory, drop: frozenset[str] = frozenset()) -> Continued:
    """What the next run finds of a partition. drop: as of ``run_chain``."""
    assert partition.carried is not None
    segments = tuple(map(segment_from_bytes, partition.segments))
    carried = None if "state" in drop else partition.carried.to_bytes()
    return Continued(EPOCH, segments, no_groups(), carried)


def arrive(
    course: Course,
    now: int,
    step: PartitionStep,
    partitions: dict[bytes, PartitionInMemory],
    route: RouteInMemory | None = None,
) -> None:
    """The rows of a step come."""
    records, bound = course.feed.records(now), step.bound
    if not records:
        return
    table, broken, faults = rows_to_table(records, bound)
    classified = classify_places(table, bound, faults=faults)
    course.refused += [rejected_shown(record) for record in (*broken, *classified.rejected)]
    for values, number, part in split(classified.rows, bound):
        key, rows = partition_key(SECRET, values), pa.Table.from_batches([part])
        parts = [(key, number, rows)] if route is None else route.arrive(key, number, rows)
        lay_down(course, parts, step, partitions)


def lay_down(
    course: Course,
    parts: Sequence[tuple[bytes, int, pa.Table]],
    step: PartitionStep,
    partitions: dict[bytes, PartitionInMemory],
) -> None:
    """Rows by the key of their partition or shard."""
    for key, number, rows in parts:
        if key not in partitions:
            partitions[key] = PartitionInMemory(step, key)
        refused = partitions[key].arrive(number, rows)
        if refused is not None:
            course.refused += [rejected_shown(record) for record in refused.records]


def facts(course: Course, without: frozenset[str] = frozenset()) -> list[Any]:
    """All that a course shows, but for whose rows they are: two courses that differ in this are equal.

    Of each step of a partition its metrics, its segment and its files of who entered; the groups of its release, each
    with its box, its time and its payloads; the rows that were rejected, each with its reason.
    without: metrics to leave out.
    """
    shown: list[Any] = [sorted(course.refused, key=repr)]
    for key, now, result in course.results:
        metrics = metrics_shown(result.metrics, without)
        rejected = sorted(map(rejected_shown, result.rejected), key=repr)
        entered = None if result.release is None else result.release.entered
        head = None if result.roster is None else result.roster.head
        shown.append((key, now, metrics, groups_of(result.release), rejected, head, result.segment, entered))
    return shown


def rows_in(course: Course) -> tuple[Counter[str], Counter[str]]:
    """Tags of the rows of a feed, and of the rows that were released or rejected."""
    out: Counter[str] = Counter(record[-1] for record in course.refused)
    for _, _, result in course.results:
        out.update(rejected_shown(record)[-1] for record in result.rejected)
        if result.release is not None:
            out.update(from_ipc(result.release.ipc).column("tag").to_pylist())
    return Counter(row.tag for row in course.feed.rows), out


def metrics_shown(record: Mapping[str, Any], without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The metrics of a window that must be equal. without: others to leave out."""
    return {name: value for name, value in record.items() if name not in _OF_CONTENT | without}


def groups_of(release: Release | None) -> list[list[str]]:
    """Groups of a release, whatever their numbers: their rows, sorted."""
    if release is None:
        return []
    groups: dict[int, list[str]] = defaultdict(list)
    for row in from_ipc(release.ipc).to_pylist():
        groups[row.pop("class_id")].append(repr(sorted(row.items())))
    return sorted(sorted(rows) for rows in groups.values())


def rejected_shown(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """A rejected row without what is its person's."""
    row = record["row"]
    # Not the message: it lists what else is wrong with a row that is rejected in any case.
    told = (record["reason"], record["field"], record["window_end"], row.get("when"))
    return (*told, row.get("event"), row["amount"], row["tag"])


def generated_feed(seed: int, repeats: float = 0.03, **head: Any) -> TrailFeed:
    """A feed of 20 to 120 people over 5 to 20 hours, and a policy over it; the same seed, the same feed.

    Most are small, for a release takes the same time whatever its size, and small ones have more of what is rare.
    repeats: share of rows that are told again with another payload. head: keys of the policy that are given, or None.
    """
    rng = np.random.default_rng(seed)
    events = bool(rng.random() < 0.7)
    small = rng.random() < 0.93
    count = int(rng.integers(20, 40 if small else 121))
    hours = int(rng.integers(5, 8 if small else 21))
    towns = 2 if rng.random() < 0.15 else 1
    # Where an intake hangs on how many have entered, as it does by default, and where it does not.
    head = {"intake_share": (0.0, 0.4, 0.8)[seed % 3]} | head
    policy = _policy(rng, events, towns > 1, head, prefixes=seed % 2 == 1)
    people = tuple(_person(rng, number, policy, towns) for number in rng.permutation(count))
    rows: list[TrailRow] = []
    owners: list[int] = []
    for person in range(count):
        trail = _trail(rng, hours, person, repeats)
        rows += trail
        owners += [person] * len(trail)
    return TrailFeed(policy, people, tuple(rows), np.array(owners))


def split_feed(seed: int, key: str = "split_by", **head: Any) -> TrailFeed:
    """A generated feed whose rows came by one of some channels, each person's by several.

    key: what the policy does with the channel: ``split_by``, or ``partition_by``. head: as of ``generated_feed``.
    """
    feed = generated_feed(seed, **head)
    rng = np.random.default_rng([seed, 88])
    plain = to_mapping(feed.policy)
    plain["fields"] = {**plain["fields"], "channel": {"role": "insensitive"}}
    plain[key] = [*plain.get(key, []), "channel"]
    policy = parse_policy(plain, "test", "test")
    shares = [(0.6, 0.3, 0.05, 0.05), (0.45, 0.45, 0.1, 0.0), (0.8, 0.1, 0.1, 0.0)][seed % 3]
    came = {row.tag: (*CHANNELS, None)[rng.choice(4, p=shares)] for row in feed.rows}
    return replace(feed, policy=policy, rows=tuple(row._replace(channel=came[row.tag]) for row in feed.rows))


def reads_anything(policy: Policy) -> bool:
    """Whether rows are kept that say what no value of a field is, until it is known whose they are."""
    bound = bind(policy, text_schema(policy), text=True, source="test")
    row = {"who": "p", "when": _time(0, 0.0), "town": TOWNS[0], "amount": "1", "tag": "t", "event": "e"}
    table, _, faults = rows_to_table([row | UNREADABLE], bound)
    return not classify_places(table, bound, faults=faults).rejected


def disturbed(course: Course, seed: int, *, unreadable: bool) -> TrailFeed:
    """The feed of a course in which rows that come after their person's entry say anything at all of it.

    unreadable: also what no value of the field is, or lies outside of its domain.
    """
    rng = np.random.default_rng(seed)
    feed = course.feed
    names = [each.name for each in feed.policy.fields if each.quasi is not None]
    rows: list[TrailRow] = []
    for row, owner in zip(feed.rows, feed.owners, strict=True):
        entry = course.entered.get(int(owner))
        later = entry is not None and (
            row.arrives > entry.step or START + (row.hour + 1) * HOUR > entry.window_end
        )
        if rows and rows[-1].tag == row.tag:
            # Which of two rows that are equal but for this is read tells nothing but ``outdated_values``.
            row = row._replace(said=rows[-1].said)
        elif later and (unreadable or not row.said) and rng.random() < 0.4:
            # A row that could not be read stays one: what becomes of it is no question of this.
            said = dict(row.said)
            for name in names:
                if rng.random() < 0.5:
                    said[name] = _anything(rng, feed.policy, name, unreadable=unreadable)
            row = row._replace(said=said)
        rows.append(row)
    return replace(feed, rows=tuple(rows))


def _policy(
    rng: np.random.Generator, events: bool, towns: bool, head: Mapping[str, Any], *, prefixes: bool
) -> Policy:
    """prefixes: whether places are told by their first character, and not by rows that are listed."""
    chosen = [name for name in QUASIS if rng.random() < 0.6] or ["age"]
    declared = {
        "age": {"domain": [0, 90], "outside": str(rng.choice(["code", "reject"]))},
        "born": {"domain": ["1920-01-01", "2020-12-31"]},
        "job": {"domain": list(JOBS)},
    }
    quasis: dict[str, Any] = {
        "age": {"role": "quasi", "type": "numeric", "as": str(rng.choice(["int", "double"]))},
        "born": {"role": "quasi", "type": "date"},
        "job": {"role": "quasi", "type": "categorical", "weight": 2},
        "place": {"role": "quasi", "type": "prefix", "lengths": [1], "size": 2}
        if prefixes
        else {"role": "quasi", "type": "hierarchy", "hierarchy": PLACES},
    }
    fields: dict[str, Any] = {
        "who": {"role": "individual"},
        "when": {"role": "time"},
        "town": {"role": "insensitive"},
        "amount": {"role": "sensitive", "as": "double"},
        "tag": {"role": "insensitive"},
        "event": {"role": "event_id" if events else "identifier"},
    }
    for name in chosen:
        fields[name] = quasis[name] | (declared.get(name, {}) if rng.random() < 0.5 else {})
    k = int(rng.integers(2, 5))
    size = k + int(rng.integers(0, 3))
    mapping: dict[str, Any] = {
        "version": 1,
        "k": k,
        "window": "1h",
        "max_delay": f"{int(rng.integers(0, 3))}h",
        "cohort": "lasting",
        "others": "drop",
        "cohort_size": size,
        "intake": int(rng.choice([size, 2 * size, 4 * size, 200])),
        "solver": {"evaluations_per_row": 20, "threads": 1},
        "fields": fields,
    }
    if towns:
        mapping["partition_by"] = ["town"]
    mapping = {key: value for key, value in (mapping | dict(head)).items() if value is not None}
    return parse_policy(mapping, "test", "test")


def _person(rng: np.random.Generator, number: int, policy: Policy, towns: int) -> Person:
    cells: Cells = {}
    for each in policy.fields:
        if each.quasi is not None:
            value: str | None = _value(rng, each.name)
            if rng.random() < 0.06:
                value = None
            elif each.name == "age" and rng.random() < 0.06:
                # Outside of the domain, where there is one: cut to its end, or its person never enters.
                value = "117"
            cells[each.name] = value
    return Person(f"p{number}", TOWNS[int(rng.integers(towns))], cells)


def _value(rng: np.random.Generator, name: str) -> str:
    match name:
        case "age":
            return str(int(rng.integers(4, 18)) * 5)
        case "born":
            return f"{int(rng.integers(1930, 2010))}-{int(rng.integers(1, 13)):02}-01"
        case "job":
            return str(rng.choice(JOBS))
        case _:
            return str(rng.choice(LEAVES))


def _anything(rng: np.random.Generator, policy: Policy, name: str, *, unreadable: bool) -> str | None:
    if rng.random() < 0.3:
        return None
    if unreadable and rng.random() < 0.2:
        return NO_TEXT
    if unreadable and rng.random() < 0.5:
        return "1000" if name == "age" and rng.random() < 0.5 else UNREADABLE[name]
    return _value(rng, name)


def _trail(rng: np.random.Generator, hours: int, person: int, repeats: float) -> list[TrailRow]:
    """The rows of one: regular, seldom here, here once, heavy, or a bot."""
    kind = rng.choice(["regular", "seldom", "once", "heavy", "bot"], p=[0.45, 0.2, 0.15, 0.12, 0.08])
    first = int(rng.integers(hours)) if rng.random() < 0.5 else 0
    if kind == "once":
        counts = {first: 1}
    else:
        here = {"regular": 0.6, "seldom": 0.2, "heavy": 0.7, "bot": 1.0}[str(kind)]
        most = {"regular": 3, "seldom": 1, "heavy": 12, "bot": 1}[str(kind)]
        counts = {hour: int(rng.integers(1, most + 1)) for hour in range(first, hours) if rng.random() < here}
    trail: list[TrailRow] = []
    for hour, count in counts.items():
        for number in range(count):
            trail += _rows(rng, hour, f"{person}.{hour}.{number}", repeats, bot=kind == "bot")
    return trail


def _rows(rng: np.random.Generator, hour: int, name: str, repeats: float, *, bot: bool) -> list[TrailRow]:
    """A row, and perhaps its repeat."""
    arrives = hour
    if rng.random() < 0.06:
        # Late, or so late that no release takes it.
        arrives += int(rng.choice([1, 2, 3, 9]))
    said: dict[str, str | None] = {}
    if rng.random() < 0.03:
        # Where the policy has neither, nothing of it is read.
        said = {name: UNREADABLE[name] for name in ("age", "born")}
        if hour % 2:
            said = dict.fromkeys(QUASIS, NO_TEXT)
    minute = 30.0 if bot else float(rng.integers(12)) * 5
    amount = "1.5" if bot or rng.random() < 0.3 else f"{int(rng.integers(100))}.25"
    event: str | None = f"e{name}"
    row = TrailRow(arrives, hour, _time(hour, minute), event, amount, name, said)
    chance = rng.random()
    if chance < 0.02:
        return [row._replace(when=str(rng.choice(["noon", "2024-13-01"])))]
    if chance < 0.03:
        return [row._replace(event=None)]
    if chance < 0.06:
        return [row, row]
    if rng.random() < repeats:
        # Told again with another payload, in the same batch or later.
        return [row, row._replace(arrives=arrives + int(rng.integers(0, 3)), amount="7.75", tag=f"{name}'")]
    if chance > 0.98:
        # An event id that is not its own: others have it too.
        return [row._replace(event=f"shared {hour}")]
    return [row]


def _time(hour: int, minute: float) -> str:
    return dt.datetime.fromtimestamp((START + hour * HOUR + int(minute * 60_000)) / 1000, dt.UTC).isoformat()
