"""Several runs of a chain, each the successor of the one before: judged as a whole.

    links    places without a gap, one epoch, no release id of two runs; each begins with the cohorts, the pool and the
             waiting rows that the one before left                                              _judge_link
    epochs   where a run renewed, each epoch is a chain over its own files; between two the renewal  _over_epochs
    whole    all releases, rejected rows and metrics together, with the cohorts of the last, over the input of all,
             are audited as one run                                                             _lay_together

What takes the input of each run by itself, whether an intake left somebody out, is judged night by night.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.audit.files.release_files import is_release
from kanonflow.pipelines.audit.followed_share import FollowedShare
from kanonflow.pipelines.audit.judge.metrics import check_modes
from kanonflow.pipelines.audit.lasting.carried_people import judge_clocks
from kanonflow.pipelines.audit.read.carried_state import CAME, EXPECTED, carried_facts
from kanonflow.pipelines.audit.read.chain_record import ChainRecord, chain_record, judge_place
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.foreign_entries import MATCHING_RECORDS
from kanonflow.pipelines.audit.read.read_cohorts import CONTINUED, segment_chains
from kanonflow.pipelines.audit.read.read_input import avro_records, files_named, told_metrics
from kanonflow.pipelines.audit.renewal_link import judge_renewal, renewed_from
from kanonflow.pipelines.audit.report import AuditFigures, AuditReport
from kanonflow.pipelines.audit.split_link import earlier_segments, judge_split, splits_between
from kanonflow.pipelines.audit.unchecked import BEFORE_RENEWAL, RENEWAL
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy_source import read_policy
from kanonflow.schemas.printable import printable


@dataclass(frozen=True)
class ChainedRun:
    """One of the runs. name: its directory as it was given."""

    name: str
    folder: Path
    record: ChainRecord


def audit_chain(
    policy_path: Path, input_patterns: Sequence[str], directories: Sequence[str], **checks: Any
) -> AuditReport:
    """Audit runs that continue each other, over the input of all of them.

    directories: their outputs, in any order; runs of builds that knew no places in the order in which they ran.
    checks: as of ``audit``.

    Raises PolicyError, InputError as ``audit``; InputError: no output of a run.
    """
    policy = read_policy(policy_path)
    runs = _in_order([_run(name) for name in directories])
    if len(epochs := _by_epoch(runs)) > 1:
        return _over_epochs(epochs, policy_path, input_patterns, checks)
    findings = Findings()
    for run in runs:
        check_modes(run.folder, findings)
        metrics = told_metrics(run.folder / "restricted" / "metrics")
        judge_place(run.record, metrics, findings)
        judge_clocks(run.folder, metrics, policy, findings)
    for before, after in pairwise(runs):
        _judge_link(before, after, findings)
    shared = _shared_releases(runs)
    if shared:
        findings.add(
            f"{len(shared)} ids stand for a release of two runs: of each one is lost where the runs lie together",
            *shared,
        )
        findings.add("not audited as a whole: releases of one id cannot be told apart")
        return AuditReport(findings.messages(), AuditFigures(policy.k, runs=len(runs)))
    with tempfile.TemporaryDirectory(prefix="kanonflow-verify-") as place:
        folder = Path(place)
        places = _lay_together(runs, folder)
        pooled = all(run.record.place is not None for run in runs)
        outputs = [run.folder for run in runs]
        report = audit(
            policy_path, input_patterns, folder, places=places, pooled=pooled, outputs=outputs, **checks
        )
    return replace(
        report,
        failures=(*findings.messages(), *report.failures),
        figures=replace(report.figures, runs=len(runs)),
        checked=(*_CHECKED, *report.checked),
    )


def _by_epoch(runs: Sequence[ChainedRun]) -> list[list[ChainedRun]]:
    """Runs that one renewed epoch after the other has."""
    epochs: list[list[ChainedRun]] = []
    for run in runs:
        if not epochs or (renewed_from(run.folder) and run.record.epoch != epochs[-1][-1].record.epoch):
            epochs.append([])
        epochs[-1].append(run)
    return epochs


def _over_epochs(
    epochs: Sequence[Sequence[ChainedRun]],
    policy_path: Path,
    input_patterns: Sequence[str],
    checks: Mapping[str, Any],
) -> AuditReport:
    """Each epoch over the files that its runs read, and the renewals between them.

    Raises InputError: which run read which file is not told."""
    findings = Findings()
    files = _files_by_name(input_patterns)
    reports = []
    inputs = [_files_of(runs, files) for runs in epochs]
    read = Counter(path for own in inputs for path in set(own))
    if again := sorted(path for path, count in read.items() if count > 1):
        findings.add(f"{len(again)} files were read in two epochs: their rows are out twice", *again)
    if shared := _shared_releases([run for runs in epochs for run in runs]):
        findings.add(f"{len(shared)} ids stand for a release of two runs", *shared)
    for number, runs in enumerate(epochs):
        if number:
            _judge_renewal_link(epochs[number - 1][-1], runs[0], findings)
        reports.append(audit_chain(policy_path, inputs[number], [run.name for run in runs], **checks))
    failures = [
        f"{runs[0].name}: {failure}" if len(runs) == 1 else f"{runs[0].name} to {runs[-1].name}: {failure}"
        for runs, report in zip(epochs, reports, strict=True)
        for failure in report.failures
    ]
    last = reports[-1]
    summed = {name: sum(getattr(each.figures, name) for each in reports) for name in _SUMMED}
    # Rows that waited at the end of an epoch were read in it, and are counted there.
    figures = replace(
        last.figures, **summed, carried_in=reports[0].figures.carried_in, runs=sum(map(len, epochs))
    )
    return replace(
        last,
        failures=(*findings.messages(), *failures),
        figures=figures,
        checked=(*_RENEWED, *last.checked),
        not_checked=_not_checked(epochs, reports),
        # Of all epochs the one that was followed least.
        followed=min((report.followed for report in reports), key=FollowedShare.least),
    )


def _not_checked(epochs: Sequence[Sequence[ChainedRun]], reports: Sequence[AuditReport]) -> tuple[str, ...]:
    """Of all epochs, each line once; the renewals between them were judged, not what came before the first."""
    judged = () if renewed_from(epochs[0][0].folder) else (f"{BEFORE_RENEWAL[0]}:",)
    lines = dict.fromkeys(each for report in reports for each in report.not_checked)
    return tuple(each for each in lines if not each.startswith(judged))


_SUMMED = ("records", "broken", "rejected", "releases", "rows")
_RENEWED = (
    "renewals: everybody of an epoch is in one cohort of the next, under values of before or of a file of people, and"
    " what readers of all epochs are left with is what is told",
    "each epoch over the files that its runs read; nothing is promised over several but what renewal.json tells",
)


def _files_by_name(patterns: Sequence[str]) -> Mapping[str, list[str]]:
    by_name: dict[str, list[str]] = {}
    for path in sorted({path for pattern in patterns for path in files_named(pattern)}):
        by_name.setdefault(Path(path).name, []).append(path)
    return by_name


def _files_of(runs: Sequence[ChainedRun], files: Mapping[str, list[str]]) -> list[str]:
    """Those that some runs read, as their records name them."""
    paths = []
    for run in runs:
        try:
            inputs = json.loads((run.folder / "restricted" / "run.json").read_text())["input"]
            names = [Path(str(each["name"])).name for each in inputs]
        except (OSError, ValueError, KeyError, TypeError):
            names = []
        unclear = [name for name in names if len(files.get(name, ())) != 1]
        if unclear or not names:
            raise InputError(
                f"--input: which files the run in {run.name} read cannot be told (its record names"
                f" {', '.join(map(printable, unclear)) or 'none'}); runs of several epochs are judged each over its own"
                " files: name each once, under its own name, or verify each epoch by itself"
            )
        paths += [files[name][0] for name in names]
    return paths


def _judge_renewal_link(before: ChainedRun, after: ChainedRun, findings: Findings) -> None:
    """Whether ``after`` began its epoch with the people of ``before``."""
    pair = f"{after.name} after {before.name}"
    if renewed_from(after.folder).get("before") != before.record.epoch:
        findings.add(f"{pair}: it renewed another epoch")
    if after.record.place != (before.record.place or 0) + 1 or not after.record.continued:
        findings.add(f"{pair}: places in the chain that do not follow each other")
    if splits_between(before.folder, after.folder, after.record.place) != ():
        findings.add(f"{pair}: another plan of shards than in the epoch before")
    judge_renewal(pair, before.folder, after.folder, findings)


_CHECKED = (
    "each run is the successor of the one before: places, epoch, cohorts, pool and rows that wait go on",
    "no release id and no slot is that of two runs",
)


def _run(name: str) -> ChainedRun:
    folder = Path(name)
    record = chain_record(folder)
    if record is None or not (folder / "release").is_dir():
        raise InputError(f"--release {name}: no run's output, it lacks release/ or restricted/run.json")
    return ChainedRun(name, folder, record)


def _in_order(runs: Sequence[ChainedRun]) -> list[ChainedRun]:
    """By place; first those that tell none, as they were given."""
    return sorted(runs, key=lambda run: -1 if run.record.place is None else run.record.place)


def _judge_link(before: ChainedRun, after: ChainedRun, findings: Findings) -> None:
    """Whether ``after`` goes on from what ``before`` left."""
    pair = f"{after.name} after {before.name}"
    one, other = before.record, after.record
    if other.place is not None and other.place != (one.place or 0) + 1:
        told = "none" if one.place is None else str(one.place)
        findings.add(f"{pair}: places in the chain that do not follow each other ({told}, {other.place})")
    if one.epoch != other.epoch:
        findings.add(f"{pair}: another epoch")
    if not other.continued:
        findings.add(f"{pair}: it continues no run")
    splits = splits_between(before.folder, after.folder, other.place)
    if splits is None:
        findings.add(f"{pair}: another plan of shards: who is in a shard stays there for the epoch")
    for split in splits or ():
        judge_split(pair, before.folder, after.folder, split, findings)
    divided = frozenset(name for split in splits or () for name in (split.shard, *split.parts))
    _judge_cohorts(pair, before, after, divided, findings)
    _judge_handed_on(pair, before, after, divided, findings)


def _judge_cohorts(
    pair: str, before: ChainedRun, after: ChainedRun, divided: frozenset[str], findings: Findings
) -> None:
    """The one's segments are the first of the other's, by their chains of digests, and it says so. divided: shards that
    were split between the two, and their parts, which are judged for themselves."""
    here, there = segment_chains(before.folder), segment_chains(after.folder)
    other = [name for name, chains in here.items() if there.get(name, ())[: len(chains)] != chains]
    told = {name: _inherited(after.folder, name) for name in there}
    other += [name for name, count in told.items() if count != len(here.get(name, ())) and name not in other]
    if other := [name for name in other if name not in divided]:
        findings.add(f"{pair}: the cohorts of {len(other)} partitions are not those that were left")


def _inherited(folder: Path, partition: str) -> int | None:
    path = folder / "restricted" / "cohorts" / partition / CONTINUED
    try:
        return int(json.loads(path.read_text())["segments"]) if path.is_file() else 0
    except (ValueError, KeyError, TypeError):
        return None


def _judge_handed_on(
    pair: str, before: ChainedRun, after: ChainedRun, divided: frozenset[str], findings: Findings
) -> None:
    """What is carried out of the one is what is carried into the other, byte for byte. divided: as above."""
    left = {path.stem: path for path in (before.folder / "restricted" / "carried").glob("*.state")}
    cohorts = after.folder / "restricted" / "cohorts"
    came = {path.parent.name: path for path in cohorts.glob(f"*/{CAME}")}
    other = [
        name
        for name in (left.keys() | came.keys()) - divided
        if name not in left or name not in came or left[name].read_bytes() != came[name].read_bytes()
    ]
    if other:
        rows = sum(
            _rows(left[name]) - (_rows(came[name]) if name in came else 0) for name in other if name in left
        )
        findings.add(
            f"{pair}: what {len(other)} partitions began with is not what was left ({abs(rows)} rows more or fewer)"
        )


def _rows(path: Path) -> int:
    try:
        meta, _ = carried_facts(path)
        return int(meta["waiting"]) + sum(int(rows) for _, _, rows in meta["batches"])
    except (ValueError, KeyError, TypeError):
        return 0


def _shared_releases(runs: Sequence[ChainedRun]) -> list[str]:
    seen: dict[str, int] = {}
    for run in runs:
        for name in {path.stem for path in (run.folder / "release").iterdir() if is_release(path)}:
            seen[name] = seen.get(name, 0) + 1
    return sorted(name for name, count in seen.items() if count > 1)


def _lay_together(runs: Sequence[ChainedRun], folder: Path) -> Mapping[str, int]:
    """Make ``folder`` the output of one run, by links; the place of each release's run. Those that
    tell none come before the others.

    Rows and pool that came with the first run came to the whole, and what the last one leaves the whole does.
    """
    inside = folder / "restricted"
    for place in ("release", "restricted", "restricted/metrics", "restricted/rejected", "restricted/cohorts"):
        (folder / place).mkdir(mode=0o700)
    places: dict[str, int] = {}
    old = sum(run.record.place is None for run in runs)
    for number, run in enumerate(runs):
        for path in (run.folder / "release").iterdir():
            _link(path, folder / "release" / path.name)
            places[path.stem] = number - old if run.record.place is None else run.record.place
        for name in ("metrics", *(f"restricted/{place}" for place in MATCHING_RECORDS)):
            if (run.folder / name).is_dir():
                (folder / name).mkdir(exist_ok=True)
                for path in (run.folder / name).iterdir():
                    _link(path, folder / name / path.name)
        # A window that released nothing has a name that a release of another run may have.
        for path in (run.folder / "restricted/metrics").glob("*.avro"):
            released = any(record.get("released", True) for record in avro_records(path))
            _link(path, inside / "metrics" / (path.name if released else f"{number}-{path.name}"))
        for path in (run.folder / "restricted/cohorts").glob(f"*/{EXPECTED}"):
            (inside / "cohorts" / path.parent.name).mkdir(exist_ok=True)
            _link(path, inside / "cohorts" / path.parent.name / f"{path.stem}-{number}{path.suffix}")
        (inside / "rejected" / str(number)).mkdir()
        for path in (run.folder / "restricted/rejected").glob("*.avro"):
            _link(path, inside / "rejected" / str(number) / path.name)
    first, last = runs[0].folder, runs[-1].folder
    for partition in (last / "restricted/cohorts").glob("*/"):
        (inside / "cohorts" / partition.name).mkdir(exist_ok=True)
        for path in partition.iterdir():
            if path.name not in (CONTINUED, CAME, EXPECTED):
                _link(path, inside / "cohorts" / partition.name / path.name)
        if not (first / "restricted/cohorts" / partition.name).is_dir():
            _begins_with(inside / "cohorts" / partition.name, first, last)
    for partition in (first / "restricted/cohorts").glob("*/"):
        # Also of a shard that was split since: its rows came.
        for name in (CONTINUED, CAME):
            if (partition / name).is_file() and (
                name == CAME or (inside / "cohorts" / partition.name).is_dir()
            ):
                (inside / "cohorts" / partition.name).mkdir(exist_ok=True)
                _link(partition / name, inside / "cohorts" / partition.name / name)
    if (last / RENEWAL).is_file():
        _link(last / RENEWAL, folder / RENEWAL)
    if (last / "restricted/plan.json").is_file():
        _link(last / "restricted/plan.json", inside / "plan.json")
    if (last / "restricted/carried").is_dir():
        _link(last / "restricted/carried", inside / "carried")
    return places


def _begins_with(folder: Path, first: Path, last: Path) -> None:
    """Say how many segments of a part had come before the first of the runs."""
    try:
        count = earlier_segments(first, last, folder.name)
    except (ValueError, KeyError, TypeError):
        return  # what is damaged is told where it is read
    if count:
        (folder / CONTINUED).write_text(json.dumps({"segments": count}))


def _link(path: Path, target: Path) -> None:
    target.symlink_to(path.absolute())
