"""All that is told of a run to those inside: exact metrics, what the run wrote of itself, and the last audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kanonflow.pipelines.analysis.expected_errors import ExpectedErrors, expected_errors
from kanonflow.pipelines.analysis.query_error import QueryErrors
from kanonflow.pipelines.chains.renewal_file import told_renewal
from kanonflow.pipelines.commands.rejected import rejected_rows
from kanonflow.pipelines.pictures.released_sample import ReleasedSample, released_sample
from kanonflow.pipelines.pictures.value_parts import Parts
from kanonflow.pipelines.report.run_files import (
    read_records,
    stated_promise,
    told_check,
    told_run,
    told_summary,
    with_defaults,
)
from kanonflow.pipelines.report.steps import Record, added
from kanonflow.pipelines.report.utility import Compared
from kanonflow.pipelines.run_records.released_again import released_again
from kanonflow.pipelines.run_records.run_summary import settings_of
from kanonflow.pipelines.run_records.verdict import Judged, Verdict, read_report, read_verdict, stands
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.files.output_directories import PLAN_FILE
from kanonflow.transforms.sinks.divided_people import divided_people


@dataclass(frozen=True)
class RunFacts:
    """metrics: exact ones, of windows without a release too. rejected: rows by reason, those that came into no window
    among them. run: restricted/run.json. summary: the closing table of a run over files, {} without one. stated: what
    releases say of their promise, {} where metrics or nothing does. settings: of the policy, {} where it is not known.
    payload: restricted/measured.json or check.json. sample: rows of the releases.
    seen: how values of the input lie, by published name; {} where nobody looked.
    released_again: whether another release of these rows is known. divided: people of cohorts that last with rows in
    more than one partition. verdict, stands: of the last audit, of all files that it judged. report: its report, if of
    the files that are there. errors: of queries; None: not measured. shards: people in the cohorts of each shard, by
    key; {} without a plan. renewal: what readers of several epochs are left with; None: there is one. count_errors: of
    counts by each field, as a model of the released rows expects them."""

    metrics: tuple[Mapping[str, Any], ...]
    rejected: Mapping[str, int]
    run: Mapping[str, Any]
    summary: Mapping[str, Any]
    ended_at: str | None
    stated: Mapping[str, Any]
    settings: Mapping[str, str]
    payload: Mapping[str, Any]
    sample: ReleasedSample
    seen: Mapping[str, Parts]
    released_again: bool
    verdict: Verdict | None
    stands: bool
    report: Mapping[str, Any] | None
    errors: QueryErrors | None
    divided: int = 0
    shards: Mapping[str, int] = field(default_factory=dict)
    renewal: str | None = None
    count_errors: tuple[ExpectedErrors, ...] = ()

    @property
    def released(self) -> tuple[Mapping[str, Any], ...]:
        """The metrics of the releases that are out."""
        return tuple(record for record in self.metrics if record["released"])


def _rejected(output: Path, metrics: Sequence[Record]) -> Mapping[str, int]:
    """Rows in ``restricted/rejected``, which has what came into no window too; by the metrics where that is empty."""
    folder = output / "restricted" / "rejected"
    by_reason = (
        Counter(record["reason"] for record in rejected_rows(str(output))) if folder.is_dir() else Counter()
    )
    return by_reason or added(record["rows_rejected"] for record in metrics)


def _count_errors(sample: ReleasedSample) -> tuple[ExpectedErrors, ...]:
    """Of the whole release, by its sample."""
    if sample.table is None or sample.form is None:
        return ()
    lasts = sample.form.epoch is not None
    share = sample.share if lasts else sample.share * sample.files / sample.all_files
    return tuple(expected_errors(sample.table, lasts=lasts, share=share))


def _people_by_shard(output: Path) -> Mapping[str, int]:
    if not (output / "restricted" / PLAN_FILE).is_file():
        return {}
    # Knows cohorts, and with them windows and solvers, which a run without a plan is told without.
    from kanonflow.pipelines.chains.people_of_shard import people_by_shard

    return people_by_shard(str(output))


def run_facts(
    output: Path, judged: Judged | None, policy: Policy | None = None, compared: Compared | None = None
) -> RunFacts:
    """What lies in a run's directory.

    judged: the files that are there (``judged_again``). policy: the run's, where it did not write its settings down.

    Raises InputError: metrics, a release or what the run wrote of itself are damaged.
    """
    restricted = output / "restricted"
    summary = told_summary(restricted)
    verdict, report = read_verdict(output), read_report(output, judged)
    payload, sample = told_check(restricted), released_sample(output / "release")
    metrics = tuple(with_defaults(read_records(restricted / "metrics")))
    return RunFacts(
        metrics=metrics,
        rejected=(summary.get("summary") or {}).get("rejected") or _rejected(output, metrics),
        run=told_run(restricted),
        summary=summary.get("summary") or {},
        ended_at=summary.get("ended_at"),
        stated={} if metrics else stated_promise(output / "release"),
        settings=summary.get("settings") or ({} if policy is None else settings_of(policy)),
        payload=payload,
        seen=payload.get("fields", {}) if compared is None else compared.fields,
        sample=sample,
        released_again=released_again(output) or (verdict is not None and verdict.second_release),
        verdict=verdict,
        stands=stands(verdict, judged) and report is not None,
        report=report,
        errors=None if compared is None else compared.errors,
        divided=divided_people(str(output)),
        shards=_people_by_shard(output),
        renewal=told_renewal(str(output)),
        count_errors=_count_errors(sample),
    )
