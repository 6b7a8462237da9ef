"""What users of a release will be off by, field by field, on the report: told from the released rows, by a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kanonflow.pipelines.analysis.expected_errors import ExpectedErrors
from kanonflow.pipelines.dry_run.field_width import FieldWidth, in_words
from kanonflow.pipelines.pages.pages import Block, Paragraph
from kanonflow.pipelines.terminal.table import Table, rows_of, share


def count_errors(expected: Sequence[ExpectedErrors]) -> Iterator[Block]:
    """Nothing where there is nothing to say."""
    if not expected:
        return
    yield Paragraph(
        "If you group by a field and count, as estimate does, expect errors of about these shares of a count. They are"
        " of a model of who stands where in a box, made from the released rows; rows that were not released are not in"
        " it. Of ten bands nine are off by less than the 90% error. kanonflow explain --for FIELDS measures it on the"
        " input, and tries what would make it less."
    )
    rows = rows_of(
        (each.field, _bands(each), share(each.errors.median), share(each.errors.ninth)) for each in expected
    )
    yield Table(
        "count_errors_by_field",
        "If you group by it, expect a count to be off by",
        ("field", "in bands", "median error", "90% error"),
        rows,
        folded=False,
    )


def _bands(each: ExpectedErrors) -> str:
    """In units that people use."""
    if each.width is None:
        return "value by value"
    wide = in_words(FieldWidth(each.field, each.unit, each.width, 0.0))
    return f"of a tenth of the rows, half of them narrower than {wide}"
