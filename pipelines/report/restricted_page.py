"""The report of a run for those inside: exact numbers, which must not leave with the releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kanonflow.pipelines.pages.pages import Block, Items, KeyNumber, Page, Paragraph, Section
from kanonflow.pipelines.pictures.field_shapes import field_shapes
from kanonflow.pipelines.pictures.one_group import one_group
from kanonflow.pipelines.pictures.place_boxes import place_boxes
from kanonflow.pipelines.report.count_errors import count_errors
from kanonflow.pipelines.report.feed_figures import feed_figures, people_against_loss
from kanonflow.pipelines.report.key_numbers import key_numbers
from kanonflow.pipelines.report.published_fields import published_fields
from kanonflow.pipelines.report.risk_figures import risk_figures
from kanonflow.pipelines.report.run_facts import RunFacts
from kanonflow.pipelines.report.shard_figures import shard_figures
from kanonflow.pipelines.report.steps import Record, Step, in_order, steps, still_waiting
from kanonflow.pipelines.report.told_promise import AGAIN, DIVIDED, no_promise, told_promise, who_links
from kanonflow.pipelines.report.told_verdict import status, verdict_table
from kanonflow.pipelines.report.utility import utility_figures
from kanonflow.pipelines.terminal.lasting_lines import told_of_the_epoch
from kanonflow.pipelines.terminal.summary import mean_of
from kanonflow.pipelines.terminal.table import Cell, Table, count, decimal, quantity, rows_of, share
from kanonflow.transforms.roster.first_partitions import divided_words

_OF_CLASSES = {
    "c_avg": "rows of a class, over k (C_AVG)",
    "log": "level of generalization (LOG)",
    "los": "level of suppression (LOS)",
}
"""Measures of classes and levels, means over released rows; releases of graphs, and of earlier builds, have none."""


def restricted_page(facts: RunFacts) -> Page:
    """The page. A function of the facts alone."""
    feed = steps(facts.metrics)
    sections = (
        Section("verdict", "What is promised", tuple(_verdict(facts))),
        Section("fields", "What is published of each field", tuple(_fields(facts))),
        *_pictures(facts),
        Section("rows", "What became of the rows", (_ledger(facts),)),
        Section("feed", "The feed over time", tuple(feed_figures(feed, bounds=True))),
        Section("people", "People a window against loss", tuple(people_against_loss(feed))),
        *_shards(facts),
        Section("risk", "Risk", tuple(_risk(facts, feed))),
        Section("utility", "Utility", (*count_errors(facts.count_errors), *utility_figures(facts.errors))),
        Section("payload", "Payload risks", tuple(_payload(facts))),
        Section("settings", "Settings, versions, times", tuple(_settings(facts))),
    )
    name = facts.run.get("policy_name") or _head(facts).get("policy")
    return Page(
        f"Report of a run{f' under {name}' if name else ''}",
        "kanonflow, restricted: exact numbers, for inside only",
        status(facts.verdict, stands=facts.stands),
        sections,
        ("What may go with the releases is certificate.html in the folder above, and nothing of this page.",),
        _numbers(facts),
    )


def _numbers(facts: RunFacts) -> tuple[KeyNumber, ...]:
    rows = _rows(facts)
    lost = no_promise(facts.verdict, released_again=facts.released_again, divided=bool(facts.divided))
    left = sum(facts.rejected.values()), rows.waiting
    loss = mean_of(facts.released, "gcp")
    return key_numbers(_head(facts), lost, released=rows.released, read=rows.read, left=left, loss=loss)


def _pictures(facts: RunFacts) -> Iterator[Section]:
    table = facts.sample.table
    if table is None:
        return
    if place := tuple(place_boxes(table)):
        yield Section("place", "Boxes on the plane", place)
    if group := tuple(one_group(table)):
        yield Section("group", "One group, before and after", group)


def _shards(facts: RunFacts) -> Iterator[Section]:
    if blocks := tuple(shard_figures(facts.metrics, facts.shards)):
        yield Section("shards", "Shards", blocks)


def _head(facts: RunFacts) -> Record:
    """Promise and policy, as the latest step tells them, else the releases."""
    return in_order(facts.metrics)[-1] if facts.metrics else facts.stated


def _verdict(facts: RunFacts) -> Iterator[Block]:
    head = _head(facts)
    yield from who_links(head)
    if not facts.released:
        yield Paragraph("Nothing was released.")
    if head:
        lost = no_promise(facts.verdict, released_again=facts.released_again, divided=bool(facts.divided))
        yield from told_promise(head, lost, facts.renewal)
    yield from verdict_table(facts.verdict, stands=facts.stands)
    if facts.report is not None:
        yield from _audit(facts.report)


def _risk(facts: RunFacts, feed: Sequence[Step]) -> Iterator[Block]:
    if facts.released_again:
        yield Paragraph(f"{AGAIN} The figures here know of this release alone.")
    if facts.divided:
        yield Paragraph(f"{divided_words(facts.divided)}. {DIVIDED} Figures over releases do not know of it.")
    yield from risk_figures(facts.released, feed)
    if lines := told_of_the_epoch(facts.metrics):
        yield Items(tuple(lines))


class _Rows(NamedTuple):
    """How many there are."""

    read: int
    released: int
    waiting: int


def _rows(facts: RunFacts) -> _Rows:
    """From the closing table where there is one; a stream has none."""
    summary = facts.summary
    released = summary.get("rows_released", sum(record["rows_released"] for record in facts.metrics))
    waits = summary.get("rows_waiting", sum(still_waiting(facts.metrics).values()))
    read = summary.get("rows_read", released + waits + sum(facts.rejected.values()))
    return _Rows(read, released, waits)


def _ledger(facts: RunFacts) -> Table:
    whole, released, waits = _rows(facts)
    rejected, waiting = facts.rejected, still_waiting(facts.metrics)

    def line(name: str, rows: int) -> tuple[Cell, ...]:
        return name, count(rows), share(rows / whole if whole else None, 2)

    lines: list[tuple[Cell, ...]] = [
        ("releases", count(len(facts.released)), None),
        line("rows read", whole),
        line("rows released", released),
        line("rows waiting", waits),
        *(line(f"waiting: {reason}", rows) for reason, rows in waiting.items()),
        line("rows rejected", sum(rejected.values())),
        *(line(f"rejected: {reason}", rows) for reason, rows in sorted(rejected.items()) if rows),
        ("mean loss", decimal(mean_of(facts.released, "gcp")), None),
    ]
    if bound := mean_of(facts.released, "lower_bound"):  # 0 says nothing
        lines.append(("no answer loses less", decimal(bound), None))
    for name, words in _OF_CLASSES.items():
        if (mean := mean_of(facts.released, name)) is not None:
            lines.append((words, decimal(mean), None))
    return Table("ledger", "Rows by what became of them", ("", "rows", "share"), rows_of(lines), folded=False)


def _audit(report: Mapping[str, Any]) -> Iterator[Block]:
    """The audit's own report."""
    if report.get("failures"):
        yield Paragraph("What the audit found:")
        yield Items(tuple(map(str, report["failures"])))
    figures = {name: value for name, value in report.get("figures", {}).items() if value is not None}
    rows: list[tuple[Cell, ...]] = [
        (name.replace("_", " "), count(value) if isinstance(value, int) else decimal(value))
        for name, value in figures.items()
        if isinstance(value, int | float)
    ]
    yield Table("audit", "Figures of the audit", ("", "value"), rows_of(rows))
    if report.get("not_checked"):
        unchecked = [tuple(str(each).partition(": ")[::2]) for each in report["not_checked"]]
        yield Table(
            "not_checked", "What the audit did not check, and why", ("what", "why"), rows_of(unchecked)
        )


