"""The explanation as a page or as text: what to do, and the drawings and tables that it rests on, without a record's
value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kanonflow.pipelines.dry_run.field_width import FieldWidth, in_words
from kanonflow.pipelines.explain.explanation import Explanation
from kanonflow.pipelines.explain.plain_statistics import PlainStatistics
from kanonflow.pipelines.explain.solved import MOST_PEOPLE, Solved, Tried
from kanonflow.pipelines.explain.variants import Group
from kanonflow.pipelines.explain.wanted_page import wanted_section
from kanonflow.pipelines.pages.charts import bars, line_chart
from kanonflow.pipelines.pages.page_text import text_of
from kanonflow.pipelines.pages.pages import Block, Figure, Items, Page, Paragraph, Section, render_page
from kanonflow.pipelines.terminal.table import Cell, Number, Table, count, decimal, rows_of, share
from kanonflow.schemas.durations import format_duration

_LOSS = (
    "Loss is the mean share of its domain that a published range or set covers (GCP), by a field's scale where it has"
    " one; where rejected rows count, a row that is rejected loses all. Widths are medians over the rows. * is the"
    " policy."
)

_DROPPED = (
    "Rows are rejected (known_otherwise) so that k people are left to whoever knows so much of a person (against, with"
    " drop: true). Of a stretch, windows before it count for nothing: a run of the whole feed drops more."
)


def explanation_text(found: Explanation) -> str:
    """The lines for a terminal, the sentences at the end."""
    first, *others = _sections(found, drawn=False)
    return "\n".join([f"{_feed(found)}", *text_of([others[-1], *others[:-1], first])])


def explanation_page(found: Explanation, policy: str) -> str:
    """The HTML. policy: its name. Raises MissingExtraError."""
    sections = _sections(found, drawn=True)
    foot = ("Made by kanonflow explain. Nothing was released, and no value of a record is told.",)
    return render_page(
        Page(f"{policy}: {_feed(found)}", "What other policies would do", None, tuple(sections), foot)
    )


def _feed(found: Explanation) -> str:
    return f"{found.plain.rows:,} rows of {found.plain.people:,} people, k = {found.plain.k}"


def _sections(found: Explanation, *, drawn: bool) -> list[Section]:
    """drawn: with drawings, which take longer to make than all the rest."""
    sections = [Section("todo", "What to do", tuple(_to_do(found, table=drawn)))]
    if found.wanted is not None:
        sections.append(wanted_section(found.wanted, drawn=drawn))
    if found.solved is not None:
        sections += _of_solved(found.solved, drawn=drawn)
    sections.append(Section("feed", "What the feed is like", tuple(_of_feed(found.plain, drawn=drawn))))
    return sections


def _to_do(found: Explanation, *, table: bool) -> Iterator[Block]:
    if found.links:
        yield Paragraph(found.links)
    yield Items(found.sentences) if found.sentences else Paragraph("Nothing stands out.")
    if found.recommendations and table:
        yield Table(
            "recommendations",
            "What each sentence changes, and what it gains",
            ("change", "gain"),
            rows_of((_change(each.change), share(each.gain)) for each in found.recommendations),
        )


def _change(change: object) -> str:
    """A change of the policy file, in its keys."""
    if not isinstance(change, dict):
        return str(change)
    parts = [
        f"fields: {_of_fields(value)}" if key == "fields" else f"{key}: {value}"
        for key, value in change.items()
        if value is not None
    ]
    return "; ".join(parts)


def _of_fields(fields: Mapping[str, Mapping[str, Any]]) -> str:
    """Fields under the keys that they have in common; the numbers of a scale are left to the policy's lines."""
    names: dict[str, list[str]] = {}
    for name, keys in fields.items():
        written = ", ".join(f"{key}: {value}" for key, value in keys.items() if key != "quantiles")
        names.setdefault(written, []).append(name)
    return "; ".join(f"{', '.join(own)} to {{{keys}}}" for keys, own in names.items())


def _of_solved(solved: Solved, *, drawn: bool) -> Iterator[Section]:
    grid = solved.of(Group.GRID)
    played = [Paragraph(f"Played: {'; '.join(solved.played)}. {_LOSS}")]
    if solved.left_out:
        later = f"Up to the first {MOST_PEOPLE:,} people; {solved.left_out:,} rows came later."
        played.append(Paragraph(later))
    tables: list[Block] = [*played]
    if len({each.variant.policy.window_ms for each in grid}) > 1:
        tables.append(_grid(grid, drawn=drawn))
    tables.append(_table("grid", "k and windows: loss, shares and median widths", grid))
    yield Section("grid", "k and the window", tuple(tables))
    titles = {
        Group.WITHOUT: ("without", "Without a field", "Loss of the other fields without one, and of all"),
        Group.DELAY: ("delay", "How long rows may wait", "By max_delay: loss, shares and median widths"),
        Group.INTAKE: ("intake", "How many enter together", "By intake: loss, shares and median widths"),
        Group.AGAINST: (
            "against",
            "Whoever knows more",
            "By whom rows are dropped for: loss, shares and median widths",
        ),
        Group.PROTECTION: ("protection", "What is promised", "By protection: loss, shares and median widths"),
    }
    for group, (anchor, title, caption) in titles.items():
        tried = solved.of(group)
        if not tried:
            continue
        blocks: list[Block] = []
        if group is Group.PROTECTION:
            blocks.append(Items(tuple(f"{each.variant.name}: {each.variant.promise}." for each in tried)))
        if group is Group.AGAINST:
            blocks += [Paragraph(_DROPPED), Items(solved.helpless)]
        if group is Group.WITHOUT:
            tried = (next(each for each in grid if not each.variant.change), *tried)
        names = [_short(each) for each in tried]
        figures = _table(anchor, caption, tried)
        chart = bars(caption, names, [each.measures.loss for each in tried]) if drawn else None
        blocks.append(Figure("Loss", chart, figures))
        refused = [f"{each.name} was not tried: {each.why}" for each in solved.refused if each.group is group]
        if refused:
            blocks.append(Items(tuple(refused)))
        yield Section(anchor, title, tuple(blocks))


