"""Figures of risk: how many candidates rows and people have, in one release and over several, as metrics tell it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kanonflow.pipelines.pages.charts import columns, line_chart
from kanonflow.pipelines.pages.pages import Block, Figure, Paragraph
from kanonflow.pipelines.report.feed_figures import window_name
from kanonflow.pipelines.report.steps import Record, Step
from kanonflow.pipelines.terminal.table import Cell, Table, count, decimal, rows_of, share
from kanonflow.schemas.promises.promise import Promise
from kanonflow.schemas.promises.promises import promise_of

_MOST_COLUMNS = 30
Histogram = Mapping[int, int]


def risk_figures(records: Sequence[Record], steps: Sequence[Step]) -> Iterator[Block]:
    """Histograms, risks and candidates over several releases. records: of releases, exact."""
    rows, people = candidates(records, "candidates_of_rows"), candidates(records, "candidates_of_people")
    if not rows:
        yield Paragraph(
            "There is no release, or none whose metrics tell how many candidates rows have (earlier builds did not)."
        )
        return
    promise = promise_of(records[-1]["protect"], records[-1].get("cohort"))
    if not promise.of_people and not any(record.get("linked_candidates") for record in records):
        people = {}  # each row is its own individual
    yield Paragraph(
        "A candidate of a row is anybody whom it could belong to, for a reader within the promise. Prosecutor risk is"
        " the chance to be right about the row, or person, that is hidden worst; marketer risk is the mean over all of"
        " them: the share that somebody who guesses each gets right. People are counted in each release anew."
    )
    lines: list[tuple[Cell, ...]] = []
    for what, histogram in (("rows", rows), ("people", people)):
        if histogram:
            lines.append(
                (
                    f"by {what[:-1] if what == 'rows' else 'person'}",
                    count(sum(histogram.values())),
                    count(min(histogram)),
                    decimal(mean(histogram), 2),
                    share(1 / min(histogram)),
                    share(marketer(histogram)),
                )
            )
    head = ("", "counted", "fewest candidates", "mean", "prosecutor risk", "marketer risk")
    yield Table("risk", "Prosecutor and marketer risk", head, rows_of(lines), folded=False)
    yield _histogram("candidates_of_rows", "By row: candidates in its release", "rows", rows)
    if people:
        yield _histogram("candidates_of_people", promise.candidates, "people", people)
    yield from _over_releases(steps, promise)
    yield from _activity(records)


def candidates(records: Sequence[Record], name: str) -> dict[int, int]:
    """A histogram of all releases together, fewest candidates first."""
    total: dict[int, int] = {}
    for record in records:
        for number, counted in (record.get(name) or {}).items():
            total[int(number)] = total.get(int(number), 0) + counted
    return dict(sorted(total.items()))


def mean(histogram: Histogram) -> float:
    """Candidates on average."""
    return sum(number * counted for number, counted in histogram.items()) / sum(histogram.values())


def marketer(histogram: Histogram) -> float:
    """The mean of 1 / candidates."""
    return sum(counted / number for number, counted in histogram.items()) / sum(histogram.values())


def _histogram(name: str, title: str, what: str, histogram: Histogram) -> Figure:
    columns_shown = {
        str(number): float(counted) for number, counted in list(histogram.items())[:_MOST_COLUMNS]
    }
    if len(histogram) > _MOST_COLUMNS:
        last = list(histogram)[_MOST_COLUMNS - 1]
        columns_shown.pop(str(last))
        columns_shown[f"{last}+"] = float(
            sum(counted for number, counted in histogram.items() if number >= last)
        )
    chart = columns(
        f"{title}: {min(histogram)} to {max(histogram)}", list(columns_shown), list(columns_shown.values())
    )
    rows = rows_of((count(number), count(counted)) for number, counted in histogram.items())
    return Figure(title, chart, Table(name, f"{what.capitalize()} by candidates", ("candidates", what), rows))


def _over_releases(steps: Sequence[Step], promise: Promise) -> Iterator[Block]:
    measured = [step for step in steps if step.candidates is not None]
    title = "Fewest candidates of any row"
    series: dict[str, list[float | None]] = {"in one release": [step.candidates for step in measured]}
    if any(step.over_releases is not None for step in measured):
        series[promise.over_releases] = [step.over_releases for step in measured]
        title = "Over several releases: fewest candidates of anybody"
    else:
        yield Paragraph(
            "What several releases tell together is neither promised nor measured under this policy."
        )
    names = [window_name(step) for step in measured]
    x = names if any(step.end is None for step in measured) else [step.end for step in measured]
    chart = line_chart(
        "Fewest candidates of anybody, by window", [each for each in x if each is not None], series
    )
    rows = rows_of(
        (name, *(count(_whole(values[place])) for values in series.values()))
        for place, name in enumerate(names)
    )
    table = Table("candidates", "Fewest candidates of each window", ("window", *series), rows)
    yield Figure(title, chart, table)


def _activity(records: Sequence[Record]) -> Iterator[Block]:
    """With cohorts that last, what is left of k for who knows that somebody was active; not promised."""
    left = [record["activity_candidates"] for record in records if record.get("activity_candidates")]
    people = [record["individuals"] for record in records if record.get("activity_candidates")]
    if not left:
        return
    below = sum(each["below_k"] * number for each, number in zip(left, people, strict=True)) / sum(people)
    mean_left = sum(each["mean"] * number for each, number in zip(left, people, strict=True)) / sum(people)
    rows: list[tuple[Cell, ...]] = [
        ("fewest candidates then", count(min(each["minimum"] for each in left))),
        ("mean", decimal(mean_left, 2)),
        ("people with fewer than k", share(below)),
    ]
    yield Paragraph(
        "Not promised, and measured: what is left for a reader who also knows that somebody has rows in one window."
    )
    yield Table("activity", "With one window of activity known", ("", "value"), rows_of(rows), folded=False)
    yield from _purchases(records)


def _purchases(records: Sequence[Record]) -> Iterator[Block]:
    """What is left for the strongest ordinary reader, who knows one row; not promised."""
    left = [
        (each, record["rows_released"]) for record in records if (each := record.get("purchase_candidates"))
    ]
    if not left:
        return
    rows = sum(number for _, number in left)

    def over(name: str) -> float:
        return sum(each[name] * number for each, number in left) / rows

    yield Paragraph(
        "Not promised, and measured: what is left for a reader who knows of one person"
        f" {left[-1][0]['reader']}. One left: the person is found, with all of its rows of the epoch."
    )
    lines: list[tuple[Cell, ...]] = [
        ("fewest candidates then", count(min(each["minimum"] for each, _ in left))),
        ("mean", decimal(over("mean"), 2)),
        ("rows with fewer than k", share(over("below_k"))),
        ("rows with one left", share(over("alone"))),
    ]
    yield Table("purchase", "With one row known", ("", "value"), rows_of(lines), folded=False)
    changed = sum(record.get("changed_before_entry") or 0 for record in records)
    yield Paragraph(
        f"People whose attributes changed between their first row and their entry: {changed:,}. Their frozen values"
        " hang on when their rows came, so for them the promise is not shown."
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
