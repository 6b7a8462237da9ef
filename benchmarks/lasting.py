"""What do cohorts that last cost beside the other protections, and what on feeds that are odd?

Data: sparkov, 91 days, in windows of a day and of a week (max_delay two windows); complete_journey in weeks; the demo's
feed (20,000 rows, 14 days, seed 1), under their example policies, k = 5. Everything runs through ``anonymize_table``
with one thread: people are unknown at first, newcomers wait for an intake, rows come late. ``cohort: lasting``,
``cohort: window`` and ``protect: row`` get the same table, policy and secret.

Loss: GCP of the exact hulls and of the boxes as published, mean over released rows; snapping is their difference.
Newcomers: the loss (as published) of rows that people have in the release with which they enter, by all rows, as a
share of all loss. Rejected: share of the feed's rows. Waiting: rows that wait at the end of a window, as a share of the
rows at hand in it, from the fourth window on. Kept: groups that are a group of the window before as far as its cohorts
are here, by groups. Same box: of all person-windows with an earlier one, those where the published box is that of the
person's last one. Candidates: people of one cohort (``epoch_candidates``), over person-windows. Left alone, under
``protect: row``: person-windows with one candidate for who links a person's rows (``linked_candidates``). Targets: loss
that the simulation before the build had; besides, at most .2% rejected and 2% waiting.

CPU us a row of the feed, in the same run: all of ``anonymize_table``; merging is ``window_groups`` (encoding of boxes
included), search ``merge_cohorts`` in it, founding ``found``. Of the others: all, and ``solve`` under merging.

Warm start: each window's merging posed again, in a chain of its own: from the groups of the window before, and from
scratch, at equal evaluations a row. The ratio of losses is warm to cold, by rows over windows that have a predecessor.
(``merging_cohorts`` has more budgets, with everybody known from the start.)

SIL: ``solver: {loss: sil}`` founds cohorts by the distance of people to the average of theirs; merging sees boxes, and
lowers their NCP under either. Both in one run, and of both the SIL of the released rows' own values in their groups.

Odd feeds: sparkov, first days as given, changed with a seed (``odd_feeds``). Guests come once. Movers have somebody
else's attributes from a random day on. Outdated: released rows of which a value lies outside of the frozen box.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

import kanonflow.transforms.protections.afresh as afresh
import kanonflow.transforms.protections.intake as intake
import kanonflow.transforms.protections.lasting as lasting
import kanonflow.transforms.protections.release_window as window
import kanonflow.transforms.roster.window_groups as grouping
from benchmarks.call_log import CallLog, watch
from benchmarks.data_sets import (
    COMPLETE_JOURNEY,
    SPARKOV,
    WEEK_MS,
    DataSet,
    MissingDataError,
    data_path,
    example_policy,
    with_window,
)
from benchmarks.odd_feeds import SPARKOV_CARDS, as_a_trickle, with_bots, with_guests, with_moves
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.stopwatch import Spent, timed
from benchmarks.window_chain import SECRET
from kanonflow.pipelines.commands.demo_feed import FeedShape, demo_feed
from kanonflow.schemas.policy import Cohort, Policy, Protection
from kanonflow.solvers.merging.merging import EVALUATIONS_PER_ROW, MergeTask, merge_cohorts
from kanonflow.solvers.warm_up import warm_up_merging
from kanonflow.transforms.one_table import AnonymizedTable, anonymize_table
from kanonflow.transforms.protections.lasting_metrics import rows_sil
from kanonflow.transforms.publishing.boxes import Boxes, box_columns

SEED = 1
SETTLED = 3
BUDGETS = (5, EVALUATIONS_PER_ROW)
DEMO = FeedShape(20_000, 14, SEED)

COURSES = (
    "feed", "cohort", "rows", "windows", "gcp_hull", "target hull", "gcp", "target", "snapping",
    "newcomers' loss %", "rejected %", "waiting %", "people known", "intakes", "groups", "kept %", "same box %",
    "candidates min", "candidates mean", "left alone %", "us/row all", "us/row merging", "us/row search",
    "us/row founding",
)  # fmt: skip
WARM = ("feed", "evaluations a row", "windows", "cold", "warm", "warm / cold", "kept, cold %", "kept, warm %")
BY_SIL = ("feed", "loss", "gcp_hull", "gcp", "sil", "gcp_hull / ncp's", "sil / ncp's", "us/row founding")
ODD = (
    "feed", "rows", "people known", "pool at the end", "intakes", "gcp_hull", "gcp", "rejected %", "waiting %",
    "candidates min", "candidates mean", "same box %", "outdated %", "us/row all",
)  # fmt: skip


class Source(NamedTuple):
    """A feed as text, under a policy. hull, published: losses that were to be reached, None without any."""

    name: str
    table: pa.Table
    policy: Policy
    hull: float | None = None
    published: float | None = None


@dataclass(frozen=True)
class Course:
    """A feed that has gone through.

    rows: of the feed. made: what ``anonymize_table`` gave. spent: of all. log: of the calls inside.
    """

    rows: int
    made: AnonymizedTable
    spent: Spent
    log: CallLog

    @property
    def releases(self) -> list[dict[str, Any]]:
        """Metrics of the windows that released something."""
        return [metrics for metrics in self.made.metrics if metrics["released"]]


def course(
    source: Source, cohort: Cohort | None, cohort_size: int | None = None, loss: str = "ncp"
) -> Course:
    """The whole feed, watched. cohort: None for ``protect: row``. cohort_size: of ``lasting``, None for k; all else by
    the policy's defaults."""
    policy = replace(
        source.policy,
        protect=Protection.INDIVIDUAL if cohort else Protection.ROW,
        cohort=cohort,
        cohort_size=cohort_size,
        intake=None,
        intake_share=None,
        max_outdated=None,
        partition_by=(),
        solver=replace(source.policy.solver, loss=loss),
    )
    watched = (
        (intake, ("found",)),
        (lasting, ("window_groups", "window_metrics")),
        (grouping, ("merge_cohorts",)),
        (afresh, ("solve",)),
        (window, ("issue",)),
    )
    with watch(*watched) as log:
        made, spent = timed(anonymize_table, source.table, policy, SECRET, text=True, threads=1)
    return Course(source.table.num_rows, made, spent, log)


