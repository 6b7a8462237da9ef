"""What a release is good for: the errors of random range queries, where the input is at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kanonflow.pipelines.analysis.query_error import QueryErrors, Spread, query_errors
from kanonflow.pipelines.analysis.released_table import read_release
from kanonflow.pipelines.pages.charts import columns
from kanonflow.pipelines.pages.pages import Block, Figure, Paragraph
from kanonflow.pipelines.pictures.value_parts import Parts, input_parts
from kanonflow.pipelines.terminal.table import Cell, Table, count, rows_of, share
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy import Policy

_EDGES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class Compared(NamedTuple):
    """errors: of queries. fields: how the values of the input lie (``value_parts``)."""

    errors: QueryErrors
    fields: Mapping[str, Parts]


def compared_with_input(
    output: str,
    policy: Policy,
    patterns: Sequence[str],
    delimiter: str | None = None,
    input_format: str | None = None,
) -> Compared:
    """The releases of a run beside its input. Raises PolicyError, InputError.

    Rows that cannot be read as the policy says are in neither; what else was not released counts as error.
    """
    # Reads inputs, which a report without one does not.
    from kanonflow.pipelines.dry_run.feed import MOST_FEED_ROWS, read_feed
    from kanonflow.pipelines.fit.bound_input import bind_input

    files, _, bound, csv = bind_input(policy, patterns, delimiter, input_format)
    feed = read_feed(files, bound, csv)
    if feed.left_out:
        raise InputError(
            f"--input: has more than {MOST_FEED_ROWS:,} rows, of which errors of queries are not measured; leave it out"
        )
    names = {column.published_name: column.name for column in bound.columns}
    declared = {each.published_name: each.field.quasi and each.field.quasi.hierarchy for each in bound.quasis}
    trees = {name: tree for name, tree in declared.items() if tree}
    errors = query_errors(feed.rows, read_release(output, hierarchies=trees), names=names)
    return Compared(errors, input_parts(feed.rows, bound))


def utility_figures(errors: QueryErrors | None) -> Iterator[Block]:
    """None: they were not measured."""
    if errors is None:
        yield Paragraph(
            "Not measured: kanonflow report DIR --policy POLICY --input FILES asks 200 random range queries of input"
            " and release."
        )
        return
    if errors.count is None:
        yield Paragraph("There was nothing to ask.")
        return
    yield Paragraph(
        "Random queries over one or two quasi-identifiers, a range or about half of the categories, asked of the input"
        " and estimated from the releases. The error of a count is relative to the count, that of a mean to the mean"
        " of the absolute values. Of ten queries nine have no larger error than the 90% error."
    )
    rows: list[tuple[Cell, ...]] = [
        _row(what, spread, errors)
        for what, spread in (("count", errors.count), ("mean", errors.mean))
        if spread
    ]
    head = (
        "asked for",
        "queries",
        "median error",
        "90% error",
        "worst",
        "truth within the bounds",
    )
    yield Table("utility", "Errors of queries", head, rows_of(rows), folded=False)
    shares = [query.error for query in errors.queries if query.what == "count"]
    names, counts = _bins(shares)
    table = Table(
        "count_errors",
        "Counts by error",
        ("error", "queries"),
        rows_of(zip(names, map(count, counts), strict=True)),
    )
    yield Figure("Errors of counts", columns("Queries by the error of their count", names, counts), table)


def _row(what: str, spread: Spread, errors: QueryErrors) -> tuple[Cell, ...]:
    asked = [query for query in errors.queries if query.what == what]
    within = sum(query.within for query in asked) / len(asked)
    return (
        what,
        count(spread.queries),
        share(spread.median),
        share(spread.ninth),
        share(spread.worst),
        share(within),
    )


def _bins(errors: Sequence[float]) -> tuple[list[str], list[int]]:
    """Ranges of errors, and how many lie in each."""
    names = [f"to {edge:.0%}" for edge in _EDGES] + ["above"]
    counts = [0] * len(names)
    for error in errors:
        counts[next((place for place, edge in enumerate(_EDGES) if error <= edge), len(_EDGES))] += 1
    return names, counts