def _fields(facts: RunFacts) -> Iterator[Block]:
    fields = published_fields(facts.sample)
    if not fields.fields:
        yield Paragraph("There is no release in this directory to say it.")
        return
    yield Paragraph(
        f"Widths are those of {fields.rows:,} rows in {fields.files:,} of {fields.all_files:,} releases: of ten rows"
        " nine are no wider than the 90% width. Examples are invented; they have the median width."
    )
    means = {name: _mean_of_field(facts.released, "ncp", name) for name in _lost(facts.released)}
    levels = {field.name: _mean_of_field(facts.released, "levels", field.name) for field in fields.fields}
    leveled = any(level is not None for level in levels.values())
    rows = rows_of(
        (
            field.name,
            field.role,
            field.example,
            quantity(field.median),
            quantity(field.ninth),
            field.unit or None,
            decimal(means.get(field.name)),
            *([decimal(levels[field.name], 1)] if leveled else []),
        )
        for field in fields.fields
    )
    head = ("field", "published", "invented example", "median width", "90% width", "in", "mean loss")
    heads = (*head, *(["mean level"] if leveled else []))
    yield Table("fields", "What is published of each field", heads, rows, folded=False)
    if facts.sample.table is None:
        return
    seen = facts.seen
    shapes = tuple(field_shapes(facts.sample.table, seen))
    if shapes:
        yield Paragraph(
            ("How the rows lie in the input, and how" if seen else "How the rows lie")
            + " they lie by the release alone, as who has it would count them; of samples of both."
            + ("" if seen else " The input was not measured by this run, so it is not drawn.")
        )
    yield from shapes


