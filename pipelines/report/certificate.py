"""The certificate of a run: a page for whoever gets the releases, made of ``PublicFacts`` and of nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from kanonflow.pipelines.pages.pages import Block, KeyNumber, Page, Paragraph, Section
from kanonflow.pipelines.report.feed_figures import feed_figures, people_against_loss
from kanonflow.pipelines.report.key_numbers import key_numbers
from kanonflow.pipelines.report.public_facts import PublicFacts
from kanonflow.pipelines.report.steps import Record, added, in_order, steps, still_waiting
from kanonflow.pipelines.report.told_promise import no_promise, told_promise, who_links
from kanonflow.pipelines.report.told_verdict import status, verdict_table
from kanonflow.pipelines.run_records.public_assessment import PublicAssessment
from kanonflow.pipelines.terminal.summary import mean_of
from kanonflow.pipelines.terminal.table import Cell, Table, count, decimal, rows_of, share
from kanonflow.schemas.promises.promises import promise_of

_RESTRICTED = "The policy keeps the metrics of this run restricted: counts and losses are not told here."


def certificate(facts: PublicFacts) -> Page:
    """The page. A function of the facts alone."""
    feed = steps(facts.metrics)
    over_time = (
        Section("feed", "The feed over time", tuple(feed_figures(feed, bounds=False))),
        Section("people", "People a window against loss", tuple(people_against_loss(feed))),
    )
    sections = (
        Section("verdict", "Verdict", tuple(_verdict(facts))),
        Section("fields", "What is published of each field", tuple(_fields(facts))),
        *(over_time if facts.metrics else ()),
        Section("risk", "Risk", tuple(_risk(facts))),
        *(_assessed(facts.assessed) if facts.assessed is not None else ()),
        Section("settings", "Settings", tuple(_settings(facts))),
    )
    name = _head(facts).get("policy")
    return Page(
        f"Certificate of the releases{f' under {name}' if name else ''}",
        "kanonflow, for whoever has the releases",
        status(facts.verdict, stands=facts.stands, public=True),
        sections,
        (
            "Made from what is public alone: the metrics of the releases or else their schema, and the"
            " verdict of their audit. It is a record and no signature: whoever may write where it lies could have"
            " written it.",
        ),
        _numbers(facts),
    )


def _numbers(facts: PublicFacts) -> tuple[KeyNumber, ...]:
    """None where the metrics are restricted, for only the promise could be told."""
    if not facts.metrics:
        return ()
    lost = no_promise(facts.verdict, released_again=facts.released_again, divided=facts.divided)
    released = sum(record["rows_released"] for record in facts.metrics)
    rejected = added(record["rows_rejected"] for record in facts.metrics)
    left = sum(rejected.values()), sum(still_waiting(facts.metrics).values())
    loss = mean_of(facts.metrics, "gcp")
    return key_numbers(_head(facts), lost, released=released, read=None, left=left, loss=loss)


def _head(facts: PublicFacts) -> Record:
    """Policy and promise, as the latest release has them. An audit has those of whatever policy was given to it."""
    return in_order(facts.metrics)[-1] if facts.metrics else facts.stated


def _verdict(facts: PublicFacts) -> Iterator[Block]:
    head = _head(facts)
    yield from who_links(head)
    if facts.metrics:
        yield _ledger(facts)
        yield Paragraph(
            "Waiting and rejected rows are rounded down, and counted only as far as several people share them."
        )
    if head:
        lost = no_promise(facts.verdict, released_again=facts.released_again, divided=facts.divided)
        yield from told_promise(head, lost, facts.renewal)
        if lost is None and not facts.stands:
            yield Paragraph(
                "Whether these rows were released a second time, which ends the promise, is told here as far as it is"
                " known once they are audited."
            )
    else:
        yield Paragraph(
            "Nothing is public of this run but its releases, and none of them is here. Each of them says its k in its"
            " schema."
        )
    yield from verdict_table(facts.verdict, stands=facts.stands)


def _ledger(facts: PublicFacts) -> Table:
    rejected = added(record["rows_rejected"] for record in facts.metrics)
    waiting = still_waiting(facts.metrics)
    rows: list[tuple[Cell, ...]] = [
        ("releases", count(len(facts.metrics))),
        ("rows released", count(sum(record["rows_released"] for record in facts.metrics))),
        ("rows waiting, at least", count(sum(waiting.values()))),
        ("rows rejected, at least", count(sum(rejected.values()))),
    ]
    rows += [(f"rejected: {reason}, at least", count(number)) for reason, number in rejected.items()]
    return Table("ledger", "Rows by what became of them", ("", "rows"), rows_of(rows), folded=False)


def _fields(facts: PublicFacts) -> Iterator[Block]:
    if facts.fields:
        exact = [field.name for field in facts.fields if field.exact]
        yield Paragraph(
            f"Published exactly as they are: {', '.join(exact)}."
            if exact
            else "No field is published as it is."
        )
        yield Table(
            "published",
            "How each field is published; exact ones first",
            ("field", "published as", "ends rounded out to", "declared domain"),
            rows_of((each.name, each.form, each.grid, each.domain) for each in facts.fields),
            folded=False,
        )
    if not facts.metrics:
        return
    names = dict.fromkeys(name for record in facts.metrics for name in record["ncp"])
    if not names:
        yield Paragraph(
            "How much of each field is lost is not told: without a declared domain it would tell values."
        )
        return
    yield Paragraph(
        "Each quasi-identifier is published as a range, a set of values or a label that holds the values of all"
        " candidates. 0 is the value itself, 1 is the whole domain."
    )
    means = {
        name: mean_of(
            [
                {"loss": each["ncp"].get(name), "rows_released": each["rows_released"]}
                for each in facts.metrics
            ],
            "loss",
        )
        for name in names
    }
    rows = rows_of((name, decimal(mean)) for name, mean in means.items())
    yield Table("fields", "Loss by field", ("field", "mean loss"), rows, folded=False)


def _risk(facts: PublicFacts) -> Iterator[Block]:
    head = _head(facts)
    if not head:
        yield Paragraph("The bound follows from k, which each release says in its schema.")
        return
    if lost := no_promise(facts.verdict, released_again=facts.released_again, divided=facts.divided):
        yield Paragraph(lost)
        return
    what = promise_of(head["protect"], head.get("cohort")).whose
    yield Paragraph(
        f"By the promise, nobody who knows no more than it allows finds out the right {what} with a probability above"
        f" 1/{head['k']} ({1 / head['k']:.1%})."
    )
    rows: list[tuple[Cell, ...]] = [("k", count(head["k"])), ("highest risk promised", share(1 / head["k"]))]
    yield Table("risk", "Risk as promised", ("", "value"), rows_of(rows), folded=False)


def _assessed(assessment: PublicAssessment) -> Iterator[Section]:
    rows = rows_of(
        (
            each.question,
            each.attack,
            decimal(each.figure, 2),
            f"{each.low:.2f} to {each.high:.2f}",
            decimal(each.limit, 2),
        )
        for each in assessment.lines
    )
    yield Section(
        "assessed",
        "What attacks found",
        (
            Paragraph(
                "The owner of these releases had them attacked by somebody who has everybody's attributes, and tells"
                " what was found of people beyond what was found of people who are not in them; at least"
                f" {assessment.people:,} of either. Counts were rounded first, to k or a hundredth, so intervals are"
                " wider than the 95% that they are for."
            ),
            Table(
                "assessed",
                "Shares beyond chance",
                ("", "of", "figure", "interval", "limit"),
                rows,
                folded=False,
            ),
        ),
    )


def _settings(facts: PublicFacts) -> Iterator[Block]:
    head = _head(facts)
    rows: list[tuple[Cell, ...]] = [
        (name, count(head[name]) if name == "k" else str(head[name]))
        for name in ("policy", "k", "protect", "cohort", "epoch")
        if head.get(name) is not None
    ]
    if facts.metrics:
        ends = [record["window_end"] for record in facts.metrics if record["window_end"] is not None]
        rows += [("first window ends", f"{min(ends):%Y-%m-%d %H:%M} UTC")] if ends else []
        rows += [("last window ends", f"{max(ends):%Y-%m-%d %H:%M} UTC")] if ends else []
    if not facts.metrics:
        yield Paragraph(_RESTRICTED)
    if rows:
        yield Table("settings", "Settings that are public", ("", "setting"), rows_of(rows), folded=False)
    else:
        yield Paragraph("None of them is public.")
