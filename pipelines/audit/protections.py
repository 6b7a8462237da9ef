"""The protections as the audit judges them: its one table of them, and the only place of it that asks which it is.

    Graphs     rows in slots of a graph                                     protect: row
    Rows       rows in closed classes                                       rules for sensitive values, levels
    People     people in closed classes, whose row counts k share           cohort: window
    Lasting    people in cohorts that stay, and groups of whole ones        cohort: lasting

How each is judged stands in the rooms; what it promises in words in ``schemas/promises``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from kanonflow.pipelines.audit.candidates import Judged, examine
from kanonflow.pipelines.audit.evidence import NO_WINDOW, NOTHING, Evidence, partitions_of, windows_of
from kanonflow.pipelines.audit.followed_share import WHOLE, FollowedShare, share
from kanonflow.pipelines.audit.judge.classes import check_classes
from kanonflow.pipelines.audit.judge.concealment import group_members
from kanonflow.pipelines.audit.judge.held import HeldBoxes
from kanonflow.pipelines.audit.judge.judgement import judge_classes
from kanonflow.pipelines.audit.judge.payload import PayloadMatching, class_members
from kanonflow.pipelines.audit.judge.repeated_events import judge_repeated_events
from kanonflow.pipelines.audit.lasting.carried_people import judge_clocks, judge_overdue
from kanonflow.pipelines.audit.lasting.entries import EXPECTED_MS, InputRows
from kanonflow.pipelines.audit.lasting.expected_people import read_named
from kanonflow.pipelines.audit.lasting.lasting import (
    LastingEvidence,
    judge_lasting,
    read_to_the_end,
    with_told_ends,
    with_told_places,
)
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround
from kanonflow.pipelines.audit.lasting.member_numbers import NumberKeys, NumbersKey, partition_labels
from kanonflow.pipelines.audit.read.boxes import BoxBook
from kanonflow.pipelines.audit.read.carried_state import Carried, read_carried
from kanonflow.pipelines.audit.read.chain_record import chain_record, judge_place
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.kinds import value_faults
from kanonflow.pipelines.audit.read.person_digests import digests_of_codes
from kanonflow.pipelines.audit.read.read_cohorts import EnteredSegment, read_cohorts
from kanonflow.pipelines.audit.read.read_input import told_metrics
from kanonflow.pipelines.audit.read.read_releases import ReleasedRows, check_slots
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.pipelines.audit.records.lasting_records import RecordedCohorts
from kanonflow.pipelines.audit.records.record_structure import HeldMembers, Members, NoMembers
from kanonflow.pipelines.audit.report import AuditFigures
from kanonflow.pipelines.audit.sharded_rows import rows_by_shard, with_shards
from kanonflow.pipelines.audit.shards.shard_plan import read_plan
from kanonflow.pipelines.audit.unchecked import (
    BEFORE_RENEWAL,
    KEYS_OF_SHARDS,
    NO_MATCHING_RECORDS,
    Seen,
    of_any,
    of_cohorts,
    of_cohorts_unchecked,
)
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy


class Asked(NamedTuple):
    """What was asked of an audit: matches that are known, the key of people's digests, whether who was seen and did
    not enter went from each run of a chain to the next, and the keys of the numbers of people and groups."""

    known: int
    people_key: bytes | None
    pooled: bool
    number_keys: NumberKeys | None = None


class Run(NamedTuple):
    """What is audited. books, box_books: of its fields, and of the quasi-identifiers. places: as of ``audit``.
    policy_file: where the policy is."""

    folder: Path
    bound: BoundPolicy
    books: tuple[CodeBook, ...]
    box_books: tuple[BoxBook, ...]
    places: Mapping[str, int] | None
    policy_file: Path

    @property
    def metrics(self) -> Path:
        """Where its exact metrics lie."""
        return self.folder / "restricted" / "metrics"


_EVENTS = "that no event is out twice, of all runs together", "which rows wait is not known (--waiting)"
Entered = tuple[ReleasedRows, tuple[EnteredSegment, ...] | None]


@dataclass(frozen=True)
class Graphs:
    """What the others change: a graph over the rows of each window.

    structure: of matching records. free_quasis: whether nobody reads the quasi-identifiers of somebody who is known.
    """

    policy: Policy
    structure: ClassVar[str] = "graph"
    free_quasis: ClassVar[bool] = False

    def carried(self, run: Run, findings: Findings) -> Carried:
        """What other runs of a chain have to do with this one, its place among them judged."""
        judge_place(chain_record(run.folder), told_metrics(run.metrics), findings)
        return NOTHING

    def with_entered(self, run: Run, released: ReleasedRows, findings: Findings) -> Entered:
        """The releases with what is known of when they were made, their slots judged; and who entered."""
        released = with_told_places(released, told_metrics(run.metrics), run.places)
        check_slots(released.heads, run.metrics, findings, self.shard_keys(run))
        return released, None

    def judge_events(self, run: Run, records: np.ndarray, findings: Findings) -> None:
        """Whether runs of a chain have released an event twice; records: of all that are out, none of which waits."""
        if run.places is not None:
            judge_repeated_events(run.bound, records, findings)

    def shard_keys(self, run: Run) -> Collection[str]:
        """The keys of all shards of the run. Raises InputError: of a plan that is none."""
        plan = read_plan(run.folder, run.bound)
        return () if plan is None else plan.shard_of_key.keys()

    def may_count(self, classes: int | None, boxes: int) -> bool:
        """Whether metrics may tell so many classes of a release with so many different boxes."""
        return classes is None

    def examine(
        self, evidence: Evidence, figures: AuditFigures, folder: Path, findings: Findings, asked: Asked
    ) -> tuple[AuditFigures, LastingGround | None]:
        """Steps 4 to 7."""
        sharded = rows_by_shard(evidence, told_metrics(folder / "restricted" / "metrics"), folder, findings)
        figures = replace(figures, shards=sharded.shards)
        return examine(self, evidence, figures, folder, findings, asked.known, sharded), None

    def judged(self, of: Judged, findings: Findings) -> int | None:
        """How many classes there are, judged by what the promise needs of them; None: it needs none."""
        return None

    def narrowed(
        self, matching: PayloadMatching, held: HeldBoxes, of: Judged, findings: Findings
    ) -> HeldBoxes:
        """The boxes with the records that can be in them where the payload has its say."""
        return held

    def as_released(self, evidence: Evidence) -> np.ndarray:
        """All records as they were when they were released, codes int32 (n, c)."""
        return evidence.every

    def members(self, ground: LastingGround | None) -> Members:
        """What the boxes of matching records have to hold."""
        return HeldMembers()

    def followed(self, figures: AuditFigures, seen: Seen) -> FollowedShare:
        """How much was followed to the people who stand in it."""
        return WHOLE

    def checked(self, seen: Seen) -> Iterator[str]:
        """One line a thing that was checked and is not always."""
        if seen.shards is not None:
            yield f"each release has the key of one of {seen.shards} shards of its partition"
        if seen.shards is not None and seen.structure:
            yield "each record was released in the shard that the plan gives, and has its candidates there"
        if seen.runs and self.policy.event_id is not None and not seen.waiting:
            yield "no event is out twice, of all runs together"

    def unchecked(self, seen: Seen) -> Iterator[tuple[str, str]]:
        """What was not, each with the reason: of the promise itself."""
        if not seen.structure:
            yield "how many may stand behind a row", "the audit ended before, see the failures"
        if not seen.matching_records:
            yield "payloads that changed places between boxes that hold both records", NO_MATCHING_RECORDS
        if seen.shards is not None:
            yield KEYS_OF_SHARDS

    def not_checked(self, seen: Seen) -> tuple[str, ...]:
        """One line a thing that was not checked: its name, a colon, and why. No line holds a record's value."""
        events = seen.waiting and seen.runs and self.policy.event_id is not None
        lines = (
            *self.unchecked(seen),
            *(_EVENTS,) * events,
            *of_any(seen, bool(self.policy.owner), self.unchecked_boxes()),
        )
        return tuple(f"{name}: {reason}" for name, reason in lines)

    def unchecked_boxes(self) -> Iterator[tuple[str, str]]:
        """The same of boxes."""
        yield (
            "boxes as tight as their own members",
            "members are not published; boxes were held against all records that lie in them",
        )