def _lost(records: tuple[Record, ...]) -> dict[str, None]:
    return dict.fromkeys(name for record in records for name in record["ncp"])


def _mean_of_field(records: tuple[Record, ...], figure: str, name: str) -> float | None:
    return mean_of(
        [
            {figure: each.get(figure, {}).get(name), "rows_released": each["rows_released"]}
            for each in records
        ],
        figure,
    )


def _payload(facts: RunFacts) -> Iterator[Block]:
    accepted = facts.run.get("accepted_risks") or {}
    risks = facts.payload.get("risks") or []
    if risks:
        yield Paragraph(
            f"Measured on {facts.payload.get('rows', 0):,} rows of the input"
            f" ({_moment(facts.payload.get('measured_at'))}): what a published value tells beside itself. Such a check"
            " knows the attacks that it tries."
        )
        rows = rows_of(
            (
                str(each["field"]),
                str(each["measure"]),
                decimal(each["value"], 3),
                decimal(each["limit"], 3),
                str(each["verdict"]),
            )
            for each in risks
        )
        yield Table(
            "payload",
            "What payload tells",
            ("field", "measure", "value", "limit", "verdict"),
            rows,
            folded=False,
        )
    else:
        yield Paragraph(
            "Nothing was measured, or it was not kept: the risk of every field is accepted, or the run is of an"
            " earlier build. kanonflow policy check --input measures it."
        )
    if accepted:
        reasons = rows_of((str(name), str(reason)) for name, reason in accepted.items())
        yield Table("accepted", "Risks that were accepted", ("field", "reason"), reasons, folded=False)
    else:
        yield Paragraph("No risk was accepted by the policy.")


def _settings(facts: RunFacts) -> Iterator[Block]:
    settings = dict(facts.settings) or {
        name: str(value)
        for name, value in (
            (name, _head(facts).get(name)) for name in ("policy", "k", "protect", "cohort", "solver")
        )
        if value is not None
    }
    if not facts.settings:
        yield Paragraph("The policy is not kept here; kanonflow report DIR --policy POLICY says all of it.")
    yield Table("settings", "Settings", ("key", "value"), rows_of(settings.items()))
    yield Table("versions", "Versions", ("", "version"), rows_of(_versions(facts).items()))
    yield Table("times", "Times", ("", "seconds"), rows_of(_times(facts)), folded=False)


def _versions(facts: RunFacts) -> dict[str, str]:
    versions = dict(_head(facts).get("versions") or {})
    versions |= {name: str(value) for name, value in (facts.run.get("versions") or {}).items()}
    if "kanonflow" in facts.run:
        versions["kanonflow, by which the run began"] = str(facts.run["kanonflow"])
    for name in ("epoch",):
        if facts.run.get(name):
            versions[name] = str(facts.run[name])
    if "chain" in facts.run:
        versions["runs of its chain before it"] = str(facts.run["chain"]["place"])
    return versions


def _times(facts: RunFacts) -> Iterator[tuple[Cell, ...]]:
    if facts.ended_at is not None:
        yield "the run ended", _moment(facts.ended_at)
    for name in ("total", "read", "solve", "publish", "write"):
        if f"{name}_seconds" in facts.summary:
            yield f"{name} (closing table)", decimal(facts.summary[f"{name}_seconds"], 1)
    solve = [record["solve_ms"] / 1e3 for record in facts.metrics]
    publish = [record["publish_ms"] / 1e3 for record in facts.metrics]
    yield "solving, all windows", decimal(sum(solve), 3)
    yield "solving, the longest window", decimal(max(solve, default=None), 3)
    yield "publishing, all windows", decimal(sum(publish), 3)
    yield (
        "windows whose search a deadline ended",
        count(sum(bool(record["deadline_struck"]) for record in facts.metrics)),
    )


def _moment(iso: Any) -> str:
    return str(iso).replace("T", " ").replace("+00:00", " UTC") if iso else "at a time that is not known"
