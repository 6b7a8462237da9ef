"""The benchmarks: they start anywhere, say what they skip, and their own arithmetic is right."""

import csv
import gzip
import importlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import (
    adult_loss,
    assess,
    audit_window,
    category_order,
    certified_gap,
    diversity,
    expected_errors,
    heterogeneous,
    hierarchies,
    imputed_models,
    kab_search,
    kab_tables,
    kab_variants,
    main_job,
    membership,
    merging,
    merging_cohorts,
    peers,
    plausible,
    release_formats,
    row_cost,
    row_mode_cost,
    scales,
    shards,
    stages,
    stream_rivals,
    tree_cut,
    two_commits,
    using_releases,
    warm_start,
    worth,
    worth_releases,
)
from benchmarks import classes as classes_benchmark
from benchmarks.adult_taxonomies import hierarchy_height
from benchmarks.call_log import watch
from benchmarks.data_sets import (
    ADULT,
    DAY_MS,
    SPARKOV,
    VARIABLE,
    MissingDataError,
    data_path,
    example_policy,
    read_feed,
    with_window,
    write_slice,
)
from benchmarks.result_files import ResultTable, shown
from benchmarks.stream_courses import our_course, read_sparkov
from benchmarks.window_chain import chain
from kanonflow.pipelines.runs import anonymize_files
from kanonflow.pipelines.runs.first_look import Measured
from kanonflow.pipelines.terminal.summary import RunSummary
from kanonflow.schemas.policy import Others
from kanonflow.schemas.policy_file import load_policy
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.sensitive import KINDS
from kanonflow.solvers.shapes import classes as class_search
from kanonflow.transforms.release.cohorts import guaranteed_candidates
from kanonflow.transforms.release.warm_state import Cohorts
from kanonflow.transforms.roster import founding
from tests import naive_diversity
from tests.mixed_tables import mixed_table

pytestmark = pytest.mark.thorough

BENCHMARKS = (
    adult_loss,
    assess,
    category_order,
    certified_gap,
    classes_benchmark,
    diversity,
    expected_errors,
    hierarchies,
    imputed_models,
    kab_search,
    kab_tables,
    kab_variants,
    main_job,
    membership,
    merging,
    merging_cohorts,
    peers,
    plausible,
    release_formats,
    row_cost,
    row_mode_cost,
    stages,
    stream_rivals,
    using_releases,
    warm_start,
    worth,
    worth_releases,
)
DAYS, PEOPLE = 4, 14


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a feed like sparkov: a few days of a few card holders."""
    generator = np.random.default_rng(1)
    policy = example_policy("sparkov")
    path = tmp_path / "data" / SPARKOV.file
    path.parent.mkdir(parents=True)
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in policy.fields], restval="x")
        writer.writeheader()
        for day in range(1, DAYS + 1):
            for person in range(PEOPLE):
                home = {
                    "lat": 30 + person,
                    "long": -80 - person,
                    "city_pop": 100 * person,
                    "job": f"job {person % 3}",
                }
                who = {"cc_num": person, "dob": f"19{50 + person}-05-01", "gender": "FM"[person % 2]}
                for hour in range(1 + int(generator.integers(0, 2))):
                    when = f"2020-01-{day:02d} {hour:02d}:00:00"
                    writer.writerow(
                        {**home, **who, "trans_date_trans_time": when, "amt": hour, "is_fraud": 0}
                    )
    monkeypatch.setenv(VARIABLE, str(tmp_path / "data"))
    return path


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda module: module.__name__)
@pytest.mark.parametrize("folder", [None, "empty"])
def test_says_what_it_skips(
    benchmark: object,
    folder: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without the data sets a benchmark ends well, names what it skips and why, and writes no results."""
    if folder is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, str(tmp_path))
    results = tmp_path / "results"
    assert benchmark.main(["--results", str(results)]) == 0  # type: ignore[attr-defined]
    told = capsys.readouterr().out
    assert "skipped" in told
    assert VARIABLE in told
    assert str(tmp_path) not in told
    assert not results.exists()


def test_every_benchmark_states_its_protocol() -> None:
    """The docstring, which goes into the results, names data, how ratios are formed, and the time that counts."""
    for module in (*BENCHMARKS, scales):
        text = (module.__doc__ or "").lower()
        words = ("jobs:" if module is main_job else "data:", "share" if module is stages else "ratio", "cpu")
        assert all(word in text for word in words), module
        assert text.splitlines()[0].endswith("?")