def by_rows(releases: list[dict[str, Any]], name: str) -> float | None:
    """A metric's mean over released rows; None without any."""
    told = [(each[name], each["rows_released"]) for each in releases if each[name] is not None]
    if not told:
        return None
    values, rows = np.transpose(told)
    return float(np.average(values, weights=rows))


def waiting_share(metrics: list[dict[str, Any]], settled: int = SETTLED) -> float | None:
    """Rows that wait at the end of a window by the rows at hand in it, from window ``settled`` on; None without any."""
    later = metrics[settled:]
    at_hand = sum(each["rows_new"] + each["rows_waited"] for each in later)
    return sum(each["rows_waiting"] for each in later) / at_hand if at_hand else None


class Published(NamedTuple):
    """people: uint64 (u,), digests of the people of a release. boxes: of each, as text."""

    people: NDArray[np.uint64]
    boxes: list[str]


def published_boxes(log: CallLog) -> Iterator[Published]:
    """Who was published under which box, release by release."""
    for call in log.of("issue"):
        answer, publication = call.args[1], call.result.publication
        if publication is None:
            continue
        of_row, digests = answer.people
        if answer.kept is not None:
            of_row = of_row[answer.kept]
        boxes: Boxes = publication.published.boxes
        assert boxes.of_row is not None
        here, first = np.unique(of_row, return_index=True)
        columns = box_columns(replace(boxes, of_row=None))
        texts = [repr(box) for box in pa.table(columns).to_pylist()]
        yield Published(digests[here], [texts[box] for box in boxes.of_row[first]])


def same_box(releases: Iterator[Published]) -> float | None:
    """Share of person-windows under the box of the person's last one, of those that have one; None without any."""
    last: dict[int, str] = {}
    again = same = 0
    for release in releases:
        for person, box in zip(release.people.tolist(), release.boxes, strict=True):
            if person in last:
                again += 1
                same += last[person] == box
            last[person] = box
    return same / again if again else None


def newcomers_share(log: CallLog, releases: list[dict[str, Any]]) -> float | None:
    """Of all published loss, the share of rows of people in the release with which they enter; None without loss."""
    loss = sum(each["gcp"] * each["rows_released"] for each in releases)
    theirs, entered = 0.0, None
    numbers = iter(releases)
    for call in log.calls:
        called = call.name.rsplit(".", 1)[-1]
        if called == "found":
            entered = call.result.segment.people
        elif called == "issue" and call.result.publication is not None:
            metrics = next(numbers)
            if entered is not None and metrics["gcp_newcomers"] is not None:
                of_row, digests = call.args[1].people
                theirs += metrics["gcp_newcomers"] * int(np.isin(digests[of_row], entered).sum())
            entered = None
    return theirs / loss if loss else None


