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
from dataclasses import replace
from pathlib import Path

import numpy as np

from kanonflow.pipelines.audit.evidence import Evidence, window_range, windows_of
from kanonflow.pipelines.audit.judge.diversity import check_diversity
from kanonflow.pipelines.audit.judge.metrics import (
    check_metrics,
    check_modes,
    check_public_metrics,
    told_settled,
    told_withheld,
)
from kanonflow.pipelines.audit.judge.ranks import ALARM
from kanonflow.pipelines.audit.judge.records import (
    check_payload,
    check_reasons,
    check_rejections,
    check_unique_fields,
    released_records,
)
from kanonflow.pipelines.audit.judge.waiting import told_waiting
from kanonflow.pipelines.audit.lasting.lasting import read_to_the_end
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround
from kanonflow.pipelines.audit.lasting.member_numbers import NumberKeys
from kanonflow.pipelines.audit.protections import Asked, Graphs, Run, protection_of
from kanonflow.pipelines.audit.read.boxes import BoxBook
from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.foreign_entries import foreign_entries
from kanonflow.pipelines.audit.read.read_input import InputColumns, bind_input, read_input, read_rejected
from kanonflow.pipelines.audit.read.read_releases import ReleasedRows, read_releases
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.pipelines.audit.records.matching_records import Ground, Recipe, check_matching_records
from kanonflow.pipelines.audit.report import AuditFigures, AuditReport
from kanonflow.pipelines.audit.unchecked import RENEWAL, Seen
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy_source import read_policy

# What is rejected so never came into a window.
_NOT_SEEN = ("late", "ahead", "duplicate_event")
_FAULTS = ("bad_value", "missing_value", "outside_domain")


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
    number_keys: NumberKeys | None = None,
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
        number_keys: of the numbers that ``publish_member`` gives people and ``publish_group`` groups.
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
    protection = protection_of(policy)
    evidence, figures = _read(
        protection,
        bound,
        columns,
        Run(Path(release_dir), bound, (), (), places, policy_path),
        findings,
        broken=broken,
        waiting=waiting,
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
        asked = Asked(known, people_key, pooled, number_keys)
        figures, ground = protection.examine(evidence, figures, Path(release_dir), findings, asked)
        if matching_records:
            figures = _recorded(protection, evidence, figures, Path(release_dir), findings, recipe, ground)
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
        left_to=figures.left_to,
        members=None if policy.publish_member is None else figures.members_told is not None,
        ids=None if policy.publish_group is None else figures.ids_told is not None,
        foreign=foreign_entries(outputs or (Path(release_dir),)),
        elsewhere=evidence.released.elsewhere,
        bounded=read_to_the_end(Path(release_dir)),
        runs=places is not None,
        expected=evidence.carried.named is not None,
        shards=figures.shards,
        unplaced=figures.people_unplaced,
        renewed=(Path(release_dir) / RENEWAL).is_file(),
    )
    return AuditReport(
        findings.messages(),
        figures,
        protection.not_checked(seen),
        tuple(protection.checked(seen)),
        protection.followed(figures, seen),
    )


def _read(
    protection: Graphs,
    bound: BoundPolicy,
    columns: InputColumns,
    run: Run,
    findings: Findings,
    *,
    broken: int,
    waiting: bool,
) -> tuple[Evidence, AuditFigures]:
    policy, folder = bound.policy, run.folder
    books = {
        column.name: CodeBook(column, attribute=column.name in bound.attributes) for column in bound.columns
    }
    kept = tuple(books.values())
    box_books = tuple(BoxBook(books[column.name]) for column in bound.quasis)
    run = run._replace(books=kept, box_books=box_books)
    records = read_input(columns, bound, kept)
    carried = protection.carried(run, findings)
    came, left = carried.rows_came(len(kept)), carried.rows_left(len(kept))
    records = replace(records, codes=np.concatenate([records.codes, came]))
    settled = told_settled(folder / "restricted")
    rejected = read_rejected(folder / "restricted" / "rejected", bound, kept, settled)
    stays = released_records(records.codes, rejected.codes, findings)
    stays[stays] = released_records(records.codes[stays], left, findings, "carried")
    # A fault of an attribute is found where its person is seen; of any other field, before a row comes into a window.
    unseen = {column.name for column in bound.columns if column.name not in bound.attributes}
    faults = zip(rejected.reasons, rejected.fields, strict=True)
    outside = np.array(
        [reason in _NOT_SEEN or (reason in _FAULTS and at in unseen) for reason, at in faults], bool
    )
    seen = released_records(records.codes, rejected.codes[outside], Findings())
    free = protection.free_quasis
    check_reasons(rejected.codes, rejected.reasons, kept, findings, free_quasis=free)
    if not waiting:
        check_rejections(records.codes[stays], kept, findings, free_quasis=free)
        protection.judge_events(run, records.codes[stays], findings)
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
    payload_books = [books[column.name] for column in bound.payload]
    released = read_releases(folder / "release", bound, box_books, payload_books, findings)
    released, segments = protection.with_entered(run, released, findings)
    told = _check_places(protection, released, folder, findings, waiting=waiting)
    if not released.unread:
        payload = [bound.place(book.column.name) for book in payload_books]
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
    evidence = Evidence(
        bound, kept, box_books, every[stays], released, every, stays, waiting, told, segments, carried, seen,
        runs=run.places is not None,
    )  # fmt: skip
    return evidence, figures


def _check_places(
    protection: Graphs, released: ReleasedRows, folder: Path, findings: Findings, *, waiting: bool
) -> bool:
    """What lies beside the releases; whether there are metrics among it."""
    check_modes(folder, findings)
    check_public_metrics(folder, protection.policy, findings, waiting=waiting)
    count = len(released.heads)
    groups = released.groups
    if groups is None:
        distinct = released.release[group_rows(np.column_stack([released.release, released.boxes]))[0]]
    else:
        distinct = groups.release
    return check_metrics(
        folder,
        protection.policy,
        released.heads,
        np.bincount(released.release, minlength=count),
        np.bincount(distinct, minlength=count),
        protection.may_count,
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


def _recorded(
    protection: Graphs,
    evidence: Evidence,
    figures: AuditFigures,
    folder: Path,
    findings: Findings,
    recipe: Recipe | None,
    entered: LastingGround | None,
) -> AuditFigures:
    """Step 8: the matching records of all releases."""
    ground = Ground(
        bound=evidence.bound,
        books=evidence.books,
        box_books=evidence.box_books,
        records=protection.as_released(evidence),
        stays=evidence.stays,
        windows=windows_of(evidence, evidence.every),
        released=evidence.released,
        ranges=np.array(
            [window_range(head, protection.policy) for head in evidence.released.heads], np.int64
        ),
        members=protection.members(entered),
        structure=protection.structure,
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
