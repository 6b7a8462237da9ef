"""What a run over files looks at before it writes anything: whether they fit, and what their payload tells.

A run refuses what ``policy check`` refuses, by the same sample and the same measures. Both are the same each time, so
that a run which resumes is not refused where it began.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kanonflow.pipelines.feeds.input_files import InputFile
from kanonflow.pipelines.feeds.read_files import Reading, read_batches
from kanonflow.pipelines.fit.input_fit import RunMisfitError
from kanonflow.pipelines.fit.sampled_fit import refused_input, sampled_fit
from kanonflow.pipelines.pictures.value_parts import input_parts
from kanonflow.pipelines.risks.payload_sample import measured_files
from kanonflow.pipelines.run_records.payload_check import keep_measured
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.risks.check_record import CheckRecord
from kanonflow.transforms.risks.first_windows import first_words
from kanonflow.transforms.risks.payload_risks import PayloadRisks


def refuse_misfits(
    files: Sequence[InputFile], bound: BoundPolicy, csv: CsvForm, source: str, reading: Reading = read_batches
) -> dict[str, str]:
    """By field, what of the policy would read the values of the sample that do not fit.

    Raises RunMisfitError if more of the sample does not fit than the policy lets pass.
    """
    fit = sampled_fit(files, bound, csv, reading)
    refusal = refused_input(fit, files, csv, source, RunMisfitError)
    if refusal is not None:
        raise refusal
    return {field.name: field.proposed.render(field.name) for field in fit.fields if field.proposed}


class Measured(NamedTuple):
    """line: what was measured, and how long that took; "" if there was nothing to measure.

    figures: of the payload, and for the report how the values of quasi-identifiers lie.
    check: that the run's windows need not be measured once more.
    """

    line: str
    figures: Mapping[str, Any] | None = None
    check: CheckRecord | None = None


def measure_payload(
    files: Sequence[InputFile], bound: BoundPolicy, csv: CsvForm, reading: Reading = read_batches
) -> Measured:
    """What the payload tells beside its values.

    Of policies in which every risk is accepted nothing is. Raises PayloadRiskError: a field is above its limit.
    """
    if all(field.accept_risk is not None for field in bound.policy.payload):
        return Measured("")
    begin = time.perf_counter()
    rows, risks = measured_files(files, bound, csv, reading)
    refusal = risks.refusal(bound.policy.name)
    if refusal is not None:
        raise refusal
    seconds = time.perf_counter() - begin
    check = CheckRecord("the run's files", risks.rows, "its beginning")
    return Measured(
        f"{risks.words()} ({seconds:.1f} s)", risks.figures() | {"fields": input_parts(rows, bound)}, check
    )


@dataclass(frozen=True)
class KeepMeasured:
    """What a worker of a stream does with what it measured of the first windows. output: as workers see it."""

    output: str
    policy: Policy

    def __call__(self, risks: PayloadRisks) -> None:
        """Keep it, with the words for the terminal; of several workers the last one is heard."""
        said = {"said": first_words(risks, self.policy.name)}
        keep_measured(self.output, self.policy, risks.figures() | said, time.time_ns() // 1_000_000)