def test_answers_from_releases_are_within_their_bounds(data: Path, tmp_path: Path) -> None:
    """On a small feed: polars, DuckDB and pandas agree, and each truth is within its bounds, or the benchmark fails."""
    assert data.is_file()
    results = tmp_path / "results"
    arguments = ["--data", "sparkov", "--queries", "30", "--results", str(results)]
    assert using_releases.main(arguments) == 0
    found = json.loads((results / "using_releases.json").read_text())
    errors, whole, groups, _ = (table["rows"] for table in found["tables"])
    # A mean of zeros has no relative error, and is not asked for.
    assert [row["within"] for row in errors] == [f"{row['queries']} of {row['queries']}" for row in errors]
    assert [row["queries"] for row in errors if row["what"] == "count"] == [30]
    assert len(whole) == 2
    assert {row["by"] for row in groups} >= {"dob 20y", "window 1mo", "gender each"}
    assert all(row["median"] <= row["90%"] <= row["worst"] for row in errors)


def test_formats_of_releases_hold_the_same(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a small feed: the same cells, and the audit passes in both, or the benchmark fails."""
    assert data.is_file()
    # So few amounts tell when their row came; the command would refuse them.
    monkeypatch.setattr(anonymize_files, "measure_payload", lambda *given: Measured(""))
    results = tmp_path / "results"
    assert release_formats.main(["--data", "sparkov", "--turns", "1", "--results", str(results)]) == 0
    (table,) = json.loads((results / "release_formats.json").read_text())["tables"]
    assert len(table["rows"]) == 6
    assert all(row["ratio"] == pytest.approx(row["Parquet"] / row["Avro"]) for row in table["rows"])


def test_streams_are_measured_by_the_delay_of_each_row(data: Path, tmp_path: Path) -> None:
    """A small feed goes through rivals and chains; without waiting, each row leaves when its window ends."""
    stream = read_sparkov(3, DAYS)
    policy = replace(stream.bound.policy, k=3, max_delay_ms=0, state_ttl_ms=0)
    course = our_course(stream, policy)
    ends = (stream.times // DAY_MS + 1) * DAY_MS
    assert course.waited == (ends - stream.times).sum()
    assert (course.rows, course.longest) == (stream.times.size, DAY_MS)
    waits = our_course(stream, replace(policy, max_delay_ms=DAY_MS))
    assert course.waited <= waits.waited < course.waited + DAY_MS * course.rows
    assert waits.longest == 2 * DAY_MS
    results = ["--results", str(tmp_path / "results"), "--data", "sparkov", "--delays", "2"]
    assert stream_rivals.main(results) == 0
    record = json.loads((tmp_path / "results" / "stream_rivals.json").read_text())
    assert {row["method"].split(",")[0] for row in record["tables"][0]["rows"]} >= {"CASTLE", "FADS", "row"}
    assert (tmp_path / "results" / "stream_rivals_sparkov.svg").read_text().startswith("<svg")


def test_the_longest_delay_in_rows_fits_into_the_time() -> None:
    """The most newer rows that arrive within the limit, however dense the stream."""
    times = np.array([0, 1, 2, 10, 11, 12, 13, 20])
    assert stream_rivals.longest_within(times, 9) == 2
    assert stream_rivals.longest_within(times, 8) == 1
    assert stream_rivals.longest_within(times, 100) == 7


def test_warm_and_class_benchmarks_run_on_a_small_feed(data: Path, tmp_path: Path) -> None:
    """A small feed goes through both, and the result files say how they were made."""
    results = ["--results", str(tmp_path / "results"), "--date", "2024-03-01"]
    small = ["--windows", "day", "--budgets", "0.1"]
    assert warm_start.main([*small, *results, "--days", "3"]) == 0
    assert classes_benchmark.main([*small, *results]) == 0
    record = json.loads((tmp_path / "results" / "warm_start.json").read_text())
    pairs, reach, cohorts = record["tables"]
    assert [row["windows"] for row in pairs["rows"]] == [2] * 6
    assert [row["mode"] for row in reach["rows"]] == list(warm_start.POLICIES)
    assert {row["warm start taken %"] for row in pairs["rows"] if "always" in row["mode"]} == {100.0}
    assert [row["window"] for row in cohorts["rows"]] == ["day"]
    assert record["date"] == "2024-03-01"
    assert record["command"].startswith(f"{VARIABLE}=DIR python -m benchmarks.warm_start")
    text = (tmp_path / "results" / "classes.md").read_text()
    assert "search, 0.1 x default" in text
    assert str(tmp_path) not in text


def test_rules_for_sensitive_values_are_measured(data: Path, tmp_path: Path) -> None:
    """A feed of one category is infeasible under every l; a rule that costs nothing keeps the whole improvement."""
    results = ["--results", str(tmp_path / "results"), "--date", "2024-03-01"]
    assert diversity.main([*results, "--days", "1", "--months", "1", "--rows"]) == 0
    record = json.loads((tmp_path / "results" / "diversity.json").read_text())
    rows = record["tables"][0]["rows"]
    assert {row["infeasible"] for row in rows if row["rule"].startswith("frequency")} == {1}
    table = ResultTable("", diversity.COLUMNS)
    window = diversity.Window(mixed_table(1, 300), np.arange(300) % 5)
    diversity.measure(
        table, "mixed", [window], [("distinct", 1.0), ("frequency", 2), ("equal", 0.3)], Budget(200), 1
    )
    told = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["rule"] for row in told] == ["none", "distinct 1", "frequency 2", "equal 0.3"]
    assert told[1]["classes that break it, plain"] == 0
    assert told[3]["classes that break it, plain"] > 0
    assert {row["with the rule"] for row in told[1:]} == {0}
    assert all(row["to plain"] > 0.9 for row in told)


@given(st.integers(0, 2**20), st.sampled_from([*KINDS, "equal"]), st.sampled_from([2, 3]))
def test_broken_rules_are_counted_as_the_twin_counts_them(seed: int, kind: str, least: int) -> None:
    """The benchmark's own count, against fractions."""
    rng = np.random.default_rng(seed)
    labels, values = rng.integers(-1, 4, 30).astype(np.int32), rng.integers(0, 4, 30)
    limit = least / 10 if kind == "equal" else least
    rule = diversity.rule_of(values, kind, limit)
    whole = np.flatnonzero(labels >= 0).tolist()
    groups = [np.flatnonzero(labels == number).tolist() for number in range(4)]
    expected = sum(bool(rows) and not naive_diversity.meets(rows, [rule], whole) for rows in groups)
    assert diversity.broken(labels, values, kind, limit) == expected


def test_every_stage_is_a_function_of_the_product(data: Path) -> None:
    """Each name that is timed exists, and in each mode the main stages of a window are seen."""
    for _, module, name in stages.STAGES:
        assert callable(getattr(module, name)), f"{module.__name__}.{name}"
    for policy in ("sparkov", "sparkov_rows"):
        feed = read_feed(data, with_window(example_policy(policy), DAY_MS))
        *_, last = chain(feed._replace(windows=feed.windows[:1]))
        times, _ = stages.one_release(feed, last.after, 1)
        assert {"canonical order", "solve: search", "publish: gate", "release as Avro file"} <= times.keys()


def test_candidates_agree_with_the_metrics() -> None:
    """Counted person by person over the windows, the candidates are those that the release's metrics report."""
    generator = np.random.default_rng(2)
    history = []
    for end in range(4):
        people = np.sort(generator.choice(40, 30, replace=False)).astype(np.uint64)
        history.append((end, people, generator.integers(0, 4, 30)))
    found = warm_start.candidates(history)
    assert guaranteed_candidates(Cohorts(history=tuple(history))) == (int(found.min()), float(found.mean()))


def test_slices_keep_whole_days(data: Path, tmp_path: Path) -> None:
    """A slice of two days has the header and exactly the rows of the first two days."""
    lines = write_slice(SPARKOV, tmp_path, days=2).read_text().splitlines()
    with gzip.open(data, "rt", encoding="utf-8") as file:
        assert lines == [
            line for line in file.read().splitlines() if "2020-01-03" not in line and "2020-01-04" not in line
        ]


def test_the_parts_of_the_main_job_add_up() -> None:
    """What the command prints about its time is understood, and with the metrics it adds up to the whole."""
    summary = RunSummary(
        releases=1, conflicts=0, rows_read=5, rows_released=5, rows_waiting=0, rejected={}, gcp=0.1, lower_bound=0.05,
        total_seconds=4.0, read_seconds=0.5, solve_seconds=2.0, publish_seconds=0.25,
    )  # fmt: skip
    metrics = [{"solve_ms": 1500.0, "publish_ms": 250.0}, {"solve_ms": 500.0, "publish_ms": 0.0}]
    parts = main_job._parts(summary.render(), main_job.Spent(6.0, 5.0), metrics)
    assert parts == {"starting": 2.0, "read": 0.5, "solve": 2.0, "publish": 0.25, "rest": 1.25}


def test_commits_are_compared_by_rounds_that_both_have() -> None:
    """Of a round that one tree lacks nothing is said; the ratio is that of rounds, not of their means."""
    entries = [
        {"what": "demo", "round": number, "tree": tree, "cpu": cpu}
        for number, tree, cpu in ((0, "before", 2.0), (0, "after", 1.0), (1, "after", 9.0), (2, "after", 6.0))
    ]
    entries += [{"what": "demo", "round": 2, "tree": "before", "cpu": 4.0}, {**entries[0], "what": "adult"}]
    pairs = two_commits.in_pairs(entries, "demo", "cpu")
    assert pairs == [(2.0, 1.0), (4.0, 6.0)]
    assert two_commits.ratios(pairs) == (3.0, 3.5, 1.0, 0.5, 1.5)
    assert two_commits.in_pairs(entries, "demo", "gcp") == []


@pytest.mark.parametrize("method", [main_job.OWN, main_job.START, main_job.PASS_THROUGH])
@pytest.mark.parametrize("job", main_job.JOBS)
def test_policies_of_the_main_job_load(job: str, method: str, tmp_path: Path) -> None:
    """Each job's policy file is the example policy but for the method."""
    policy = load_policy(main_job.write_policy(job, method, tmp_path))
    assert policy.solver.method == ("auto" if method == main_job.OWN else method)
    assert policy.fields == example_policy(job).fields


def test_people_of_the_audited_window_keep_their_quasi_identifiers(tmp_path: Path) -> None:
    """One to three rows a person, alike but for the amount; without people every row is its own."""
    for people in (True, False):
        audit_window.write_window(tmp_path / "rows.csv", 200, 1, people=people)
        with (tmp_path / "rows.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 200
        persons = {row["who"]: tuple(row.values())[1:-1] for row in rows}
        assert all(persons[row["who"]] == tuple(row.values())[1:-1] for row in rows)
        assert (len(persons) < 150) == people


def test_watching_leaves_no_trace() -> None:
    """After the block a module holds its own functions again, even when another name does not exist."""
    module = importlib.import_module("benchmarks.result_files")
    original = module.shown
    with watch((module, ["shown"])) as log:
        module.shown(1)
    assert module.shown is original
    assert [(call.name, call.args, call.result) for call in log.calls] == [
        ("benchmarks.result_files.shown", (1,), "1")
    ]
    with pytest.raises(AttributeError):
        watch((module, ["shown", "no_such_function"])).__enter__()
    assert module.shown is original


def test_membership_by_hand() -> None:
    """Shares of outsiders and both advantages; a release that holds somebody fewer than k times is refused."""
    outside = np.array([0, 3, 5, 8])
    assert membership.membership_row(np.array([6, 7, 6, 9]), outside, 5) == (25.0, 25.0, 0.5, 0.75)
    with pytest.raises(AssertionError):
        membership.membership_row(np.array([4, 7, 6, 9]), outside, 5)


def test_boxes_of_found_classes_hold_whom_they_should() -> None:
    """Two classes of two: ages in between, and categories that stand in the class, are held; all else is not."""
    policy = replace(example_policy("adult"), others=Others.DROP)
    same = {column.name: "x" for column in policy.fields}
    rows = [("20", "m"), ("50", "m"), ("30", "f"), ("50", "f")]
    people = pa.Table.from_pylist([same | {"age": age, "sex": sex} for age, sex in rows])
    strangers = pa.Table.from_pylist(
        [same | {"age": age, "sex": sex} for age, sex in [("25", "f"), ("31", "m"), ("50", "m"), ("51", "f")]]
    )
    bound, quasi = membership.canonical(people, policy)
    file = membership.hulls(np.array([7, 3, 7, 3]), quasi, bound)
    assert membership.rows_that_hold(file, quasi, bound).tolist() == [2, 2, 2, 2]
    outside = membership.canonical(strangers, policy)[1]
    assert membership.rows_that_hold(file, outside, bound).tolist() == [2, 0, 2, 0]
    assert membership.twins(quasi, outside, bound) == 0.25


def test_numbers_are_shown_for_people() -> None:
    """Counts with commas, other numbers with four digits, absent ones as a dash."""
    assert [shown(value) for value in (30162, 0.0150123, 12345.6, None, True)] == [
        "30,162",
        "0.01501",
        "12,346",
        "-",
        "yes",
    ]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The message names the file below the data folder and not the folder."""
    with pytest.raises(MissingDataError, match=r"adult/adult\.csv is not below"):
        data_path(ADULT, {VARIABLE: str(tmp_path)})


def test_the_constructions_are_measured_and_refusals_listed(data: Path, tmp_path: Path) -> None:
    """A small feed, each card holder's rows apart; what a construction does not take is there in its own words."""
    results = ["--results", str(tmp_path / "results"), "--date", "2024-03-01"]
    assert heterogeneous.main(["--data", "sparkov", "--rows", "40", "--k", "3", *results]) == 0
    record = json.loads((tmp_path / "results" / "heterogeneous_sparkov_40.json").read_text())
    measured, refused = (table["rows"] for table in record["tables"])
    assert {row["construction"] for row in [*measured, *refused]} == set(heterogeneous.STARTS)
    assert "numeric quasi-identifiers only" in str(refused)
    assert all(0 < row["GCP searched"] <= 1.05 * row["GCP alone"] for row in measured)


def test_heights_of_a_hierarchy_file(tmp_path: Path) -> None:
    """The share of the tree's height at which values meet: brothers half-way, strangers at the root."""
    path = tmp_path / "tree.csv"
    path.write_text("a;x;*\nb;x;*\nc;y;*\n", encoding="utf-8")
    height = hierarchy_height(path, ["a", "b", "c"])
    assert [height(np.array(codes, dtype=np.int32)) for codes in ([1], [0, 1], [0, 2], [0, 1, 2])] == [
        0,
        0.5,
        1,
        1,
    ]


def test_the_tree_is_measured_beside_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that can be had everywhere and one that cannot; a large intake by both cuts."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(class_search, "PART_SIZE", 200)
    given = ["--people", "600", "--sets", "demo", "adult", "--budgets", "20", "--founded"]
    assert tree_cut.main([*given, "--results", str(tmp_path)]) == 0
    record = json.loads((tmp_path / "tree_cut.json").read_text(encoding="utf-8"))
    assert len(record["skipped"]) == 1
    (row,) = record["tables"][-1]["rows"]
    assert row["people"] == 600
    assert row["tree"] != row["tour"]
    assert row["ratio"] == pytest.approx(row["tree"] / row["tour"])
    monkeypatch.setattr(founding, "PART", 300)
    monkeypatch.setattr(founding, "PIECE", 100)
    pieces = {cut: tree_cut.founded(600, cut) for cut in ("tree", "k-d")}
    assert pieces["tree"].pieces > pieces["k-d"].pieces == 2
    assert all(0 < each.loss < 1 for each in pieces.values())


def test_the_benchmark_of_shards_counts_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratios are of the losses that stand beside them; a missing set is told; a plan loses less than chance."""
    monkeypatch.delenv(VARIABLE, raising=False)
    given = ["--sets", "adult", "demo", "newcomers", "--people", "900", "900", "600", "--shards", "3"]
    assert shards.main([*given, "--evaluations", "20", "--results", str(tmp_path)]) == 0
    record = json.loads((tmp_path / "shards.json").read_text(encoding="utf-8"))
    assert len(record["skipped"]) == 1
    rows = {row["cut"].split(":")[0]: row for row in record["tables"][0]["rows"]}
    assert list(rows) == ["tour", "tree", "plan", "even k-d", "hash"]
    for row in rows.values():
        for what in ("founding", "merged"):
            for piece in ("tour", "tree"):
                assert row[f"{what} by {piece}"] == pytest.approx(row[what] / rows[piece][what])
    assert rows["plan"]["founding"] < rows["hash"]["founding"]
    assert rows["plan"]["merged"] < rows["hash"]["merged"]
    entered = record["tables"][2]["rows"]
    assert [(row["newcomers"], row["plan"]) for row in entered] == [
        ("as the others", "old"), ("drift", "old"), ("drift", "new"),
    ]  # fmt: skip
    assert all(row["ratio"] == pytest.approx(row["in shards"] / row["one piece"]) for row in entered)


def test_shards_merge_whole_cohorts_of_their_own() -> None:
    """In one piece the loss is that of all rows at once; in parts the mean by rows of what each loses."""
    table = shards.demo_people(300)
    rows = shards.windows_of(300, 1)
    course = shards.Course(table, rows, example_policy("sparkov"), Budget(20.0))
    parts = [np.arange(0, 100), np.arange(100, 300)]
    cohorts = shards.founded(course, parts)
    assert cohorts.min() >= 0
    assert not set(cohorts[:100]) & set(cohorts[100:])
    each = [shards.merged(course, cohorts, [part]) * rows[0].sum() for part in parts]
    # A part by itself is counted over all rows, too.
    assert shards.merged(course, cohorts, parts) == pytest.approx(sum(each) / rows[0].sum())
    lots = np.array_split(np.arange(300), 3)
    assert shards.entered(course, lots, [np.arange(300)]) == pytest.approx(
        np.mean([shards.box_loss(table, shards.founded(course, [lot])) for lot in lots])
    )