class Rows(Graphs):
    """Closed classes. ``policy.by_levels``: every field of a class stands at one level."""

    structure = "classes"

    def may_count(self, classes: int | None, boxes: int) -> bool:
        """As of ``Graphs``: several may share a box."""
        return classes is not None and classes >= boxes

    def narrowed(
        self, matching: PayloadMatching, held: HeldBoxes, of: Judged, findings: Findings
    ) -> HeldBoxes:
        """As of ``Graphs``: rows of a class have the payloads of its records."""
        pruned, allowed = class_members(matching, len(of.rows.size))
        own = of._replace(graph=pruned, concealment=allowed, records=matching.records, resting=matching.waits)
        self.judged(own, findings)
        return replace(held, graph=pruned, records=matching.records)

    def unchecked_boxes(self) -> Iterator[tuple[str, str]]:
        """As of ``Graphs``."""
        if self.policy.by_levels:
            yield "labels as low as their members allow", "the policy publishes whole fields at one level"


class People(Rows):
    """Closed classes of people."""

    def judged(self, of: Judged, findings: Findings) -> int | None:
        """As of ``Graphs``."""
        assert of.individual is not None
        members = group_members(of.records.group_of, of.individual, len(of.records.size))
        faults = check_classes(of.graph, of.concealment, members, of.rows.release, self.policy.k, of.resting)
        judge_classes(faults, of.rows, self.policy.k, of.heads, findings)
        return len(of.rows.size)

    def unchecked(self, seen: Seen) -> Iterator[tuple[str, str]]:
        """As of ``Graphs``; payloads change places within a class."""
        if not seen.structure:
            yield from super().unchecked(replace(seen, matching_records=True))


