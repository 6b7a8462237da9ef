"""Where does the time of one window go?

Data: sparkov, the example policies in both modes, k = 5, windows of a day (and of a week): the second whole
window of the feed, warmed by the ones before it as in the stateful step. ``release_window`` runs on it
``--repeats`` times with equal arguments and one thread; its functions are timed where they are called (no
profiler, whose overhead would fall on small functions). A function's time is its own: without that of the
timed functions inside of it; ``other`` is what is left of the whole. What the step does around it is timed
too: reading and writing the warm state, the release as an Avro file; and, over the whole feed, reading the
file, classifying and splitting its rows. CPU time, medians over the repeats; shares are of the sum of one
window, formed in one run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from types import ModuleType
from typing import Any

import kanonflow.solvers.partition_search.search as search
import kanonflow.solvers.shapes.classes as solve_classes
import kanonflow.solvers.shapes.graphs as solve_graph
import kanonflow.solvers.structures.graph as graphs
import kanonflow.solvers.structures.partition as partitions
import kanonflow.transforms.protections.afresh as releasing
import kanonflow.transforms.protections.row as rows_alone
import kanonflow.transforms.protections.window as closed
import kanonflow.transforms.publishing.publish as publishing
import kanonflow.transforms.release.account as accounting
import kanonflow.transforms.release.candidates as gathering
import kanonflow.transforms.release.issue as issuing
from benchmarks.call_log import CallLog, watch
from benchmarks.data_sets import (
    DAY_MS,
    SPARKOV,
    WEEK_MS,
    Feed,
    MissingDataError,
    data_path,
    example_policy,
    read_feed,
    with_window,
)
from benchmarks.one_window import release_window
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from benchmarks.window_chain import PARTITION, SECRET, chain
from kanonflow.pipelines.feeds.input_files import find_inputs
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.solvers.warm_up import warm_up
from kanonflow.transforms.release import cohorts
from kanonflow.transforms.release.warm_state import WarmState, warm_state_from_bytes
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.rows.split import split
from kanonflow.transforms.secret.seeds import ReleaseSlot
from kanonflow.transforms.sinks.sinks import release_file

WINDOWS = {"day": DAY_MS, "week": WEEK_MS}
POLICIES = {"row": "sparkov_rows", "individual": "sparkov"}
# (what it is, module that calls it, function), in the order in which a window meets them.
STAGES: tuple[tuple[str, ModuleType, str], ...] = (
    ("people: digests", cohorts, "person_digests"),
    ("canonical order", gathering, "canonical_order"),
    ("encode", releasing, "encode"),
    ("warm start: old structure", closed, "warm_classes"),
    ("warm start: old structure", rows_alone, "warm_graph"),
    ("solve: group rows", solve_graph, "group_rows"),
    ("solve: k-d tree", solve_graph, "build_tree"),
    ("solve: neighbours", solve_graph, "nearest_units"),
    ("solve: bound", solve_graph, "neighbour_bound"),
    ("solve: start", solve_graph, "cold_members"),
    ("solve: warm start completed", solve_graph, "warm_members"),
    ("solve: slots", solve_graph, "build_slots"),
    ("solve: search", solve_graph, "search_graph"),
    ("solve: search", solve_graph, "merged_search"),
    ("solve: deal rows", solve_graph, "deal_rows"),
    ("solve: two-edge cuts", solve_graph, "untied"),
    ("solve: loss", solve_graph, "gcp"),
    ("solve: gather individuals", solve_classes, "gather_individuals"),
    ("solve: k-d tree", solve_classes, "build_tree"),
    ("solve: bound", solve_classes, "nearest_units"),
    ("solve: start", solve_classes, "diverse_greedy_labels"),
    ("solve: neighbours", solve_classes, "nearest_people"),
    ("solve: neighbours", solve_classes, "diverse_neighbours"),
    ("solve: search", search, "descend"),
    ("solve: search", search, "kick"),
    ("solve: other", releasing, "solve"),
    ("publish: content digest", issuing, "content_digest"),
    ("publish: matching", graphs, "random_factor"),
    ("publish: matching", partitions, "shuffled_within"),
    ("publish: hulls", publishing, "hull_boxes"),
    ("publish: snapping", publishing, "snapped_boxes"),
    ("publish: columns", publishing, "box_columns"),
    ("publish: gate", publishing, "check_release"),
    ("publish: order of content", publishing, "published_order"),
    ("publish: other", issuing, "publish"),
    ("cohorts", closed, "class_cohorts"),
    ("cohorts", rows_alone, "graph_cohorts"),
    ("metrics", accounting, "window_metrics"),
    ("metrics", accounting, "release_metrics"),
    ("release as Arrow IPC", issuing, "to_ipc"),
)
Times = dict[str, float]


def by_stage(log: CallLog) -> Times:
    """CPU seconds of each stage, in the order of STAGES; a module's name tells two functions of one name apart."""
    spent: Times = {}
    own = log.own_seconds()
    for stage, module, name in STAGES:
        _, cpu = own.get(f"{module.__name__}.{name}", (0.0, 0.0))
        spent[stage] = spent.get(stage, 0.0) + cpu
    return {stage: cpu for stage, cpu in spent.items() if cpu > 0}


