"""``kanonflow assess``: what a release gives away, by attacks on it, against people who are not in it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.analysis.released_fields import release_form
from kanonflow.pipelines.analysis.released_table import ReleasedTable, hierarchies_of, read_release
from kanonflow.pipelines.assess.assessment import Assessed, Split, assess, split_people
from kanonflow.pipelines.assess.findings import Assessment
from kanonflow.pipelines.assess.page import assessment_page
from kanonflow.pipelines.assess.publishing import public_assessment
from kanonflow.pipelines.dry_run.feed import feed_of, read_feed
from kanonflow.pipelines.fit.bound_input import bind_input
from kanonflow.pipelines.pages.missing_extra import MissingExtraError
from kanonflow.pipelines.pages.pages import render_page
from kanonflow.pipelines.report.report import write_report
from kanonflow.pipelines.run_records.public_assessment import NAME as PUBLIC
from kanonflow.pipelines.run_records.public_assessment import publish_assessment
from kanonflow.pipelines.run_records.replaced_file import replace_file
from kanonflow.pipelines.run_records.verdict import judged_files
from kanonflow.pipelines.runs.kernel_cache import compile_first
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.columns.sort_keys import dense_ranks, sort_keys

PAGE, FIGURES = "assessment.html", "assessment.json"
_KNOWN_ROWS = 0.9
"""Share of released rows whose payload the input must have."""
_SHARED_ROWS = 0.5
"""Share of the controls' rows that may be equal to rows of the input."""
Numbers = NDArray[np.int64]


def assess_release(
    outputs: Sequence[str],
    policy: Policy,
    patterns: Sequence[str],
    controls: Sequence[str] = (),
    *,
    population: int | None = None,
    seed: int = 1,
    delimiter: str | None = None,
    input_format: str | None = None,
    tell: Callable[[str], None] = lambda line: None,
    terminal: TextIO | None = None,
) -> Assessment:
    """What the releases in these directories give away of the people of the input.

    outputs: of one run, or of runs that continue each other. controls: files of people who are not in it.
    population: how many people there are of whom the input's are a part. seed: of all that is drawn by chance.
    tell: takes lines that say what is done and how long it takes. terminal: where compiling is told.
    Raises InputError, PolicyError: nothing to read, or release, policy, input and controls do not belong together.
    """
    files, _, bound, csv = bind_input(policy, patterns, delimiter, input_format)
    rows = read_feed(files, bound, csv)
    if not rows.rows.num_rows:
        raise InputError(f"{', '.join(patterns)}: no row fits the policy; policy check says why")
    released = read_release(*outputs, hierarchies=hierarchies_of(bound))
    _refuse_other_policy(released, bound, outputs[0])
    _refuse_other_input(released, rows.rows, bound, outputs[0], ", ".join(patterns))
    others = bound.canonical_schema.empty_table().select(rows.rows.column_names)
    if controls:
        files, _, bound_controls, csv = bind_input(policy, controls, delimiter, input_format)
        others = read_feed(files, bound_controls, csv).rows.cast(rows.rows.schema)
        _refuse_controls_inside(rows.rows, others, bound, ", ".join(controls))
    both = pa.concat_tables([rows.rows, others]).combine_chunks()
    feed = feed_of(both, bound)
    split = split_people(feed, np.arange(both.num_rows) >= rows.rows.num_rows, seed)
    tell(_cost(split, rows.rows.num_rows, rows.left_out))
    compile_first(bound, terminal, here=True)
    return assess(Assessed(feed, released, bound, split, seed, population))


def write_assessment(assessment: Assessment, output: str) -> str:
    """Figures and page below ``output``/restricted, for their owner only; the path of the last one.

    Raises InputError: they cannot be written.
    """
    folder = Path(output, "restricted")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        written = folder / FIGURES
        replace_file(written, json.dumps(assessment.to_dict(), indent=1).encode(), private=True)
        with contextlib.suppress(MissingExtraError):
            html = render_page(assessment_page(assessment))
            written = folder / PAGE
            replace_file(written, html.encode(), private=True)
    except OSError as error:
        raise InputError(f"{folder}: the assessment cannot be written ({error.strerror})") from None
    return str(written)


def publish(assessment: Assessment, output: str) -> str:
    """Put what may be told beside the releases, and write the certificate anew; what came of it, in a line.

    Raises InputError: it cannot be written.
    """
    publish_assessment(output, public_assessment(assessment), judged_files(output))
    try:
        return f"published in {output}/{PUBLIC}, and told by {write_report(output)[-1]}"
    except MissingExtraError:
        return f"published in {output}/{PUBLIC}"


def _cost(split: Split, rows: int, left_out: int) -> str:
    of = "all people" if split.given else "half of the people"
    left = f"; {left_out:,} rows beyond these were not read" if left_out else ""
    return (
        f"assess: {of} of {rows:,} rows are released once more in memory, which takes about as long as a run over them,"
        f" then {split.inside.size:,} people and {split.outside.size:,} controls are attacked{left}"
    )


def _refuse_other_policy(released: ReleasedTable, bound: BoundPolicy, output: str) -> None:
    expected = release_form(release_avro_schema(bound), with_epoch=False)
    ours, theirs = (
        {field.name: (field.kind, field.value) for field in form.fields} for form in (expected, released.form)
    )
    different = sorted({name for name, _ in {*ours.items()} ^ {*theirs.items()}} - {released.form.epoch})
    if different or expected.k != released.form.k:
        what = (
            f"fields {', '.join(different)}"
            if different
            else f"k is {released.form.k} there, not {expected.k}"
        )
        raise InputError(
            f"{output}: was not released under this policy ({what}); give the run's own --policy"
        )


def _refuse_other_input(
    released: ReleasedTable, rows: pa.Table, bound: BoundPolicy, output: str, named: str
) -> None:
    """Payload leaves as it came: what is released must be in the input."""
    names = [(column.published_name, column.name) for column in bound.payload]
    if not names:
        return
    table = released.arrow()
    if (
        _share_of([table.column(name) for name, _ in names], [rows.column(name) for _, name in names])
        < _KNOWN_ROWS
    ):
        raise InputError(
            f"{output}: does not hold rows of {named}; give the --input of its run, or of all runs of a chain"
        )


def _share_of(columns: Sequence[pa.ChunkedArray], others: Sequence[pa.ChunkedArray]) -> float:
    """Share of the rows of some columns that others have, too."""
    n = len(columns[0])
    keys = [
        key
        for one, other in zip(columns, others, strict=True)
        for key in sort_keys(pa.concat_arrays([one.combine_chunks(), other.cast(one.type).combine_chunks()]))
    ]
    ranks = dense_ranks(keys)
    return float(np.isin(ranks[:n], ranks[n:]).mean()) if n else 1.0


def _refuse_controls_inside(rows: pa.Table, others: pa.Table, bound: BoundPolicy, named: str) -> None:
    owner = bound.policy.owner
    names = owner or [column.name for column in bound.columns]
    shared = _share_of([others.column(name) for name in names], [rows.column(name) for name in names])
    if (owner and shared > 0) or shared > _SHARED_ROWS:
        of = "people" if owner else "rows"
        raise InputError(
            f"{named}: {shared:.1%} of these rows are of {of} of the input; controls are people who are not in"
            " the release"
        )