def percent(share: float | None) -> float | None:
    """A share as a percentage."""
    return None if share is None else 100 * share


def candidates(releases: list[dict[str, Any]]) -> tuple[int | None, float | None]:
    """Least and mean of ``epoch_candidates``, the mean over person-windows."""
    told = [(each["epoch_candidates"], each["individuals"]) for each in releases if each["epoch_candidates"]]
    if not told:
        return None, None
    people = [count for _, count in told]
    return min(each["minimum"] for each, _ in told), float(
        np.average([each["mean"] for each, _ in told], weights=people)
    )


def _us(log: CallLog, names: tuple[str, ...], rows: int) -> float:
    return 1e6 * sum(call.cpu for name in names for call in log.of(name)) / rows


def left_alone(releases: list[dict[str, Any]]) -> float | None:
    """Of all person-windows, the share whose rows, once linked, have one candidate; None where it is not measured."""
    told = [
        (each["linked_candidates"], each["individuals"]) for each in releases if each["linked_candidates"]
    ]
    if not told:
        return None
    shares, people = [each["share_one"] for each, _ in told], [count for _, count in told]
    return float(np.average(shares, weights=people))


def course_row(source: Source, cohort: Cohort | None, run: Course) -> tuple[Any, ...]:
    """A row of the table of courses."""
    releases, lasting = run.releases, cohort is Cohort.LASTING
    hull, published = by_rows(releases, "gcp_hull"), by_rows(releases, "gcp")
    later = [each for each in releases if each["groups_kept"] is not None]
    groups = sum(each["classes"] for each in later)
    last = run.made.metrics[-1] if run.made.metrics else {}
    return (
        source.name,
        cohort.value if cohort else "protect: row",
        run.rows,
        len(releases),
        hull,
        source.hull if lasting else None,
        published,
        source.published if lasting else None,
        None if hull is None or published is None else published - hull,
        percent(newcomers_share(run.log, releases)) if lasting else None,
        100 * len(run.made.rejected) / run.rows,
        percent(waiting_share(run.made.metrics)),
        last.get("people_known"),
        sum(bool(each["people_entered"]) for each in releases) if lasting else None,
        sum(each["classes"] for each in releases) if cohort else None,
        100 * sum(each["groups_kept"] for each in later) / groups if groups else None,
        percent(same_box(published_boxes(run.log))) if cohort else None,
        *candidates(releases),
        percent(left_alone(releases)),
        1e6 * run.spent.cpu / run.rows,
        _us(run.log, ("window_groups",) if lasting else ("solve",), run.rows),
        _us(run.log, ("merge_cohorts",), run.rows) if lasting else None,
        _us(run.log, ("found",), run.rows) if lasting else None,
    )


class Posed(NamedTuple):
    """A window's merging as the product posed it. cohorts: int64 (c,), the numbers of the task's cohorts."""

    task: MergeTask
    cohorts: NDArray[np.int64]


def posed(log: CallLog) -> list[Posed]:
    """All mergings of a course."""
    tasks = [call.args[0] for call in log.of("merge_cohorts")]
    return [
        Posed(task, call.result.cohorts) for task, call in zip(tasks, log.of("window_groups"), strict=True)
    ]


def kept_share(labels: NDArray[np.integer[Any]], last: NDArray[np.int64]) -> float:
    """Groups that are, as sets, the cohorts that one number of ``last`` has here; by groups.

    labels: (c,), group of each cohort. last: int64 (c,), its group in the window before; -1: it was not there.
    """
    ours = {tuple(np.flatnonzero(labels == group)) for group in np.unique(labels)}
    theirs = {tuple(np.flatnonzero(last == group)) for group in np.unique(last[last >= 0])}
    return len(ours & theirs) / len(ours)


class Chain(NamedTuple):
    """loss: by rows, of the windows from the second on. kept: mean share of groups kept, by groups."""

    loss: float
    kept: float


