"""``kanonflow verify``: are these releases, over this input, k-concealing?

An independent check for somebody who has the input and need not believe the pipeline: it shares the policy
and the schemas with it, and none of the code that reads, casts, solves, gates or publishes.

1. Read the input and the rejected rows; what was not rejected must have been released.      audit_records
2. Read the releases; check each file by itself, and that no release slot was used twice.    audit_releases
3. The released payload is, as a multiset, that of the records not rejected.                 audit_records
   Where the policy sets rules for sensitive fields, every class of equal boxes meets them.    audit_diversity
4. One bipartite graph over all releases: which record may stand behind which row.           audit_graph
   The payload plays no part in it: the promise is about somebody who knows every quasi-identifier.
5. A perfect matching exists (else: not a generalization of the original).                   audit_matching
6. Pairs that some perfect matching uses; at least k of them for every record and row.       audit_concealment
7. ``protect: individual``: classes in which every number of rows can be shared by k.        audit_classes

What this cannot show: that the published matching was drawn with equal chances (1/k); that takes the members
and the seed. Nor can it see rows published under another policy, or by another run.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kanonflow.pipelines.audit_boxes import BoxBook, encode_boxes, encode_records
from kanonflow.pipelines.audit_classes import check_classes
from kanonflow.pipelines.audit_concealment import GroupMembers, conceal, group_members
from kanonflow.pipelines.audit_diversity import check_diversity
from kanonflow.pipelines.audit_graph import (
    RecordGroups,
    RowGroups,
    candidate_graph,
    group_records,
    group_rows,
)
from kanonflow.pipelines.audit_judgement import (
    judge_classes,
    judge_concealment,
    judge_placement,
    judge_starts,
)
from kanonflow.pipelines.audit_matching import place
from kanonflow.pipelines.audit_reading import find_input, read_input, read_rejected
from kanonflow.pipelines.audit_records import (
    check_payload,
    check_rejections,
    check_unique_fields,
    released_records,
)
from kanonflow.pipelines.audit_releases import ReleasedRows, ReleaseHead, check_slots, read_releases
from kanonflow.pipelines.audit_report import AuditFigures, AuditReport, Findings
from kanonflow.pipelines.audit_values import CodeBook
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy import Policy, Protection
from kanonflow.schemas.policy_source import read_policy

# No window has this number: a record whose time is unknown fits no release.
_NO_WINDOW = -(2**62)


@dataclass(frozen=True)
class _Evidence:
    """What was read: the records not rejected and the released rows, both as codes."""

    bound: BoundPolicy
    books: tuple[CodeBook, ...]
    box_books: tuple[BoxBook, ...]
    records: np.ndarray
    released: ReleasedRows


def audit(
    policy_path: Path,
    input_patterns: Sequence[str],
    release_dir: Path,
    *,
    delimiter: str | None = None,
    broken: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> AuditReport:
    """Audit the releases of a run.

    Args:
        policy_path: the policy of the run.
        input_patterns: globs of the input's files (local).
        release_dir: the directory that the run wrote to: releases in release/, rejected rows and metrics in
            restricted/.
        delimiter: of CSV files; None: the one that the header has most of.
        broken: records of the input that are no rows and that its files do not show (messages of a topic).
        clock: seconds, for the report.

    Raises:
        PolicyError, InputError: the policy, the input or the directory cannot be read at all. What is wrong
            with a release is a failure in the report.
    """
    started = clock()
    findings = Findings()
    evidence, figures = _read(
        read_policy(policy_path), input_patterns, Path(release_dir), delimiter, broken, findings
    )
    read = clock()
    if evidence.released.unread:
        findings.add("not audited further: some releases could not be read")
    else:
        figures = _examine(evidence, figures, findings)
    figures = replace(
        figures, seconds_reading=round(read - started, 3), seconds_checking=round(clock() - read, 3)
    )
    return AuditReport(findings.messages(), figures)


def _read(
    policy: Policy,
    patterns: Sequence[str],
    folder: Path,
    delimiter: str | None,
    broken: int,
    findings: Findings,
) -> tuple[_Evidence, AuditFigures]:
    columns = find_input(patterns, delimiter)
    bound = bind(policy, columns.schema, text=columns.text, source=str(columns.files[0]))
    books = {column.name: CodeBook(column) for column in bound.columns}
    kept = tuple(books.values())
    records = read_input(columns, bound, kept, delimiter)
    rejected = read_rejected(folder / "restricted" / "rejected", bound, kept)
    stays = released_records(records.codes, rejected.codes, findings)
    check_rejections(records.codes[stays], kept, findings)
    broken += records.broken
    if broken != rejected.broken:
        findings.add(f"{broken} broken input lines, but {rejected.broken} were rejected as such")
    if rejected.conflicts:
        findings.add(
            f"{rejected.conflicts} rows belong to releases that lost their slot: their records cannot be told"
        )
    box_books = tuple(BoxBook(books[column.name]) for column in bound.quasis)
    payload_books = [books[column.name] for column in bound.payload]
    released = read_releases(folder / "release", bound, box_books, payload_books, findings)
    check_slots(released.heads, folder / "restricted" / "metrics", findings)
    if not released.unread:
        payload = [bound.input_columns.index(book.column.name) for book in payload_books]
        check_payload(records.codes[stays][:, payload], released.payload, findings)
        check_unique_fields(records.codes[:, payload], released.payload, payload_books, findings)
        check_diversity(released, payload_books, findings)
    figures = AuditFigures(
        k=policy.k,
        records=len(records.codes),
        broken=broken,
        rejected=len(rejected.codes),
        releases=len(released.heads),
        rows=len(released.release),
    )
    return _Evidence(bound, kept, box_books, records.codes[stays], released), figures


def _examine(evidence: _Evidence, figures: AuditFigures, findings: Findings) -> AuditFigures:
    """Steps 4 to 7: the graph over all releases and what follows from it."""
    policy, heads = evidence.bound.policy, evidence.released.heads
    if not len(evidence.records) and not len(evidence.released.release):
        return figures
    records, rows = _groups(evidence)
    graph = candidate_graph(records, rows)
    placement = place(graph)
    members, individuals = _members(evidence, records)
    figures = replace(
        figures,
        individuals=individuals,
        record_groups=len(records.size),
        row_groups=len(rows.size),
        pairs=graph.pairs,
        unplaced=int(placement.row_left.sum()),
    )
    judge_placement(graph, placement, rows, heads, findings)
    if not placement.perfect:
        return figures
    concealment = conceal(graph, placement, members, records.window)
    behind = concealment.records_of_row if individuals is None else concealment.individuals_of_row
    judge_concealment(concealment, behind, graph, rows, policy.k, heads, findings)
    if policy.window_ms is not None:
        starts = [_window_number(head.start, policy) for head in heads]
        judge_starts(concealment, rows, np.array(starts, np.int64), heads, findings)
    if policy.protect is Protection.INDIVIDUAL:
        faults = check_classes(graph, concealment, members, rows.release, policy.k)
        judge_classes(faults, rows, policy.k, heads, findings)
        figures = replace(figures, classes=len(rows.size))
    may_be = concealment.rows_of_record
    return replace(
        figures,
        components=concealment.components,
        fewest_rows_of_record=int(may_be.min()),
        records_at_k=float(np.average(may_be == policy.k, weights=graph.record_size)),
        fewest_individuals_of_row=int(behind.min()),
        rows_at_k=float(np.average(behind == policy.k, weights=graph.row_size)),
        mean_individuals_of_row=float(np.average(behind, weights=graph.row_size)),
    )


def _groups(evidence: _Evidence) -> tuple[RecordGroups, RowGroups]:
    bound, released = evidence.bound, evidence.released
    position = {column.name: place for place, column in enumerate(bound.columns)}
    partition_columns = [position[name] for name in bound.policy.partition_by]
    own = evidence.records[:, partition_columns]
    first, partition, _ = group_rows(own)
    number_of = {tuple(own[row].tolist()): number for number, row in enumerate(first)}
    quasis = [position[book.book.column.name] for book in evidence.box_books]
    codes = encode_records(evidence.records[:, quasis], evidence.box_books)
    records = group_records(codes, partition, _windows(evidence, position))

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
        partition=np.array([number_of.get(head.partition, -1) for head in released.heads], np.int32)[release],
        first_window=windows[:, 0],
        last_window=windows[:, 1],
        release=release,
        size=size,
        group_of=group_of,
    )
    return records, rows


def _windows(evidence: _Evidence, position: dict[str, int]) -> np.ndarray:
    """Window number int64 (n,) of every record: floor((time - offset) / size); 0 without windows."""
    policy = evidence.bound.policy
    if policy.time is None:
        return np.zeros(len(evidence.records), np.int64)
    column = position[policy.time.name]
    numbers = [_window_number(value, policy) for value in evidence.books[column].values]
    return np.array([*numbers, _NO_WINDOW], np.int64)[evidence.records[:, column]]


def _window_number(instant: object, policy: Policy) -> int:
    """The number of the window that holds an instant, in milliseconds since 1970 UTC."""
    if not isinstance(instant, int) or policy.window_ms is None:
        return _NO_WINDOW
    return (instant - policy.window_offset_ms) // policy.window_ms


def _window_range(head: ReleaseHead, policy: Policy) -> tuple[int, int]:
    """First and last window whose records may be in the release.

    The release says that its oldest record is of the window at its start, and the policy that no record waits
    longer than max_delay after its own window's end. A release of unknown windows holds nothing.
    """
    if policy.window_ms is None:
        return 0, 0
    if head.start is None or head.end is None:
        return 1, 0
    # Rounded up: only a window that ends at head.end - max_delay or later may have waited for this release.
    patient = _window_number(head.end - policy.max_delay_ms - 1, policy)
    return max(_window_number(head.start, policy), patient), _window_number(head.end, policy) - 1


def _members(evidence: _Evidence, records: RecordGroups) -> tuple[GroupMembers, int | None]:
    """Individuals of the record groups, and how many there are; nobody and None without such a field."""
    field = evidence.bound.policy.individual
    if field is None:
        nobody = np.zeros(0, np.int32)
        return GroupMembers(np.zeros(len(records.size) + 1, np.int64), nobody, nobody.astype(np.int64)), None
    # A missing individual (-1) was reported already; it must not be anybody's number.
    individual = evidence.records[:, evidence.bound.input_columns.index(field.name)] + 1
    return group_members(records.group_of, individual, len(records.size)), len(np.unique(individual))
