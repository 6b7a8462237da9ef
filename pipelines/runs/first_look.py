"""What a run over files looks at before it writes anything: whether they fit, and what their payload tells.

A run refuses what ``policy check`` refuses, by the same sample and the same measures. Both are the same each time, so
that a run which resumes is not refused where it began.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kanonflow.pipelines.feeds.input_files import InputFile
from kanonflow.pipelines.fit.input_fit import RunMisfitError
from kanonflow.pipelines.fit.sampled_fit import refused_input, sampled_fit
from kanonflow.pipelines.risks.payload_risks import payload_risks
from kanonflow.pipelines.risks.payload_sample import read_sample
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.text_form import CsvForm


def refuse_misfits(
    files: Sequence[InputFile], bound: BoundPolicy, csv: CsvForm, source: str
) -> dict[str, str]:
    """By field, what of the policy would read the values of the sample that do not fit.

    Raises RunMisfitError if more of the sample does not fit than the policy lets pass.
    """
    fit = sampled_fit(files, bound, csv)
    refusal = refused_input(fit, files, csv, source, RunMisfitError)
    if refusal is not None:
        raise refusal
    return {field.name: field.proposed.render(field.name) for field in fit.fields if field.proposed}


class Measured(NamedTuple):
    """line: what was measured, and how long that took; "" if there was nothing to measure. figures: of the payload."""

    line: str
    figures: Mapping[str, Any] | None = None


def measure_payload(files: Sequence[InputFile], bound: BoundPolicy, csv: CsvForm) -> Measured:
    """What the payload tells beside its values.

    Of policies in which every risk is accepted nothing is. Raises PayloadRiskError: a field is above its limit.
    """
    open_fields = [field.name for field in bound.policy.payload if field.accept_risk is None]
    if not open_fields:
        return Measured("")
    begin = time.perf_counter()
    risks = payload_risks(read_sample(files, bound, csv), bound)
    refusal = risks.refusal(bound.policy.name)
    if refusal is not None:
        raise refusal
    seconds = time.perf_counter() - begin
    unsure = {risk.field for risk in risks.risks if not risk.judged and risk.field in open_fields}
    within = ", ".join(name for name in open_fields if name not in unsure)
    parts = [f"payload within its limits: {within}"] if within else []
    parts += [f"too few rows to tell of {', '.join(sorted(unsure))}"] if unsure else []
    line = f"{'; '.join(parts)}, measured on {risks.rows:,} rows ({seconds:.1f} s)"
    return Measured(line, risks.figures())