def _short(each: Tried) -> str:
    """Of a drawing's label, for which a phone has little room."""
    if each.variant.group is Group.GRID:
        return "all fields"
    return each.variant.name if each.variant.change else f"{each.variant.name} *"


def _grid(grid: Sequence[Tried], *, drawn: bool) -> Figure:
    lengths = sorted({each.variant.policy.window_ms or 0 for each in grid})
    ks = sorted({each.variant.policy.k for each in grid})
    found = {(each.variant.policy.k, each.variant.policy.window_ms or 0): each.measures.cost for each in grid}
    said = "Loss by the length of a window, a line for each k; rejected rows count as lost"
    windows = [format_duration(length) for length in lengths]
    series = {f"k = {k}": [found.get((k, length)) for length in lengths] for k in ks}
    rows = [(name, *(decimal(value) for value in values)) for name, values in series.items()]
    table = Table("loss_by_k_and_window", said, ("", *windows), rows_of(rows))
    chart = line_chart(said, windows, series) if drawn else None
    return Figure("Loss by k and window, rejected rows counted as lost", chart, table)


def _table(name: str, caption: str, tried: Sequence[Tried]) -> Table:
    fields: list[str] = []
    for each in tried:
        fields += [width.field for width in each.measures.fields if width.field not in fields]
    head = ("", "loss", "rejected", "at once", "counts off", "means off", *fields)
    return Table(f"tried_{name}", caption, head, rows_of(_row(each, fields) for each in tried))


def _row(each: Tried, fields: Sequence[str]) -> tuple[Cell, ...]:
    found = each.measures
    widths = {width.field: width for width in found.fields}
    return (
        each.variant.name + ("" if each.variant.change else " (the policy)"),
        decimal(found.loss),
        share(found.rejected),
        share(found.at_once),
        share(found.count_error),
        share(found.mean_error),
        *(_width(widths.get(name)) for name in fields),
    )


def _width(width: FieldWidth | None) -> Cell:
    return None if width is None or width.median is None else Number(width.median, in_words(width))


def _of_feed(plain: PlainStatistics, *, drawn: bool) -> Iterator[Block]:
    if plain.windows:
        names = [format_duration(each.length_ms) for each in plain.windows]
        caption = f"People a window, and windows with fewer than k = {plain.k}"
        rows = [
            (
                name + (" (the policy)" if each == plain.own else ""),
                count(each.windows),
                count(round(each.median)),
                count(round(each.tenth)),
                share(each.small),
                share(each.rows_in_small),
            )
            for name, each in zip(names, plain.windows, strict=True)
        ]
        head = ("window", "windows", "median", "a tenth below", "too few", "rows in these")
        chart = bars(caption, names, [each.median for each in plain.windows]) if drawn else None
        yield Figure("People a window (median)", chart, Table("windows", caption, head, rows_of(rows)))
    single = [each for each in plain.alone if len(each.fields) == 1]
    if single:
        caption = "Share of the people whose value nobody else has"
        everything = Table(
            "alone",
            caption,
            ("fields", "share"),
            rows_of((" x ".join(each.fields), share(each.share)) for each in plain.alone),
        )
        chart = None
        if drawn and any(each.share for each in single):
            names = [each.fields[0] for each in single]
            chart = bars(caption, names, [each.share for each in single], percent=True)
        yield Figure("Whom fields single out", chart, everything)
    found = [
        *(
            (f"{each.dependent} follows from {' and '.join(each.by)}", share(each.share))
            for each in plain.follows
        ),
        *((f"{each.by[0]} tells {each.dependent}", share(each.share)) for each in plain.tells),
        *(
            (f"{each.field} has values that its person alone repeats", share(each.share))
            for each in plain.names
        ),
        *(
            (f"{each.field} goes with time (rank correlation)", decimal(each.share, 2))
            for each in plain.rises
        ),
        *((f"{each.field} is missing", share(each.share)) for each in plain.nulls if each.share),
    ]
    if found:
        yield Table(
            "found", "What follows, tells, names, goes with time or is missing", ("", "of the rows or people"),
            rows_of(found), folded=False,
        )  # fmt: skip
