"""What a certificate may say: an allow-list, and the only door through which anything comes to one.

Read are ``OUT/metrics``, whose files must have no fields but those that metrics.avsc calls public, and
``OUT/verdict.json``, of which the members of ``Verdict``; ``OUT/assessment.json``, where the owner published it;
whether there is an ``OUT/promise.json``; what ``OUT/renewal.json`` tells of readers; what the schema of a release in
``OUT/release`` says of its fields, and without metrics what all of them say of the promise. Whether the public files
are those that were judged takes their bytes, of which nothing but the answer comes through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kanonflow.pipelines.chains.renewal_file import told_renewal
from kanonflow.pipelines.report.run_files import StatedField, read_records, stated_fields, stated_promise
from kanonflow.pipelines.run_records.public_assessment import PublicAssessment, read_assessment
from kanonflow.pipelines.run_records.verdict import Judged, Verdict, read_verdict, stands
from kanonflow.schemas.avro_schema import metrics_schema
from kanonflow.transforms.files.output_directories import promise_is_made
from kanonflow.transforms.release.public_metrics import public_metrics_schema


@dataclass(frozen=True)
class PublicFacts:
    """metrics: the public records of releases. stated: what releases say of their promise, {} where metrics or nothing
    does. fields: those of the releases. verdict: of the last audit, None without one; stands: whether the files that it
    judged are those that are there. divided: whether ``promise.json`` says that there is none over releases. assessed:
    what the owner published. renewal: what readers of several epochs are left with; None: there is one epoch."""

    metrics: tuple[Mapping[str, Any], ...]
    stated: Mapping[str, Any]
    verdict: Verdict | None
    stands: bool
    divided: bool = False
    fields: tuple[StatedField, ...] = ()
    assessed: PublicAssessment | None = None
    renewal: str | None = None

    @property
    def released_again(self) -> bool:
        """Whether the verdict knows of another release of these rows; that stays so, whatever becomes of the files."""
        return self.verdict is not None and self.verdict.second_release


def public_facts(output: Path, judged: Judged | None) -> PublicFacts:
    """What may be told of a run. judged: the files that are there (``judged_again``).

    Raises InputError: a file of the public metrics is damaged or not public, or a release is damaged.
    """
    names = [field["name"] for field in public_metrics_schema(metrics_schema())["fields"]]
    metrics = tuple(
        {name: record[name] for name in names if name in record}
        for record in read_records(output / "metrics", names)
    )
    verdict = read_verdict(output)
    stated = {} if metrics else stated_promise(output / "release")
    divided, fields = not promise_is_made(str(output)), stated_fields(output / "release")
    assessed = read_assessment(output, judged)
    stood, renewal = stands(verdict, judged), told_renewal(str(output))
    return PublicFacts(metrics, stated, verdict, stood, divided, fields, assessed, renewal)