class Lasting(Rows):
    """Cohorts that stay."""

    free_quasis = True

    def carried(self, run: Run, findings: Findings) -> Carried:
        """As of ``Graphs``."""
        super().carried(run, findings)
        # What each of several runs expected is held against its file where that run is audited by itself.
        named = None if run.places is not None else read_named(run.policy_file, run.bound, run.books)
        return read_carried(run.folder, run.bound, run.books, findings, named)

    def with_entered(self, run: Run, released: ReleasedRows, findings: Findings) -> Entered:
        """As of ``Graphs``: only metrics tell when a release was made. What people were frozen with is numbered as
        values of the input are, so it is read before boxes are held against these."""
        metrics = told_metrics(run.metrics)
        released = with_told_ends(released, metrics, run.places)
        frozen = [book.book for book in run.box_books]
        segments = read_cohorts(run.folder, frozen, findings, released=bool(released.heads))
        if metrics:
            released, _ = super().with_entered(run, released, findings)
        return released, segments

    def judge_events(self, run: Run, records: np.ndarray, findings: Findings) -> None:
        """As of ``Graphs``: runs hand event ids on."""

    def may_count(self, classes: int | None, boxes: int) -> bool:
        """As of ``Graphs``: a class is a group, which its rows name."""
        return classes == boxes

    def examine(
        self, evidence: Evidence, figures: AuditFigures, folder: Path, findings: Findings, asked: Asked
    ) -> tuple[AuditFigures, LastingGround | None]:
        """In the place of steps 4 to 7: who entered, once; groups of whole cohorts."""
        bound, cohorts, released, every = (
            evidence.bound,
            self.policy.cohorts,
            evidence.released,
            evidence.every,
        )
        named = evidence.carried.named
        against = self.policy.against
        everybody = every if named is None else np.concatenate([every, named])
        partition, partition_of = partitions_of(replace(evidence, records=everybody))
        who = evidence.place_of(cohorts.individual.name)
        faulty = np.zeros(len(every), bool)
        for column, book in enumerate(evidence.books):
            faulty |= np.append(value_faults(book), column == who)[every[:, column]]

        def ends_of(codes: np.ndarray) -> np.ndarray:
            number = windows_of(evidence, codes)
            end = (number + 1) * cohorts.window_ms + self.policy.window_offset_ms
            # Never multiplied: what no window has would become the end of some.
            return np.where(number == NO_WINDOW, NO_WINDOW, end)

        end = ends_of(every)
        judge_overdue(evidence.carried, ends_of, self.policy, findings)
        rows = InputRows(
            np.zeros(len(end), np.uint64),
            partition[: len(every)],
            end,
            evidence.columns(every, [column.name for column in bound.quasis]),
            ~faulty & (end != NO_WINDOW),
        )
        metrics = told_metrics(folder / "restricted" / "metrics")
        record = chain_record(folder)
        if not evidence.runs:
            judge_clocks(folder, metrics, self.policy, findings)
        key = asked.people_key
        # A missing individual, which is reported elsewhere, is nobody.
        digests = None if key is None else np.append(digests_of_codes(evidence.books[who], key), np.uint64(0))
        of_named = None if named is None else self._named(evidence, named, partition[len(every) :])
        sharded = with_shards(evidence, rows, of_named, digests, partition_of, metrics, folder, findings)
        told = judge_lasting(
            LastingEvidence(
                self.policy,
                released,
                evidence.box_books,
                evidence.segments,
                metrics,
                sharded.rows,
                digests,
                every[:, who],
                evidence.columns(every, [column.name for column in bound.payload]),
                evidence.columns(every, [] if against is None else list(against.bought)),
                evidence.stays,
                sharded.partition_of,
                read_to_the_end(folder),
                evidence.carried,
                evidence.seen & ~faulty & asked.pooled,
                record,
                sharded.named,
                None if named is None else named[:, who],
                sharded.numbers,
                self._numbers_key(evidence, everybody, partition, asked),
            ),
            findings,
            waiting=evidence.waiting,
        )
        followed = told.followed
        figures = replace(
            figures,
            individuals=len(np.unique(evidence.records[:, who])),
            classes=len(released.of_groups.release),
            cohorts=told.cohorts,
            people_known=told.people,
            epoch_candidates=told.candidates,
            place=None if record is None else record.place,
            shards=None if sharded.numbers is None else sharded.numbers.plan.live,
            people_unplaced=sharded.loose,
        )
        if followed is not None:
            figures = replace(
                figures,
                followed=int(followed.groups.sum()),
                rows_followed=followed.rows,
                people_followed=followed.people,
                counted_loosely=told.loose,
                left_to=None if against is None or not told.left_enough else against.guaranteed.name,
                members_told=told.members,
                ids_told=told.ids,
                left_below=None if told.counted is None else told.counted.below,
                left_counted=None if told.counted is None else told.counted.people,
            )
        return figures, told.ground

    def _numbers_key(
        self, evidence: Evidence, records: np.ndarray, partition: np.ndarray, asked: Asked
    ) -> NumbersKey | None:
        """What gives people and groups the numbers that are published, of all records of the input; None: nothing."""
        if asked.number_keys is None or not self.policy.followed_by:
            return None
        names = list(self.policy.partition_by)
        books = [evidence.books[evidence.place_of(name)] for name in names]
        labels = partition_labels(self.policy.name, evidence.columns(records, names), books, partition)
        return NumbersKey(asked.number_keys, labels, partition)

    def _named(self, evidence: Evidence, named: np.ndarray, partition: np.ndarray) -> InputRows:
        """One row for each person whom the file of people names, long before all others."""
        quasis = evidence.columns(named, [column.name for column in evidence.bound.quasis])
        count = len(named)
        ends = np.full(count, EXPECTED_MS, np.int64)
        return InputRows(np.zeros(count, np.uint64), partition, ends, quasis, np.ones(count, bool))

    def as_released(self, evidence: Evidence) -> np.ndarray:
        """As of ``Graphs``: a faulty quasi-identifier is a null by then."""
        records = evidence.every.copy()
        for number, book in enumerate(evidence.books):
            if book.column.field.quasi is not None:
                # The last entry serves null, whose code is -1.
                records[np.append(value_faults(book), False)[records[:, number]], number] = -1
        return records

    def members(self, ground: LastingGround | None) -> Members:
        """As of ``Graphs``; without a ground it is not known who entered."""
        return NoMembers() if ground is None else RecordedCohorts(ground)

    def followed(self, figures: AuditFigures, seen: Seen) -> FollowedShare:
        """As of ``Graphs``."""
        if seen.recorded:
            return WHOLE
        return FollowedShare(
            share(figures.followed, figures.classes),
            share(figures.people_followed, figures.individuals),
            share(figures.rows_followed, figures.rows),
        )

    def checked(self, seen: Seen) -> Iterator[str]:
        """As of ``Graphs``."""
        yield from of_cohorts(seen)
        names = ", ".join(field.name for field in self.policy.ruled)
        if names:
            yield f"each group of each release shows what the policy asks of the values of {names}, of that release"

    def unchecked(self, seen: Seen) -> Iterator[tuple[str, str]]:
        """As of ``Graphs``."""
        yield from of_cohorts_unchecked(seen)
        if seen.renewed:
            yield BEFORE_RENEWAL
        if names := ", ".join(field.name for field in self.policy.counted):
            yield (
                f"what the values of {names} tell of a cohort over the epoch",
                "it is measured (epoch_diversity in the restricted metrics) and no promise",
            )


def protection_of(policy: Policy) -> Graphs:
    """The protection of a policy."""
    if policy.promise.epochs:
        return Lasting(policy)
    if policy.promise.of_people:
        return People(policy)
    return Rows(policy) if policy.closed else Graphs(policy)
