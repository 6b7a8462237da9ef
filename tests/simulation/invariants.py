"""What holds after every schedule, whatever happened in it; each is a sentence that names what it found.

once        a row is released, rejected or waiting: no more often than it came, and nothing is lost
k           a class of a release has k rows, and as many people behind its box as its policy says
cohorts     nobody is put into cohorts twice in an epoch, a cohort has its size, and a group is whole cohorts
quiet       what came out is what a quiet run of the same feed comes to, where the schedule lets that be
exchanged   two people of a cohort exchange their rows, and the same schedule shows the same
parked      a partition is parked only where somebody went back on purpose, or two jobs wrote
against     where rows are dropped for a reader who knows more, he is left with as many people as the policy says
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from io import BytesIO
from typing import Any, NamedTuple

import fastavro
import numpy as np

from kanonflow.pipelines.run_records.rejected_rows import unsettled_rejected
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.transforms.lineage.published_slots import parked_partitions
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.sinks.sinks import release_file
from kanonflow.transforms.windows.chain import carried_from_bytes
from tests.known_items import Bundle, least_of
from tests.privacy.test_swap_people import expecting
from tests.privacy.test_swap_shards import played as over_shards
from tests.simulation.play import Played
from tests.simulation.worlds import Kind, Mode
from tests.small_feeds import SECRET
from tests.swapped_feeds import EPOCH, Course, rejected_shown, run, run_chain

_OF_RELEASE = frozenset({"class_id", "release_id"})


class Out(NamedTuple):
    """What stands in the outputs of a schedule. releases: rows by file's name. rejected: records, each row once.

    waiting: tags of the rows that the last run has left. people: of each segment, digest -> cohort.
    """

    releases: dict[str, list[dict[str, Any]]]
    rejected: list[dict[str, Any]]
    waiting: list[str]
    people: dict[str, dict[int, int]]


def records(data: bytes) -> list[dict[str, Any]]:
    """The records of an Avro file."""
    return list(fastavro.reader(BytesIO(data)))  # type: ignore[arg-type]


def out_of(played: Played) -> Out:
    """Read what came of a schedule."""
    store = played.store
    releases: dict[str, list[dict[str, Any]]] = {}
    for output in played.outputs:
        for path in store.below(f"{output}/release", ".avro"):
            name = path.rpartition("/")[2]
            releases[f"{output.rpartition('/')[2]}/{name}"] = records(store.objects[path])
    rejected = [dict(each) for output in played.outputs for each in unsettled_rejected(output)]
    waiting: list[str] = []
    if played.schedule.mode is Mode.NIGHTS:
        for path in store.below(f"{played.outputs[-1]}/restricted/carried", ".state"):
            state = carried_from_bytes(store.objects[path])
            tables = [batch.rows for batch in state.batches]
            tables += [] if state.warm.waiting is None else [state.warm.waiting]
            waiting += [tag for table in tables for tag in table.column("tag").to_pylist()]
    people = {
        path: {each["person"]: each["cohort"] for each in records(store.objects[path])}
        for path in store.below(f"{played.outputs[-1]}/restricted/cohorts", ".people.avro")
    }
    return Out(releases, rejected, waiting, people)


def broken(played: Played, out: Out) -> Iterator[str]:
    """Everything that does not hold of one course."""
    yield from _once(played, out)
    yield from _classes(played, out)
    if played.schedule.protection == "lasting":
        yield from _cohorts(played, out)
        yield from _against(played, out)
    yield from _parked(played)
    yield from _events(played, out)
    slots = [
        path for path in played.store.objects if "/restricted/slots/" in path and path.endswith(".closing")
    ]
    if slots and played.schedule.punctual and not played.schedule.has(Kind.EARLY):
        yield f"closing: {len(slots)} releases beside the regular ones"
    names = Counter(name.rpartition("/")[2] for name in out.releases)
    if shared := [name for name, count in names.items() if count > 1]:
        yield f"names: {len(shared)} are of two releases"


def _once(played: Played, out: Out) -> Iterator[str]:
    came = Counter(row.tag for row in played.feed.rows)
    released = Counter(row["tag"] for rows in out.releases.values() for row in rows)
    refused = Counter(each["row"]["tag"] for each in out.rejected)
    waiting = Counter(out.waiting)
    if twice := sorted((released - came).elements()):
        yield f"once: released more often than they came: {twice[:5]}"
    if played.stopped:
        return  # it has said that it ends before its end
    there = released + refused + waiting
    if lost := sorted((came - there).elements()):
        yield f"once: in no release, not rejected, and not waiting: {lost[:5]}"
    more = sorted((there - came).elements())
    if rejected_again(played):
        # Without lasting cohorts it may go out then: of windows afresh nothing says what was rejected.
        more = [tag for tag in more if released[tag] and played.schedule.protection == "lasting"]
    if more and not went_back(played):
        yield f"once: in two books: {more[:5]}"


def _events(played: Played, out: Out) -> Iterator[str]:
    feed = played.feed
    if feed.policy.event_id is None or played.schedule.protection != "lasting":
        return
    whose = {row.tag: (owner, row.event) for row, owner in zip(feed.rows, feed.owners.tolist(), strict=True)}
    released = Counter(whose[row["tag"]] for rows in out.releases.values() for row in rows)
    if twice := [each for each, count in released.items() if count > 1]:
        yield f"events: {len(twice)} are released twice"


def _classes(played: Played, out: Out) -> Iterator[str]:
    policy = played.feed.policy
    owners = {
        row.tag: owner for row, owner in zip(played.feed.rows, played.feed.owners.tolist(), strict=True)
    }
    for name, rows in out.releases.items():
        if "class_id" not in rows[0]:
            if len(rows) < policy.k:
                yield f"k: {name} has {len(rows)} rows"
            continue
        classes: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            classes[row["class_id"]].append(row)
        for own in classes.values():
            boxes = {
                repr([row[each.name] for each in policy.fields if each.quasi is not None]) for row in own
            }
            if len(boxes) != 1:
                yield f"k: a class of {name} has {len(boxes)} boxes"
            if len(own) < policy.k:
                yield f"k: a class of {name} has {len(own)} rows"
            if played.schedule.protection == "window" and len({owners[row["tag"]] for row in own}) < policy.k:
                yield f"k: a class of {name} has rows of fewer than k people"


def _cohorts(played: Played, out: Out) -> Iterator[str]:
    policy, feed = played.feed.policy, played.feed
    size = policy.cohorts.cohort_size
    names = [person.name for person in feed.people]
    digests = person_digests(names, SECRET.lasting.derive("partition", "people"))
    number = {int(digest): at for at, digest in enumerate(digests)}
    home: dict[int, tuple[str, int]] = {}
    cohorts: dict[tuple[str, int], list[int]] = defaultdict(list)
    for path, people in sorted(out.people.items()):
        partition = path.split("/")[-2]
        for digest, cohort in people.items():
            person = number.get(digest % 2**64)
            assert person is not None, "a person of no feed"
            if person in home:
                yield "cohorts: somebody entered twice"
            home[person] = (partition, cohort)
            cohorts[partition, cohort].append(person)
    for members in cohorts.values():
        if len(members) < size:
            yield f"cohorts: one of {len(members)} people"
    owners = {row.tag: owner for row, owner in zip(feed.rows, feed.owners.tolist(), strict=True)}
    strangers: set[str] = set()
    for name, rows in out.releases.items():
        grouped: dict[tuple[str, int], set[Any]] = defaultdict(set)
        for row in rows:
            owner = owners[row["tag"]]
            if owner not in home:
                strangers.add(name)
                continue
            grouped[home[owner]].add(row["class_id"])
        if any(len(classes) > 1 for classes in grouped.values()):
            yield f"cohorts: {name} divides a cohort"
    # Of two releases of a line the later one may be out alone, where the line ended then: its partition is parked.
    if strangers and not _marks(played):
        yield f"cohorts: rows of people who never entered in {sorted(strangers)[:3]}"


def _against(played: Played, out: Out) -> Iterator[str]:
    policy = played.feed.policy
    if policy.against is None:
        return
    row_of = {row.tag: number for number, row in enumerate(played.feed.rows)}
    bundles: dict[int, Bundle] = defaultdict(Bundle)
    for rows in out.releases.values():
        for released in rows:
            number = row_of[released["tag"]]
            own = bundles[int(played.feed.owners[number])]
            own.windows.add(played.feed.rows[number].hour)
            own.purchases[played.feed.rows[number].hour, released["amount"]] += 1
    cohorts = [[bundles[person] for person in cohort] for cohort in entered_together(played, out)]
    asked, least = policy.against, policy.against.left(policy.k)
    if (left := least_of(cohorts, asked.windows, asked.purchases)) < least:
        yield f"against: who knows as much as the clause says is left with {left} of {least} people"


def went_back(played: Played) -> bool:
    """Whether rows of a wrong line of states may stand in two books."""
    return played.schedule.has(Kind.REWIND, Kind.OLDER, Kind.BESIDE, Kind.ROTATE, Kind.EDIT)


def rejected_again(played: Played) -> bool:
    """Whether a row that an early timer rejected may be rejected once more, behind a restart without it.

    No runner has early timers.
    """
    return played.schedule.has(Kind.EARLY) and played.starts > 1


def _marks(played: Played) -> list[str]:
    return [mark for output in played.outputs for mark in parked_partitions(output)]


def _parked(played: Played) -> Iterator[str]:
    marks = _marks(played)
    if marks and not played.schedule.has(Kind.REWIND, Kind.BESIDE) and not played.refused:
        yield f"parked: {len(marks)} partitions, though nobody went back"


def shown(played: Played, out: Out) -> dict[str, Any]:
    """What a course shows: each release under its name, its groups without ids; rejected rows; who is public what."""
    found: dict[str, Any] = {name: groups_shown(rows) for name, rows in out.releases.items()}
    found["rejected"] = sorted(map(repr, map(rejected_shown, out.rejected)))
    found["waiting"] = sorted(out.waiting)
    found["names"] = sorted(path for path in played.store.objects if "/restricted/" not in path)
    return found


def groups_shown(rows: list[dict[str, Any]]) -> list[Any]:
    """Groups of a release, whatever their numbers."""
    groups: dict[Any, list[str]] = defaultdict(list)
    for at, row in enumerate(rows):
        own = sorted((name, repr(value)) for name, value in row.items() if name not in _OF_RELEASE)
        groups[row.get("class_id", at)].append(repr(own))
    return sorted(sorted(each) for each in groups.values())


def quiet(played: Played) -> Course | None:
    """The same feed, undisturbed, through the step alone; None: there is no such run of a chain over shards, or
    over one that was split."""
    schedule, feed = played.schedule, played.feed
    named, plan = list(played.named), played.plan
    if plan is not None and plan.splits:
        return None
    if (
        schedule.mode is Mode.STREAM
        or schedule.protection != "lasting"
        or (schedule.punctual and all(schedule.carries))
    ):
        # Nights that hand on all that waits are one run.
        if plan is not None:
            return over_shards(feed, named, plan)
        return run(feed, expecting(feed, named) if named else None)
    if plan is not None:
        return None
    last = max(row.arrives for row in feed.rows) + 1
    ends = tuple(end for end in schedule.ends if end < last)
    expected = [expecting(feed, named)] * (len(ends) + 1) if named else ()
    return run_chain(feed, ends, schedule.carries[: len(ends)], named=expected)


def unlike_quiet(played: Played, out: Out) -> Iterator[str]:
    """What differs from the quiet run, where nothing in the schedule may make a difference."""
    schedule = played.schedule
    if schedule.has(Kind.EARLY, Kind.ROTATE, Kind.EDIT) or played.stopped:
        return
    if not schedule.punctual and schedule.mode is Mode.STREAM:
        return  # what is late depends on how far the watermark was
    if not schedule.punctual and schedule.protection != "lasting":
        return
    course, schema = quiet(played), release_avro_schema(played.bound, EPOCH)
    if course is None:
        return
    files = [
        release_file(result.release, schema) for _, _, result in course.results if result.release is not None
    ]
    wanted = Counter(repr(groups_shown(records(data))) for data in files)
    there = Counter(repr(groups_shown(rows)) for rows in out.releases.values())
    if wanted != there:
        yield (
            f"quiet: {(there - wanted).total()} of {there.total()} releases are not those of a quiet run, which has"
            f" {wanted.total()}"
        )


def entered_together(played: Played, out: Out) -> list[list[int]]:
    """People of one cohort who entered in one run together."""
    names = [person.name for person in played.feed.people]
    digests = person_digests(names, SECRET.lasting.derive("partition", "people"))
    number = {int(digest): at for at, digest in enumerate(digests)}
    generations: dict[tuple[str, int], list[int]] = defaultdict(list)
    for path, people in sorted(out.people.items()):
        for digest, cohort in people.items():
            generations[path, cohort].append(number[int(digest) % 2**64])
    return [sorted(each) for _, each in sorted(generations.items())]


def pair(played: Played, out: Out) -> dict[int, int]:
    """Two people of one cohort who entered together; nobody where there is none."""
    every = entered_together(played, out)
    if not every:
        return {}
    rng = np.random.default_rng([played.schedule.seed, 4])
    one, other = rng.choice(every[rng.integers(len(every))], 2, replace=False).tolist()
    return {one: other, other: one}
