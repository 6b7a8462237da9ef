"""``kanonflow verify``: are these releases, over this input, k-concealing?

An independent check for somebody who has the input and need not believe the pipeline: it shares the policy
and the schemas with it, and none of the code that reads, casts, solves, gates or publishes.

1. Read the input and the rejected rows; what was not rejected must have been released.      audit_records
2. Read the releases; check each file by itself, and that no release slot was used twice.    audit_releases
   Headers and blocks hold nothing but what the policy gives.                                audit_header
   Metrics say what the releases say; what is restricted is for its owner.                   audit_metrics
3. The released payload is, as a multiset, that of the records not rejected.                 audit_records
   Where the policy sets rules for sensitive fields, every class of equal boxes meets them.    audit_diversity
4. One bipartite graph over all releases: which record may stand behind which row.           audit_graph
   The payload plays no part in it: the promise is about somebody who knows every quasi-identifier.
   Each box is the least of its grid around records in it.                                   audit_held
5. A perfect matching exists (else: not a generalization of the original).                   audit_matching
   So does one in which every row has its record's payload.                                  audit_payload
6. Pairs that some perfect matching uses; at least k of them for every record and row.       audit_concealment
7. ``protect: individual``: classes in which every number of rows can be shared by k.        audit_classes
   ``cohort: lasting``, in the place of 4 to 7: who entered, once; groups of whole cohorts.   audit_lasting
8. On request, the matching records: the members themselves, and how the matching was drawn.     audit_matching_records

What it cannot see, or was not given, stands in the report by name (audit_unchecked): without matching records, for one,
that the published matching was drawn with equal chances (1/k), which takes the members and the seed.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from kanonflow.pipelines.audit.followed_share import WHOLE, FollowedShare, share
from kanonflow.pipelines.audit.judge.candidate_graph import (
    CandidateGraph,
    RecordGroups,
    RowGroups,
    candidate_graph,
    group_records,
)
from kanonflow.pipelines.audit.judge.classes import check_classes
from kanonflow.pipelines.audit.judge.concealment import Concealment, GroupMembers, conceal, group_members
from kanonflow.pipelines.audit.judge.diversity import check_diversity
from kanonflow.pipelines.audit.judge.held import HeldBoxes, judge_boxes
from kanonflow.pipelines.audit.judge.judgement import (
    judge_classes,
    judge_concealment,
    judge_placement,
    judge_starts,
)
from kanonflow.pipelines.audit.judge.known import left_after
from kanonflow.pipelines.audit.judge.matching import place
from kanonflow.pipelines.audit.judge.metrics import (
    check_metrics,
    check_modes,
    check_public_metrics,
    told_settled,
    told_withheld,
)
from kanonflow.pipelines.audit.judge.payload import class_members, judge_payloads, match_payloads
from kanonflow.pipelines.audit.judge.people_counted import judge_people, people_of_graph
from kanonflow.pipelines.audit.judge.ranks import ALARM
from kanonflow.pipelines.audit.judge.records import (
    check_payload,
    check_reasons,
    check_rejections,
    check_unique_fields,
    released_records,
)
from kanonflow.pipelines.audit.judge.waiting import (
    may_wait,
    released_concealment,
    released_part,
    told_waiting,
    with_waiting,
)
from kanonflow.pipelines.audit.lasting.carried_people import judge_clocks, judge_overdue
from kanonflow.pipelines.audit.lasting.entries import InputRows
from kanonflow.pipelines.audit.lasting.lasting import (
    LastingEvidence,
    judge_lasting,
    read_to_the_end,
    told_metrics,
    with_told_ends,
)
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround
from kanonflow.pipelines.audit.read.boxes import BoxBook, encode_boxes, encode_records
from kanonflow.pipelines.audit.read.carried_state import Carried, read_carried
from kanonflow.pipelines.audit.read.chain_record import chain_record, judge_place
from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.foreign_entries import foreign_entries
from kanonflow.pipelines.audit.read.kinds import value_faults
from kanonflow.pipelines.audit.read.person_digests import digests_of_codes
from kanonflow.pipelines.audit.read.read_cohorts import EnteredSegment, read_cohorts
from kanonflow.pipelines.audit.read.read_input import InputColumns, bind_input, read_input, read_rejected
from kanonflow.pipelines.audit.read.read_releases import ReleasedRows, ReleaseHead, check_slots, read_releases
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.pipelines.audit.records.lasting_records import RecordedCohorts
from kanonflow.pipelines.audit.records.matching_records import Ground, Recipe, check_matching_records
from kanonflow.pipelines.audit.report import AuditFigures, AuditReport
from kanonflow.pipelines.audit.unchecked import Seen, checked, not_checked
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy, Protection
from kanonflow.schemas.policy_source import read_policy

# No window has this number: a record whose time is unknown fits no release.
_NO_WINDOW = -(2**62)
_NOTHING = Carried({}, None)
# What is rejected so never came into a window.
_NOT_SEEN = ("late", "ahead", "duplicate_event")


@dataclass(frozen=True)
class _Evidence:
    """What was read: the records not rejected and the released rows, both as codes. ``every``: all records, of which
    ``stays``, bool, are ``records``. ``waiting``: whether some of these may wait for their
    release; ``metrics``: whether there are any. ``segments``: who entered, with cohorts that last; None: it cannot be
    judged. ``carried``: what other runs of the chain have to do with it.
    ``seen``, bool: which of all records came into a window. ``runs``: whether several runs are audited as one."""

    bound: BoundPolicy
    books: tuple[CodeBook, ...]
    box_books: tuple[BoxBook, ...]
    records: np.ndarray
    released: ReleasedRows
    every: np.ndarray
    stays: np.ndarray
    waiting: bool
    metrics: bool
    segments: tuple[EnteredSegment, ...] | None = None
    carried: Carried = _NOTHING
    seen: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    runs: bool = False


def audit(
    policy_path: Path,
    input_patterns: Sequence[str],
    release_dir: Path,
    *,
    delimiter: str | None = None,
    input_format: str | None = None,
    messages: bool = False,
    broken: int = 0,
    waiting: bool = False,
    matching_records: bool = False,
    recipe: Recipe | None = None,
    people_key: bytes | None = None,
    known: int = 0,
    allow_empty: bool = False,
    places: Mapping[str, int] | None = None,
    pooled: bool = True,
    outputs: Sequence[Path] = (),
    clock: Callable[[], float] = time.perf_counter,
) -> AuditReport:
    """Audit the releases of a run.

    Args:
        policy_path: the policy of the run.
        input_patterns: globs of the input's files (local).
        release_dir: the directory that the run wrote to: releases in release/, rejected rows and metrics in
            restricted/.
        delimiter: of CSV files; None: the policy's, else the one that the header has most of.
        input_format: what the files hold, avro, parquet or csv; None: what their names say.
        messages: the files are copies of messages, of which the policy's ``csv`` says nothing.
        broken: records of the input that are no rows and that its files do not show (messages of a topic).
        waiting: the run goes on: rows whose time is not over may be in no release yet.
        matching_records: also check those; recipe: what of them takes the secret (matching_record_recipe.py).
        people_key: with cohorts that last, the key under which people's digests are made (person_digests.py); without
            it nobody of the input is found again among those who entered.
        allow_empty: a run that released nothing passes too, as one whose rows all wait does.
        places: of several runs of a chain that are audited as one (chain.py), the place of each release's run.
        pooled: whether who was seen and did not enter went from each of them to the next. outputs: theirs; what no run
            puts there is named.
        known: also tell what is left when so many matches are known; of complete runs only, not of cohorts that last.
        clock: seconds, for the report.

    Raises:
        PolicyError, InputError: the policy, the input or the directory cannot be read at all. What is wrong
            with a release is a failure in the report.
    """
    started = clock()
    findings = Findings()
    policy = read_policy(policy_path)
    bound, columns = bind_input(policy, input_patterns, delimiter, input_format, messages=messages)
    evidence, figures = _read(
        bound, columns, Path(release_dir), findings, broken=broken, waiting=waiting, places=places
    )
    read = clock()
    if not (
        allow_empty
        or figures.waiting
        or figures.carried_out
        or evidence.released.heads
        or evidence.released.unread
    ):
        findings.add("nothing was released, so there is nothing to audit (--allow-empty lets that pass)")
    if evidence.released.unread:
        findings.add("not audited further: some releases could not be read")
    else:
        ground: LastingGround | None = None
        if evidence.bound.policy.lasting:
            evidence = evidence if pooled else replace(evidence, seen=np.zeros(len(evidence.every), bool))
            figures, ground = _examine_lasting(evidence, figures, Path(release_dir), findings, people_key)
        else:
            figures = _examine(evidence, figures, Path(release_dir), findings, known)
        if matching_records:
            figures = _recorded(evidence, figures, Path(release_dir), findings, recipe, ground)
    figures = replace(
        figures, seconds_reading=round(read - started, 3), seconds_checking=round(clock() - read, 3)
    )
    seen = Seen(
        matching_records=matching_records,
        secret=recipe is not None,
        metrics=evidence.metrics,
        waiting=waiting,
        structure=figures.components is not None,
        cohorts=figures.cohorts is not None,
        people=figures.followed is not None,
        unfollowed=(figures.classes or 0) - (figures.followed or 0),
        loose=figures.counted_loosely,
        foreign=foreign_entries(outputs or (Path(release_dir),)),
        elsewhere=evidence.released.elsewhere,
        bounded=read_to_the_end(Path(release_dir)),
        runs=places is not None,
    )
    followed = WHOLE
    if policy.lasting and not seen.recorded:
        followed = FollowedShare(
            share(figures.followed, figures.classes),
            share(figures.people_followed, figures.individuals),
            share(figures.rows_followed, figures.rows),
        )
    return AuditReport(
        findings.messages(), figures, not_checked(policy, seen), checked(policy, seen), followed
    )


def _read(
    bound: BoundPolicy,
    columns: InputColumns,
    folder: Path,
    findings: Findings,
    *,
    broken: int,
    waiting: bool,
    places: Mapping[str, int] | None,
) -> tuple[_Evidence, AuditFigures]:
    policy = bound.policy
    books = {
        column.name: CodeBook(column, attribute=column.name in bound.attributes) for column in bound.columns
    }
    kept = tuple(books.values())
    records = read_input(columns, bound, kept)
    carried = read_carried(folder, bound, kept, findings) if policy.lasting else _NOTHING
    came, left = carried.rows_came(len(kept)), carried.rows_left(len(kept))
    records = replace(records, codes=np.concatenate([records.codes, came]))
    settled = told_settled(folder / "restricted")
    rejected = read_rejected(folder / "restricted" / "rejected", bound, kept, settled)
    stays = released_records(records.codes, rejected.codes, findings)
    stays[stays] = released_records(records.codes[stays], left, findings, "carried")
    outside = np.array([reason in _NOT_SEEN for reason in rejected.reasons], bool)
    seen = released_records(records.codes, rejected.codes[outside], Findings())
    # Of somebody who is known nothing but time and payload is read.
    free = policy.lasting
    check_reasons(rejected.codes, rejected.reasons, kept, findings, free_quasis=free)
    if not waiting:
        check_rejections(records.codes[stays], kept, findings, free_quasis=free)
    broken += records.broken
    if broken < rejected.broken or (broken > rejected.broken and not waiting):
        findings.add(f"{broken} broken input lines, but {rejected.broken} were rejected as such")
    if rejected.conflicts:
        findings.add(
            f"{rejected.conflicts} rows belong to releases that lost their slot: their records cannot be told"
        )
    told_rows = None if waiting else told_withheld(folder / "restricted" / "metrics", settled)
    if told_rows not in (None, rejected.conflicts):
        findings.add(
            f"the metrics say that {told_rows} rows were withheld, but {rejected.conflicts} were rejected as such"
        )
    box_books = tuple(BoxBook(books[column.name]) for column in bound.quasis)
    payload_books = [books[column.name] for column in bound.payload]
    released = read_releases(folder / "release", bound, box_books, payload_books, findings)
    segments = None
    if policy.lasting:
        metrics = told_metrics(folder / "restricted" / "metrics")
        released = with_told_ends(released, metrics, places)
        # Before boxes are held against values: what people were frozen with is numbered as they are.
        frozen = [book.book for book in box_books]
        segments = read_cohorts(folder, frozen, findings, released=bool(released.heads))
    if not policy.lasting or metrics:
        check_slots(released.heads, folder / "restricted" / "metrics", findings)
    told = _check_places(released, folder, policy, findings, waiting=waiting)
    if not released.unread:
        payload = [bound.input_columns.index(book.column.name) for book in payload_books]
        check_payload(records.codes[stays][:, payload], released.payload, findings, waiting=waiting)
        check_unique_fields(records.codes[:, payload], released.payload, payload_books, findings)
        check_diversity(released, payload_books, findings)
    figures = AuditFigures(
        k=policy.k,
        records=len(records.codes) - len(came),
        broken=broken,
        rejected=len(rejected.codes),
        releases=len(released.heads),
        rows=len(released.release),
        carried_in=len(came) if carried.came else None,
        carried_out=None if carried.left is None else len(left),
    )
    if waiting:
        figures = _count_waiting(figures, int(stays.sum()), folder, findings)
    every = records.codes
    evidence = _Evidence(
        bound, kept, box_books, every[stays], released, every, stays, waiting, told, segments, carried, seen
    )
    return replace(evidence, runs=places is not None), figures


def _check_places(
    released: ReleasedRows, folder: Path, policy: Policy, findings: Findings, *, waiting: bool
) -> bool:
    """What lies beside the releases; whether there are metrics among it."""
    check_modes(folder, findings)
    check_public_metrics(folder, policy, findings, waiting=waiting)
    count = len(released.heads)
    groups = released.groups
    distinct = np.unique(np.column_stack([released.release, released.boxes]), axis=0)[:, 0]
    distinct = distinct if groups is None else groups.release
    return check_metrics(
        folder,
        policy,
        released.heads,
        np.bincount(released.release, minlength=count),
        np.bincount(distinct, minlength=count),
        findings,
        waiting=waiting,
    )


def _count_waiting(figures: AuditFigures, stays: int, folder: Path, findings: Findings) -> AuditFigures:
    """How many rows wait, by what is missing and by what the job told."""
    missing, told = max(stays - figures.rows, 0), told_waiting(folder / "restricted" / "metrics")
    if told > missing:
        findings.add(
            f"the metrics say that {told} rows wait, but {missing} are neither released nor rejected"
        )
    return replace(figures, waiting=missing, waiting_told=told)


def _examine(
    evidence: _Evidence, figures: AuditFigures, folder: Path, findings: Findings, known: int
) -> AuditFigures:
    """Steps 4 to 7: the graph over all releases and what follows from it."""
    policy, heads = evidence.bound.policy, evidence.released.heads
    if not len(evidence.records) and not len(evidence.released.release):
        return figures
    records, rows = _groups(evidence)
    graph = candidate_graph(records, rows)
    waits = np.zeros(len(records.size), bool)
    whole = graph
    if figures.waiting:
        waits = may_wait(records, heads, _partitions_of(evidence)[1], policy)
        whole = with_waiting(graph, waits, figures.waiting)
    placement = place(whole)
    members, individuals = _members(evidence, records)
    shown = released_part(placement) if figures.waiting else placement
    figures = replace(
        figures,
        individuals=individuals,
        record_groups=len(records.size),
        row_groups=len(rows.size),
        pairs=graph.pairs,
        unplaced=int(shown.row_left.sum()),
    )
    judge_placement(graph, shown, rows, heads, findings)
    if not placement.perfect or not len(rows.size):
        return figures
    _examine_payloads(evidence, records, rows, graph, waits, figures.waiting or 0, findings)
    if known and not figures.waiting:
        left = left_after(whole, placement, members, records.window, known, policy.k)
        figures = replace(
            figures,
            known=known,
            known_rows=left.rows_of_record,
            known_individuals=left.behind_row,
            known_below_k=left.below_k,
        )
    concealment = conceal(whole, placement, members, records.window)
    if figures.waiting:
        concealment, waits = released_concealment(concealment, waits)
    if individuals is not None:
        counts = people_of_graph(graph, concealment, members, rows.release, waits, len(heads))
        loose = judge_people(heads, told_metrics(folder / "restricted" / "metrics"), counts, findings)
        figures = replace(figures, counted_loosely=loose)
    return _judge(evidence, graph, rows, members, concealment, waits, figures, findings)


def _examine_lasting(
    evidence: _Evidence, figures: AuditFigures, folder: Path, findings: Findings, key: bytes | None
) -> tuple[AuditFigures, LastingGround | None]:
    """In the place of steps 4 to 7, with cohorts that last."""
    bound, policy, released = evidence.bound, evidence.bound.policy, evidence.released
    assert released.groups is not None
    assert policy.individual is not None
    assert policy.window_ms is not None
    names = bound.input_columns
    partition, partition_of = _partitions_of(replace(evidence, records=evidence.every))
    who = names.index(policy.individual.name)
    quasis = [names.index(column.name) for column in bound.quasis]
    faulty = np.zeros(len(evidence.every), bool)
    for column, book in enumerate(evidence.books):
        faulty |= np.append(value_faults(book), column == who)[evidence.every[:, column]]
    size, offset = policy.window_ms, policy.window_offset_ms

    def ends_of(codes: np.ndarray) -> np.ndarray:
        number = _windows(evidence, codes)
        # Never multiplied: what no window has would become the end of some.
        return np.where(number == _NO_WINDOW, _NO_WINDOW, (number + 1) * size + offset)

    end = ends_of(evidence.every)
    judge_overdue(evidence.carried, ends_of, policy, findings)
    rows = InputRows(
        np.zeros(len(end), np.uint64),
        partition,
        end,
        evidence.every[:, quasis],
        ~faulty & (end > _NO_WINDOW // 2),
    )
    metrics = told_metrics(folder / "restricted" / "metrics")
    record = chain_record(folder)
    judge_place(record, metrics, findings)
    if not evidence.runs:
        judge_clocks(folder, metrics, policy, findings)
    told = judge_lasting(
        LastingEvidence(
            policy,
            released,
            evidence.box_books,
            evidence.segments,
            metrics,
            rows,
            # A missing individual, which is reported elsewhere, is nobody.
            None if key is None else np.append(digests_of_codes(evidence.books[who], key), np.uint64(0)),
            evidence.every[:, who],
            evidence.every[:, [names.index(column.name) for column in bound.payload]],
            evidence.stays,
            partition_of,
            read_to_the_end(folder),
            evidence.carried,
            evidence.seen & ~faulty,
            record,
        ),
        findings,
        waiting=evidence.waiting,
    )
    figures = replace(
        figures,
        individuals=len(np.unique(evidence.records[:, who])),
        classes=len(released.groups.release),
        cohorts=told.cohorts,
        people_known=told.people,
        epoch_candidates=told.candidates,
        followed=None if told.followed is None else int(told.followed.groups.sum()),
        rows_followed=None if told.followed is None else told.followed.rows,
        people_followed=None if told.followed is None else told.followed.people,
        counted_loosely=None if told.followed is None else told.loose,
        place=None if record is None else record.place,
    )
    return figures, told.ground


def _examine_payloads(
    evidence: _Evidence,
    records: RecordGroups,
    rows: RowGroups,
    graph: CandidateGraph,
    waits: np.ndarray,
    waiting: int,
    findings: Findings,
) -> None:
    """The second matching, and the boxes; with closed classes both together tell more (``class_members``)."""
    bound, heads, released = evidence.bound, evidence.released.heads, evidence.released
    columns = [bound.input_columns.index(column.name) for column in bound.payload]
    payload = np.ascontiguousarray(evidence.records[:, columns])
    matching = match_payloads(records, rows, payload, released.payload, waits, waiting)
    boxes = np.zeros((len(rows.size), released.boxes.shape[1]), np.int32)
    boxes[rows.group_of] = released.boxes
    held = HeldBoxes(boxes, rows.release, graph, records)
    if judge_payloads(matching, heads, findings) and bound.policy.closed:
        own = bound.policy.individual
        individual = None if own is None else evidence.records[:, bound.input_columns.index(own.name)]
        pruned, allowed = class_members(matching, len(rows.size))
        held = HeldBoxes(boxes, rows.release, pruned, matching.records)
        if individual is not None and bound.policy.protect is Protection.INDIVIDUAL:
            members = group_members(matching.records.group_of, individual + 1, len(matching.records.size))
            faults = check_classes(pruned, allowed, members, rows.release, bound.policy.k, matching.waits)
            judge_classes(faults, rows, bound.policy.k, heads, findings)
    judge_boxes(held, evidence.box_books, heads, findings, by_levels=bound.policy.by_levels)


def _judge(
    evidence: _Evidence,
    graph: CandidateGraph,
    rows: RowGroups,
    members: GroupMembers,
    concealment: Concealment,
    resting: np.ndarray,
    figures: AuditFigures,
    findings: Findings,
) -> AuditFigures:
    """Steps 6 and 7. resting: bool, groups of records that may still wait."""
    policy, heads = evidence.bound.policy, evidence.released.heads
    behind = concealment.records_of_row if figures.individuals is None else concealment.individuals_of_row
    judge_concealment(concealment, behind, graph, rows, policy.k, heads, findings, resting)
    if policy.window_ms is not None:
        starts = [_window_number(head.start, policy) for head in heads]
        judge_starts(concealment, rows, np.array(starts, np.int64), heads, findings)
    if policy.protect is Protection.INDIVIDUAL:
        faults = check_classes(graph, concealment, members, rows.release, policy.k, resting)
        judge_classes(faults, rows, policy.k, heads, findings)
        figures = replace(figures, classes=len(rows.size))
    may_be = concealment.rows_of_record[~resting]
    size = graph.record_size[~resting]
    return replace(
        figures,
        components=concealment.components,
        fewest_rows_of_record=int(may_be.min()) if len(may_be) else None,
        records_at_k=float(np.average(may_be == policy.k, weights=size)) if len(may_be) else None,
        fewest_individuals_of_row=int(behind.min()),
        rows_at_k=float(np.average(behind == policy.k, weights=graph.row_size)),
        mean_individuals_of_row=float(np.average(behind, weights=graph.row_size)),
    )


def _as_released(evidence: _Evidence) -> np.ndarray:
    """All records, codes int32 (n, c); with cohorts that last a faulty quasi-identifier is a null by then."""
    if not evidence.bound.policy.lasting:
        return evidence.every
    records = evidence.every.copy()
    for number, book in enumerate(evidence.books):
        if book.column.field.quasi is not None:
            # The last entry serves null, whose code is -1.
            records[np.append(value_faults(book), False)[records[:, number]], number] = -1
    return records


def _recorded(
    evidence: _Evidence,
    figures: AuditFigures,
    folder: Path,
    findings: Findings,
    recipe: Recipe | None,
    lasting: LastingGround | None,
) -> AuditFigures:
    """Step 8: the matching records of all releases."""
    policy = evidence.bound.policy
    ground = Ground(
        bound=evidence.bound,
        books=evidence.books,
        box_books=evidence.box_books,
        records=_as_released(evidence),
        stays=evidence.stays,
        windows=_windows(evidence, evidence.every),
        released=evidence.released,
        ranges=np.array([_window_range(head, policy) for head in evidence.released.heads], np.int64),
        lasting=None if lasting is None else RecordedCohorts(lasting),
    )
    count, ranks = check_matching_records(ground, folder, findings, recipe)
    value, score = ranks.p_value()
    if value < ALARM:
        findings.add(
            f"the published matchings are no fair draws: their ranks by {score} have a chance of {value:.1e}"
        )
    return replace(
        figures, matching_records=count, draws=ranks.draws, rank_p_value=value if ranks.draws else None
    )


def _groups(evidence: _Evidence) -> tuple[RecordGroups, RowGroups]:
    bound, released = evidence.bound, evidence.released
    position = {column.name: place for place, column in enumerate(bound.columns)}
    partition, of_release = _partitions_of(evidence)
    quasis = [position[book.book.column.name] for book in evidence.box_books]
    codes = encode_records(evidence.records[:, quasis], evidence.box_books)
    records = group_records(codes, partition, _windows(evidence, evidence.records))

    keys = np.column_stack([released.release, released.boxes])
    first, group_of, size = group_rows(keys)
    release, boxes = released.release[first], released.boxes[first]
    encoded = encode_boxes(evidence.box_books)
    bounds = [_window_range(head, bound.policy) for head in released.heads]
    windows = np.array(bounds, np.int64).reshape(-1, 2)[release]
    fields = range(len(evidence.box_books))
    rows = RowGroups(
        low=np.column_stack([encoded.low[field][boxes[:, field]] for field in fields]),
        high=np.column_stack([encoded.high[field][boxes[:, field]] for field in fields]),
        nulls=np.column_stack([encoded.nulls[field][boxes[:, field]] for field in fields]),
        set_of=np.column_stack([encoded.set_of[field][boxes[:, field]] for field in fields]),
        sets=encoded.sets,
        partition=np.array(of_release, np.int32)[release],
        first_window=windows[:, 0],
        last_window=windows[:, 1],
        release=release,
        size=size,
        group_of=group_of,
    )
    return records, rows


def _partitions_of(evidence: _Evidence) -> tuple[np.ndarray, list[int]]:
    """The number int32 (n,) of each record's partition, and that of each release's: -1 for one no record has."""
    names = evidence.bound.input_columns
    own = evidence.records[:, [names.index(name) for name in evidence.bound.policy.partition_by]]
    first, partition, _ = group_rows(own)
    number_of = {tuple(own[row].tolist()): number for number, row in enumerate(first)}
    return partition, [number_of.get(head.partition, -1) for head in evidence.released.heads]


def _windows(evidence: _Evidence, records: np.ndarray) -> np.ndarray:
    """Window number int64 (n,) of every record: floor((time - offset) / size); 0 without windows."""
    policy = evidence.bound.policy
    if policy.time is None:
        return np.zeros(len(records), np.int64)
    column = evidence.bound.input_columns.index(policy.time.name)
    numbers = [_window_number(value, policy) for value in evidence.books[column].values]
    return np.array([*numbers, _NO_WINDOW], np.int64)[records[:, column]]


def _window_number(instant: object, policy: Policy) -> int:
    """The number of the window that holds an instant, in milliseconds since 1970 UTC."""
    if not isinstance(instant, int) or policy.window_ms is None:
        return _NO_WINDOW
    return (instant - policy.window_offset_ms) // policy.window_ms


def _window_range(head: ReleaseHead, policy: Policy) -> tuple[int, int]:
    """First and last window whose records may be in the release.

    The release says that its oldest record is of the window at its start, and the policy that no record waits
    longer than max_delay after its own window's end; those of a closing release did before its run began. A release
    of unknown windows holds nothing.
    """
    if policy.window_ms is None:
        return 0, 0
    if head.start is None or head.end is None:
        return 1, 0
    first, last = _window_number(head.start, policy), _window_number(head.end, policy) - 1
    if head.closing:
        return first, last
    # Rounded up: only a window that ends at head.end - max_delay or later may have waited for this release.
    return max(first, _window_number(head.end - policy.max_delay_ms - 1, policy)), last


def _members(evidence: _Evidence, records: RecordGroups) -> tuple[GroupMembers, int | None]:
    """Individuals of the record groups, and how many there are; nobody and None without such a field."""
    field = evidence.bound.policy.individual
    if field is None:
        nobody = np.zeros(0, np.int32)
        return GroupMembers(np.zeros(len(records.size) + 1, np.int64), nobody, nobody.astype(np.int64)), None
    # A missing individual (-1) was reported already; it must not be anybody's number.
    individual = evidence.records[:, evidence.bound.input_columns.index(field.name)] + 1
    return group_members(records.group_of, individual, len(records.size)), len(np.unique(individual))
