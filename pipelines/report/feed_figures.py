"""Figures of a feed over time, for exact and for public metrics: loss, people, rows by reason, people against loss."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from statistics import median

from kanonflow.pipelines.pages.charts import X, dots, line_chart, stacked_bars
from kanonflow.pipelines.pages.pages import Chart, Figure, Paragraph
from kanonflow.pipelines.report.steps import Step, added
from kanonflow.pipelines.terminal.table import Cell, Table, count, decimal, rows_of

RELEASED = "released"


def feed_figures(steps: Sequence[Step], *, bounds: bool) -> Iterator[Figure | Paragraph]:
    """Loss, people and rows of each step. bounds: whether metrics tell a lower bound."""
    if not steps:
        yield Paragraph("No window has ended yet.")
        return
    several = max(step.windows for step in steps)
    if several > 1:
        yield Paragraph(f"Each point is up to {several} windows that follow each other.")
    x, names = _x(steps), [window_name(step) for step in steps]
    if any(step.loss is not None for step in steps):
        yield _loss(x, names, steps, bounds=bounds)
    else:
        yield Paragraph("The loss is not told: nothing was released, or a field has no declared domain.")
    if any(step.people is not None for step in steps):
        yield _people(x, names, steps)
    else:
        yield Paragraph("How many people the releases hold is not told.")
    yield _rows(x, names, steps)


def people_against_loss(steps: Sequence[Step]) -> Iterator[Figure | Paragraph]:
    """A point for each step that released something, the last one marked."""
    told = [
        (name, step.people, step.loss)
        for name, step in ((window_name(each), each) for each in steps)
        if step.people is not None and step.loss is not None
    ]
    if not told:
        yield Paragraph("There is no release that tells both its people and its loss.")
        return
    points = [(people, loss) for _, people, loss in told]
    last, people, loss = told[-1]
    typical = median(each for each, _ in points)
    yield Paragraph(
        f"More people a window let boxes be smaller. Half of the releases have {typical:,.0f} people or more; the"
        f" latest one ({last}) has {people:,.0f}, at a loss of {loss:.4f}. If the loss falls from left to right, a"
        " longer window would lose less."
    )
    chart = dots(
        f"Loss against people a window, {len(points)} points; the latest has {people:,.0f} people and a loss of"
        f" {loss:.4f}",
        points[:-1],
        "people a window",
        "loss",
        ("the latest window", (people, loss)),
    )
    rows = rows_of((name, count_or_mean(p), decimal(loss)) for name, p, loss in told)
    table = Table("people_loss", "People and loss of each window", ("window", "people", "loss"), rows)
    yield Figure("People a window against loss", chart, table)


def window_name(step: Step) -> str:
    """The end of a step's window, as UTC; days without a time where that is midnight."""
    if step.end is None:
        return "all rows"
    return f"{step.end:%Y-%m-%d}" if step.end.time() == dt.time() else f"{step.end:%Y-%m-%d %H:%M}"


def count_or_mean(value: float | None) -> Cell:
    """A count, or the mean of several, which is seldom whole."""
    if value is None:
        return None
    return count(int(value)) if value == int(value) else decimal(value, 1)


def _x(steps: Sequence[Step]) -> list[X]:
    if any(step.end is None for step in steps):
        return [window_name(step) for step in steps]
    return [step.end for step in steps if step.end is not None]


def _loss(x: list[X], names: list[str], steps: Sequence[Step], *, bounds: bool) -> Figure:
    series = {"loss": [step.loss for step in steps]}
    head = ["window", "loss"]
    if bounds and any(step.bound for step in steps):  # 0 says nothing
        series["no answer loses less"] = [step.bound for step in steps]
        head.append("no answer loses less")
    rows = rows_of(
        (name, *(decimal(values[place]) for values in series.values())) for place, name in enumerate(names)
    )
    said = f"Loss of each window over time, {_span(series['loss'])}"
    table = Table("loss", "Loss of each window", tuple(head), rows)
    return Figure("Loss (global certainty penalty, 0 to 1)", line_chart(said, x, series), table)


def _people(x: list[X], names: list[str], steps: Sequence[Step]) -> Figure:
    values = [step.people for step in steps]
    chart: Chart = line_chart(f"People released in each window, {_span(values)}", x, {"people": values})
    rows = rows_of((name, count_or_mean(value)) for name, value in zip(names, values, strict=True))
    return Figure(
        "People a window", chart, Table("people", "People of each window", ("window", "people"), rows)
    )


def _rows(x: list[X], names: list[str], steps: Sequence[Step]) -> Figure:
    waiting = list(added(step.waiting for step in steps))
    rejected = list(added(step.rejected for step in steps))
    series = {RELEASED: [float(step.released) for step in steps]}
    series |= {
        f"waiting: {reason}": [float(step.waiting.get(reason, 0)) for step in steps] for reason in waiting
    }
    series |= {
        f"rejected: {reason}": [float(step.rejected.get(reason, 0)) for step in steps] for reason in rejected
    }
    chart = stacked_bars("Rows of each window: released, and waiting or rejected by reason", x, series)
    rows = rows_of(
        (name, *(count(int(values[place])) for values in series.values())) for place, name in enumerate(names)
    )
    return Figure(
        "Rows a window",
        chart,
        Table("rows", "Rows of each window by what became of them", ("window", *series), rows),
    )


def _span(values: Sequence[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    return f"from {min(numbers):.4g} to {max(numbers):.4g}" if numbers else "nothing told"