def one_release(feed: Feed, warm: WarmState, number: int) -> tuple[Times, float]:
    """Release one window once; CPU seconds by stage, and wall seconds of everything."""
    window = feed.windows[number]
    slot = ReleaseSlot(PARTITION, window.end_ms, number)
    state = warm.to_bytes()
    log = CallLog()
    watched: dict[str, tuple[ModuleType, list[str]]] = {}
    for _, module, name in STAGES:
        watched.setdefault(module.__name__, (module, []))[1].append(name)
    times: Times = {}
    again, spent = timed(warm_state_from_bytes, state)
    times["state: read"] = spent.cpu
    wall = spent.wall
    with watch(*watched.values(), log=log):
        result, whole = timed(release_window, window.rows, feed.bound, again, SECRET, slot, threads=1)
    inside = by_stage(log)
    times |= inside | {"other": whole.cpu - sum(inside.values())}
    _, spent = timed(result.warm.to_bytes)
    times["state: write"] = spent.cpu
    wall += whole.wall + spent.wall
    schema = release_avro_schema(feed.bound)
    if result.release is not None:
        _, spent = timed(release_file, result.release, schema)
        times["release as Avro file"] = spent.cpu
        wall += spent.wall
    return times, wall


def measure_window(feed: Feed, label: str, number: int, repeats: int, table: ResultTable) -> None:
    """Add the stages of one window."""
    before = feed._replace(windows=feed.windows[:number])
    warm = WarmState()
    for step in chain(before):
        warm = step.after
    runs = [one_release(feed, warm, number) for _ in range(repeats)]
    rows = feed.windows[number].rows.num_rows + warm.waiting_rows
    stages = {stage: median(times.get(stage, 0.0) for times, _ in runs) for stage in runs[0][0]}
    whole = sum(stages.values())
    for stage, cpu in stages.items():
        table.rows.append((label, stage, 1e3 * cpu, 1e6 * cpu / rows, 100 * cpu / whole))
    wall = median(wall for _, wall in runs)
    table.rows.append(
        (label, f"all, {rows:,} rows (wall {1e3 * wall:.0f} ms)", 1e3 * whole, 1e6 * whole / rows, 100.0)
    )


def measure_feed(feed: Feed, path: Any, repeats: int, table: ResultTable) -> None:
    """Add what happens to the rows of a feed before its windows: reading, classifying, splitting."""
    file = find_inputs([str(path)])[0]
    columns = list(feed.bound.input_columns)
    spent: dict[str, list[float]] = {"read and parse": [], "classify": [], "split": []}
    for _ in range(repeats):
        batches, reading = timed(lambda: [from_ipc(batch.ipc) for batch in read_batches(file, columns)])
        classified, classifying = timed(_each, batches, lambda batch: classify(batch, feed.bound).rows)
        _, splitting = timed(_each, classified, lambda rows: split(rows, feed.bound))
        for name, one in zip(spent, (reading, classifying, splitting), strict=True):
            spent[name].append(one.cpu)
    rows = sum(batch.num_rows for batch in batches)
    for name, cpus in spent.items():
        table.rows.append((name, rows, median(cpus), 1e6 * median(cpus) / rows))


def _each(items: list[Any], work: Callable[[Any], Any]) -> list[Any]:
    return [work(item) for item in items]


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Where the time of one window goes.")
    parser.add_argument("--windows", nargs="+", choices=list(WINDOWS), default=list(WINDOWS))
    parser.add_argument("--modes", nargs="+", choices=list(POLICIES), default=list(POLICIES))
    parser.add_argument("--repeats", type=int, default=5)
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("stages", __doc__ or "")
    windows = findings.table("One window", ["window", "stage", "CPU ms", "CPU us/row", "%"])
    whole = findings.table(
        "The whole feed, before its windows",
        ["stage", "rows", "CPU s", "CPU us/row"],
        "Columns: those of sparkov.yaml.",
    )
    try:
        path = data_path(SPARKOV)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    warm_up()
    for window in arguments.windows:
        for mode in arguments.modes:
            feed = read_feed(path, with_window(example_policy(POLICIES[mode]), WINDOWS[window]), days=20)
            # The first week is cut by the start of the feed; the second whole one is the third.
            number = 1 if window == "day" else 2
            measure_window(feed, f"{window}, {mode}", number, arguments.repeats, windows)
    measure_feed(feed, path, arguments.repeats, whole)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