def chain(windows: list[Posed], per_row: int, *, warm: bool) -> Chain:
    """All windows one after the other; warm: each from the chain's own groups of the window before."""
    last = np.full(1 + max(int(window.cohorts[-1]) for window in windows), -1, dtype=np.int64)
    losses, kept, rows, groups = [], [], [], []
    for number, (task, cohorts) in enumerate(windows):
        before = last[cohorts]
        merged = merge_cohorts(
            replace(
                task, evaluations=per_row * int(task.rows.sum()), warm=before if warm and number else None
            )
        )
        if number:
            losses.append(merged.loss)
            rows.append(task.rows.sum())
            kept.append(kept_share(merged.labels, before))
            groups.append(1 + int(merged.labels.max()))
        last[:] = -1
        last[cohorts] = merged.labels
    return Chain(float(np.average(losses, weights=rows)), float(np.average(kept, weights=groups)))


def warm_rows(name: str, windows: list[Posed]) -> Iterator[tuple[Any, ...]]:
    """Rows of the table of warm starts."""
    if len(windows) < 2:
        return
    for per_row in BUDGETS:
        cold, warm = (chain(windows, per_row, warm=start) for start in (False, True))
        ratio = warm.loss / cold.loss if cold.loss else None
        yield name, per_row, len(windows), cold.loss, warm.loss, ratio, 100 * cold.kept, 100 * warm.kept


def text_table(data: DataSet, days: int | None = None) -> pa.Table:
    """A data set as text, as it stands in its file. days: only rows of its first days. Raises MissingDataError."""
    path = data_path(data)
    names = pyarrow.csv.open_csv(path).schema.names
    options = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    table = pyarrow.csv.read_csv(path, convert_options=options)
    if days is None:
        return table
    day = pc.utf8_slice_codeunits(table.column(data.time), 0, 10)
    return table.filter(pc.is_in(day, pa.array(np.unique(np.asarray(day).astype(str))[:days])))


def demo_table(shape: FeedShape) -> pa.Table:
    """The demo's feed as text."""
    table = demo_feed(shape)
    columns = {name: table.column(name).cast(pa.string()) for name in table.column_names}
    columns["booked_at"] = pc.utf8_slice_codeunits(columns["booked_at"], 0, 19)
    return pa.table(columns)


FEEDS: dict[str, Callable[[], Source]] = {
    "sparkov days": lambda: Source(
        "sparkov days", text_table(SPARKOV), example_policy("sparkov"), 0.068, 0.072
    ),
    "sparkov weeks": lambda: Source(
        "sparkov weeks", text_table(SPARKOV), with_window(example_policy("sparkov"), WEEK_MS), 0.052, 0.056
    ),
    "complete_journey weeks": lambda: Source(
        "complete_journey weeks", text_table(COMPLETE_JOURNEY), example_policy("complete_journey"), 0.152
    ),
    "demo": lambda: Source("demo", demo_table(DEMO), example_policy("transactions"), 0.130, 0.138),
}


class Odd(NamedTuple):
    """A feed that is not like the others. change: of sparkov's table. say: what to tell of it.

    cohort_size: of the policy, None for its own.
    """

    name: str
    say: str
    change: Callable[[pa.Table], pa.Table] = lambda table: table
    cohort_size: int | None = None


def _guests(share: float) -> Callable[[pa.Table], pa.Table]:
    return lambda table: with_guests(table, SPARKOV_CARDS, share, SEED)


# What is said of each in documents, in one sentence; figures are those of the results, sparkov's 91 days.
ODDITIES = (
    Odd("as it is", "The feed that the others are changed from."),
    Odd(
        "half of the people come once",
        "People who come once cost 3% of loss (.068 for .066) and leave with the next intake; but they stay candidates"
        " for ever of whoever entered with them.",
        _guests(0.5),
    ),
    Odd(
        "nine in ten come once",
        "Where nine in ten come once, 4% of the rows wait for an intake and none is rejected; the roster keeps every"
        " one of them, and a regular who enters among them has candidates who never come again.",
        _guests(0.9),
    ),
    Odd(
        "a trickle: a newcomer in 5 days",
        "Where one newcomer comes in five days, the first of five waits for 20 days or more, and rows older than"
        " max_delay are rejected meanwhile (.13% of the feed's): a longer max_delay keeps them.",
        lambda table: as_a_trickle(table, SPARKOV_CARDS, 3, 5, SEED),
    ),
    Odd(
        "2.5% move",
        "Where 2.5% of the people move in a quarter, loss and groups stay as they are, and .9% of the rows carry"
        " attributes of before the move (outdated_values).",
        lambda table: with_moves(table, SPARKOV_CARDS, 0.025, SEED),
    ),
    Odd(
        "5 bots with half of the rows",
        "Five accounts with half of the rows change nobody's candidates; but gcp is by rows, so half of the figure is"
        " theirs, and half of a window's rows lie in five boxes or fewer.",
        lambda table: with_bots(table, SPARKOV_CARDS, 5, SEED),
    ),
    Odd(
        "cohort_size k + 1",
        "One person more than k costs 2% of loss here (.067 for .066), for a cohort with one member away stands alone:"
        " 71% instead of 44% of person-windows have the box of the last one, and one known match leaves k candidates.",
        cohort_size=6,
    ),
    Odd(
        "cohort_size 2 k",
        "Twice k costs a third more loss (.086 for .066) and five times the rejected rows (.25%), for newcomers wait"
        " until ten are there; candidates are 10, and boxes hardly ever change (98%).",
        cohort_size=10,
    ),
)


def sil_rows(source: Source, by_ncp: Course) -> Iterator[tuple[Any, ...]]:
    """Rows of the table of losses: cohorts founded by either."""
    base: tuple[float, float] | None = None
    for loss, run in (("ncp", by_ncp), ("sil", course(source, Cohort.LASTING, loss="sil"))):
        calls = run.log.of("window_metrics")
        told = [rows_sil(made, due, entered) for due, entered, made, _ in (call.args for call in calls)]
        spread = float(np.average(told, weights=[call.args[2].rows.num_rows for call in calls]))
        hull = by_rows(run.releases, "gcp_hull")
        assert hull is not None
        base = base or (hull, spread)
        ratios = hull / base[0], spread / base[1]
        yield (
            source.name,
            loss,
            hull,
            by_rows(run.releases, "gcp"),
            spread,
            *ratios,
            _us(run.log, ("found",), run.rows),
        )


def odd_row(name: str, run: Course) -> tuple[Any, ...]:
    """A row of the table of odd feeds."""
    releases = run.releases
    released = sum(each["rows_released"] for each in releases)
    outdated = sum(max(each["outdated_values"].values(), default=0) for each in releases)
    return (
        name,
        run.rows,
        run.made.metrics[-1]["people_known"],
        run.made.metrics[-1]["pool"],
        sum(bool(each["people_entered"]) for each in releases),
        by_rows(releases, "gcp_hull"),
        by_rows(releases, "gcp"),
        100 * len(run.made.rejected) / run.rows,
        percent(waiting_share(run.made.metrics)),
        *candidates(releases),
        percent(same_box(published_boxes(run.log))),
        100 * outdated / released if released else None,
        1e6 * run.spent.cpu / run.rows,
    )


def _odd_feeds(table: ResultTable, days: int | None) -> None:
    feed = text_table(SPARKOV, days)
    for odd in ODDITIES:
        source = Source(odd.name, odd.change(feed), example_policy("sparkov"))
        table.rows.append(odd_row(odd.name, course(source, Cohort.LASTING, odd.cohort_size)))
    table.note = "\n".join(f"- {odd.name}: {odd.say}" for odd in ODDITIES)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Cohorts that last, beside the other protections.")
    parser.add_argument("--feeds", nargs="*", choices=list(FEEDS), default=list(FEEDS))
    parser.add_argument(
        "--odd-days", type=int, default=91, help="days of sparkov for odd feeds; 0: none of them"
    )
    parser.add_argument("--note", default="", help="a sentence on the circumstances, for the results")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("lasting", __doc__ or "")
    courses = findings.table("Lasting beside afresh and beside rows", COURSES, arguments.note)
    warm = findings.table("Merging from the last window's groups, and from scratch", WARM)
    losses = findings.table("Cohorts founded by SIL", BY_SIL)
    odd = findings.table("Odd feeds, cohort: lasting", ODD)
    warm_up_merging()
    for name in arguments.feeds:
        try:
            source = FEEDS[name]()
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
            continue
        small = source._replace(table=source.table.slice(0, 3_000))
        for cohort in (Cohort.LASTING, Cohort.WINDOW, None):
            # Whatever is loaded at the first call is no cost of a row.
            course(small, cohort)
            run = course(source, cohort)
            courses.rows.append(course_row(source, cohort, run))
            if cohort is Cohort.LASTING:
                warm.rows.extend(warm_rows(name, posed(run.log)))
                course(small, cohort, loss="sil")
                losses.rows.extend(sil_rows(source, run))
    if arguments.odd_days:
        try:
            _odd_feeds(odd, arguments.odd_days)
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
