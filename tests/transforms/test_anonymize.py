"""KAnonymize: whatever the elements are, the same releases; bad ones are rejected, never an end of the feed."""

from __future__ import annotations

import datetime as dt
import functools
import logging
import typing
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
import yaml
from apache_beam.testing import test_stream as stepped
from apache_beam.testing.util import assert_that
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import load_policy
from kanonflow.transforms import anonymize as module
from kanonflow.transforms.anonymize import BATCH_ROWS, GatherBatches, KAnonymize
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.protections import needed_kernels
from kanonflow.transforms.rows.element_rows import rows_to_table
from kanonflow.transforms.rows.elements import COMPRESSED_ROWS, RawBatch, from_ipc, to_ipc
from kanonflow.transforms.secret.seeds import Secret, SecretError
from kanonflow.transforms.sinks.durable_boundary import durable_boundary
from kanonflow.transforms.solver_check import check_solver
from kanonflow.transforms.windows import solve_windows
from kanonflow.transforms.windows.solve_windows import SolveWindows
from tests.driven_partitions import DrivenPartitions
from tests.runners import bounded_pipeline, streaming_pipeline
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, feed_policy, hourly, row

pytestmark = pytest.mark.thorough

POLICY = feed_policy(max_delay="1h")
COLUMNS = ("who", "when", "age", "job", "town", "amount", "reference")
FEED = hourly(3, 9, 12, seed=2)
POLICY_TEXT = "version: 1\nk: 3\nfields: {a: {role: quasi, type: categorical}, b: {role: insensitive}}\n"


class Payment(NamedTuple):
    """A record as a typed tuple."""

    who: str
    when: dt.datetime
    age: int
    job: str
    town: str
    amount: Decimal
    reference: str


def typed(each: Row) -> Payment:
    """A row with values of their own types."""
    return Payment(
        str(each["who"]),
        dt.datetime.fromisoformat(str(each["when"])),
        int(str(each["age"])),
        str(each["job"]),
        str(each["town"]),
        Decimal(str(each["amount"])),
        str(each["reference"]),
    )


TABLE = pa.table(
    [pa.array([each[name] for each in FEED], pa.string()) for name in COLUMNS], names=list(COLUMNS)
)
ELEMENTS: dict[str, Sequence[Any]] = {
    "dicts": FEED,
    "typed dicts": [typed(each)._asdict() for each in FEED],
    "rows": [beam.Row(**typed(each)._asdict()) for each in FEED],
    "named tuples": [typed(each) for each in FEED],
    "record batches": TABLE.to_batches(max_chunksize=5),
    "tables": [TABLE.slice(0, 11), TABLE.slice(11)],
    "raw batches": [RawBatch("a", to_ipc(TABLE.slice(0, 7))), RawBatch("b", to_ipc(TABLE.slice(7)))],
}


def expected(policy: Policy = POLICY) -> list[str]:
    """Ids and rows of the releases that the step makes in memory."""
    step = DrivenPartitions(bound_feed(policy), SECRET)
    step.send(FEED)
    step.finish()
    return sorted(map(shown, step.released))


def shown(release: Any) -> str:
    """A release as text that compares."""
    return f"{release.release_id} {release.window_start} {from_ipc(release.ipc).to_pylist()}"


def _releases(found: list[Any]) -> None:
    assert sorted(map(shown, found)) == expected()


def _rejections(*wanted: tuple[str, str | None]) -> Any:
    def check(found: list[Any]) -> None:
        records = [(record["reason"], record["field"]) for each in found for record in each.records]
        # The feed itself has people with too many rows.
        records = [record for record in records if record[0] != "individual_over_limit"]
        assert sorted(records, key=str) == sorted(wanted, key=str)

    return check


@pytest.mark.parametrize("kind", ELEMENTS)
def test_every_kind_of_element_gives_the_same_releases(kind: str) -> None:
    """dicts, beam.Row, NamedTuples, Arrow batches and tables, batches of the sources."""
    schema = TABLE.schema if kind in ("record batches", "tables", "raw batches") else None
    with bounded_pipeline() as pipeline:
        records = pipeline | beam.Create(ELEMENTS[kind])
        out = records | KAnonymize(POLICY, SECRET, input_schema=schema, text=schema is not None)
        assert_that(out.released, _releases)


def test_no_elements_give_no_output() -> None:
    """An empty collection is no error."""
    with bounded_pipeline() as pipeline:
        out = pipeline | beam.Create([]) | KAnonymize(POLICY, SECRET)
        for name, collection in out._asdict().items():
            assert_that(collection, _rejections() if name == "rejected" else _nothing, label=name)


def _nothing(found: list[Any]) -> None:
    assert found == []


def test_a_batch_without_rows_gives_no_output() -> None:
    """Nor does a batch that holds broken lines only: they are rejected."""
    broken = {
        "reason": "unparseable",
        "field": None,
        "message": "x",
        "window_end": None,
        "source": "f",
        "row": {},
    }
    batches = [RawBatch("a", to_ipc(TABLE.slice(0, 0))), RawBatch("b", to_ipc(TABLE.slice(0, 0)), (broken,))]
    with bounded_pipeline() as pipeline:
        out = (
            pipeline | beam.Create(batches) | KAnonymize(POLICY, SECRET, input_schema=TABLE.schema, text=True)
        )
        assert_that(out.released, _nothing, label="released")
        assert_that(out.rejected, _rejections(("unparseable", None)), label="rejected")


def test_bad_records_are_rejected_and_the_others_released() -> None:
    """A wrong type, a missing person, a time that no calendar has: one rejected row each."""
    bad = [
        row(900, 1, 0.5, age="old"),
        row(901, 1, 0.5) | {"who": None},
        {name: value for name, value in row(903, 1, 0.5).items() if name != "when"},
        {**row(904, 1, 0.5), "when": MAX_TIMESTAMP},
        row(905, 1, 0.5, when="9999-12-31T23:00:00"),
        {**row(906, 1, 0.5), "age": float("nan")},
    ]
    wanted = [("bad_value", "age")] * 2 + [("bad_value", "when")] * 2
    wanted += [("missing_value", "who"), ("missing_value", "when")]
    with bounded_pipeline() as pipeline:
        out = pipeline | beam.Create([*FEED, *bad]) | KAnonymize(POLICY, SECRET)
        assert_that(out.released, _releases, label="released")
        assert_that(out.rejected, _rejections(*wanted), label="rejected")


def test_a_record_with_half_a_character_is_rejected() -> None:
    """Text that neither Arrow nor Avro can carry (JSON can) costs its own record only, which is kept readable."""
    table, broken, _ = rows_to_table([FEED[0], FEED[1] | {"town": "B\ud800"}], bound_feed(POLICY))
    assert table.num_rows == 1
    assert [(each["reason"], each["field"], each["row"]["town"]) for each in broken] == [
        ("unparseable", "town", "B\\ud800")
    ]


def test_a_policy_may_be_given_as_its_path_or_as_a_mapping(tmp_path: Path) -> None:
    """Of a YAML file, and what that would hold; what is neither is refused, before anything runs."""
    (tmp_path / "policy.yaml").write_text(POLICY_TEXT)
    by_path = KAnonymize(str(tmp_path / "policy.yaml"), SECRET)
    assert by_path.bound == KAnonymize(load_policy(tmp_path / "policy.yaml"), SECRET).bound
    assert KAnonymize(tmp_path / "policy.yaml", SECRET).bound == by_path.bound
    mapping = yaml.safe_load(POLICY_TEXT)
    assert KAnonymize(mapping | {"name": "policy"}, SECRET).bound == by_path.bound
    table = pa.table({"a": list("xyzxyz"), "b": list("123456")})
    assert anonymize_table(table, mapping, SECRET).released.num_rows == 6
    with pytest.raises(PolicyError, match="fields"):
        KAnonymize({"k": 3}, SECRET)
    with pytest.raises(PolicyError, match="expected a Policy, the path of one's file or a mapping, not int"):
        KAnonymize(3, SECRET)  # type: ignore[arg-type]
    with pytest.raises(
        PolicyError, match="input_schema: expected an Arrow schema or a type of records, not dict"
    ):
        KAnonymize(POLICY, SECRET, input_schema=dict)


SECRETIVE = "Quetzal"
"""A value of a row, which no log holds."""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"age": SECRETIVE},
            "12 of the last 12 rows do not fit the policy and are rejected: age bad_value 12.",
        ),
        (
            {"when": None},
            "12 of the last 12 rows do not fit the policy and are rejected: when missing_value 12.",
        ),
        (
            {"who": "p1", "town": SECRETIVE},
            "none of the 12 rows of the windows that were closed was released:",
        ),
    ],
)
def test_a_pipeline_that_releases_nothing_says_so_loudly(
    change: dict[str, str | None], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of dicts, too, whose rejected rows nobody may ever look at: one error in the log, without a value of a row."""
    rows = [row(number, number, 0.5) | change for number in range(12)]
    with caplog.at_level(logging.ERROR), bounded_pipeline() as pipeline:
        pipeline | beam.Create([rows]) | beam.FlatMap(list) | KAnonymize(POLICY, SECRET)
    (said,) = [
        record.getMessage() for record in caplog.records if record.name.startswith("kanonflow.transforms")
    ]
    assert said.startswith(words)
    assert SECRETIVE not in caplog.text


def test_a_pipeline_that_releases_something_is_quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Also where one row does not fit."""
    rows = [row(number, number, 0.5, age=None if number == 5 else "40") for number in range(12)]
    with caplog.at_level(logging.ERROR), bounded_pipeline() as pipeline:
        pipeline | beam.Create([rows]) | beam.FlatMap(list) | KAnonymize(POLICY, SECRET)
    assert not [record for record in caplog.records if record.name.startswith("kanonflow.transforms")]


@pytest.mark.parametrize(
    ("secret", "mend"),
    [
        ("hunter2" * 8, r"not str; give SecretFile\(path\) of its file"),
        (b"hunter2" * 8, r"not bytes; give a key of 32 random bytes: Secret\(key\)"),
        (Path("hunter2"), r"give a path: SecretFile\(path\)"),
        (None, "not NoneType"),
        (Secret, "not the class Secret"),
    ],
)
def test_a_wrong_secret_is_refused_at_construction(secret: Any, mend: str) -> None:
    """Not by a worker; the error shows nothing of it."""
    for make in (
        lambda: KAnonymize(POLICY, secret),
        lambda: anonymize_table(TABLE, POLICY, secret, text=True),
    ):
        with pytest.raises(SecretError, match=mend) as raised:
            make()
        assert "hunter2" not in str(raised.value)


class Reading(NamedTuple):
    """A record whose type tells what no policy says."""

    who: int
    when: dt.datetime
    age: int
    job: str
    town: str
    amount: float
    reference: int


UNTYPED = feed_policy(others="refuse")
UNTYPED = replace(UNTYPED, fields=tuple(replace(field, value=None) for field in UNTYPED.fields))


def readings(count: int = 12) -> list[Reading]:
    """Rows of one hour."""
    when = dt.datetime.fromtimestamp(START / 1000, dt.UTC)
    return [Reading(who, when, 20 + who, "baker", "Bonn", who / 2, 10 * who) for who in range(count)]


@pytest.mark.parametrize("kind", ["named tuples", "rows"])
def test_the_policy_is_bound_to_the_type_of_the_elements(kind: str) -> None:
    """Numbers are published as numbers, without a schema and without ``as``."""
    rows = [each if kind == "named tuples" else beam.Row(**each._asdict()) for each in readings()]
    anonymize = KAnonymize(UNTYPED, SECRET)
    with bounded_pipeline() as pipeline:
        out = pipeline | beam.Create(rows) | anonymize
        assert_that(out.released, _numbers)
    assert anonymize.bound.canonical_schema.field("amount").type == pa.float64()
    if kind == "named tuples":
        assert KAnonymize(UNTYPED, SECRET, input_schema=Reading).bound == anonymize.bound


def _numbers(found: list[Any]) -> None:
    (release,) = found
    rows = from_ipc(release.ipc)
    assert sorted(rows.column("amount").to_pylist()) == [each.amount for each in readings()]
    assert sorted(rows.column("reference").to_pylist()) == [each.reference for each in readings()]


def test_a_type_that_does_not_fit_is_refused_before_anything_runs() -> None:
    """A renamed field is named at construction; so is a binding that was read too early."""
    renamed = [
        beam.Row(**{("wage" if name == "amount" else name): value for name, value in each._asdict().items()})
        for each in readings()
    ]
    with bounded_pipeline() as pipeline:
        records = pipeline | beam.Create(renamed)
        with pytest.raises(PolicyError, match="does not have: amount") as raised:
            _ = records | KAnonymize(UNTYPED, SECRET)
        assert "input fields without a role: wage" in str(raised.value)
        early = KAnonymize(UNTYPED, SECRET)
        assert early.bound.canonical_schema.field("amount").type == pa.string()
        with pytest.raises(
            PolicyError, match=r"read \.bound after the transform is applied, or give input_schema=Reading"
        ):
            _ = pipeline | "Typed" >> beam.Create(readings()) | "Early" >> early
        _ = records | beam.Map(print)


def test_something_that_is_no_record_is_an_error_of_the_program() -> None:
    """The message names the type and no value."""
    with pytest.raises(TypeError, match=r"not set$"):
        rows_to_table([{"a value"}], bound_feed(POLICY))


def test_fields_that_the_policy_does_not_name_are_not_read() -> None:
    """Nor identifiers."""
    table = rows_to_table([{"who": "p1", "secret": "x"}], bound_feed(feed_policy(people=False))).table
    assert "secret" not in table.column_names
    assert "who" not in table.column_names


def test_a_long_bundle_holds_the_watermark_for_its_oldest_record() -> None:
    """Records are gathered into batches; a batch stands at the time of its oldest one, or its window would close."""
    count = BATCH_ROWS + 10
    rows = [row(number, number, 5.5 if number else 0.5) for number in range(count)]
    first, later = Timestamp(START // 1000 + 1), Timestamp((START + 5 * HOUR) // 1000 + 60)
    step = GatherBatches(bound_feed(POLICY))
    step.start_bundle()
    stamps: list[Any] = []
    for number, each in enumerate(rows):
        stamps += [output.timestamp for output in step.process(each, later if number else first)]
    stamps += [output.timestamp for output in step.finish_bundle()]
    assert stamps == [first, later]


def test_a_large_feed_is_compressed_between_steps_of_one_process() -> None:
    """What a copy of the step hands on after so many bytes takes less, and is the same rows; other copies compress
    nothing."""
    rows = [row(number, number % 50, 0.5) for number in range(3 * COMPRESSED_ROWS)]
    batch = RawBatch("a", to_ipc(rows_to_table(rows, bound_feed(POLICY)).table))
    handed: dict[int | None, list[bytes]] = {}
    for plain in (None, 0, 1):
        step = module._ClassifyAndSplit(bound_feed(POLICY), SECRET, plain=plain)
        step.setup()
        handed[plain] = [ipc for _ in range(2) for _, (_, ipc, _) in step.process(batch)]
    assert len(set(handed[None])) == len(set(handed[0])) == 1
    assert handed[1] == [handed[None][0], handed[0][0]]
    assert len(handed[0][0]) < len(handed[None][0]) / 2
    assert from_ipc(handed[0][0]).equals(from_ipc(handed[None][0]))


def test_compressed_rows_make_the_same_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a pipeline whose batches are compressed from the first row."""
    monkeypatch.setattr(module, "PLAIN_BYTES", 0)
    monkeypatch.setattr(module, "COMPRESSED_ROWS", 1)
    compressed: list[bool] = []

    def noted(rows: Any, **named: Any) -> bytes:
        compressed.append(named.get("compressed", False))
        return to_ipc(rows, **named)

    monkeypatch.setattr(module, "to_ipc", noted)
    with bounded_pipeline() as pipeline:
        out = pipeline | beam.Create(FEED) | KAnonymize(POLICY, SECRET)
        assert_that(out.released, _releases)
    assert any(compressed)


def test_outputs_stand_in_the_window_that_closed() -> None:
    """Windowed again, a release, its metrics and its rejected rows are found in the window they belong to."""
    rows = [row(number, number, 0.5) for number in range(5)] + [row(10, 1, 2.5)]
    stream = stepped.TestStream()
    for hour, some in enumerate([rows[:5], [], rows[5:]]):
        stream.add_elements(some)
        stream.advance_watermark_to(Timestamp((START + (hour + 1) * HOUR) // 1000 + 1))
    hours = {}
    with streaming_pipeline() as pipeline:
        out = pipeline | stream.advance_watermark_to_infinity() | KAnonymize(feed_policy(), SECRET)
        for name, collection in out._asdict().items():
            hours[name] = collection | f"Hour of {name}" >> beam.ParDo(_HourOf())
        for name, wanted in (("released", [0]), ("metrics", [0, 2]), ("rejected", [2])):
            assert_that(hours[name], _equals(wanted), label=name)


class _HourOf(beam.DoFn):
    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> typing.Iterator[int]:
        yield (window.start.micros // 1000 - START) // HOUR


def _equals(wanted: list[int]) -> Any:
    def check(found: list[int]) -> None:
        assert sorted(found) == wanted

    return check


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"solver": "magic"}, "solver.method: with protect: individual it must be one of auto"),
        ({"solver": "certify"}, "solver.method: with protect: individual"),
        ({"solver": {"start": "kd-leaves"}}, "solver.start: with protect: individual"),
        ({"solver": {"start": "one-class"}, "protect": "row"}, "solver.start: with protect: row"),
        ({"solver": {"loss": "entropy"}, "protect": "row"}, "solver.loss: .* one of ncp, sil"),
        ({"solver": {"loss": "entropy"}}, "solver.loss: .* one of ncp, sil"),
        ({"solver": {"loss": "sil", "method": "pass-through"}}, "solver.loss: .* this method .* one of ncp"),
        ({"solver": {"loss": "sil", "method": "pass-through"}, "protect": "row"}, "solver.loss"),
        ({"solver": "paper-local-search"}, "solver.method: with protect: individual"),
        ({"solver": {"thread": 2}}, "solver.thread: unknown key; did you mean threads?"),
        ({"solver": {"method": "kab", "star": 2}}, "solver.star: unknown key; did you mean stars?"),
        ({"solver": {"stars": 2}}, "solver.stars: is a parameter of black-hole, kab, not of auto"),
        (
            {"solver": {"method": "kab", "population": 9}},
            "solver.population: is a parameter of kgen, not of kab",
        ),
        ({"solver": {"method": "kab", "stars": 2.5}}, "solver: stars must be a whole number"),
        ({"solver": {"start": "kab", "stars": 0}}, "solver: a population needs at least 1 star"),
        ({"k": 300}, "k: the solver takes at most 255"),
    ],
)
def test_a_solver_that_cannot_serve_is_refused_before_it_runs(head: dict[str, Any], message: str) -> None:
    """Not in a timer, in the middle of a feed."""
    for make in (check_solver, lambda policy: KAnonymize(policy, SECRET)):
        with pytest.raises(PolicyError, match=message):
            make(feed_policy(**head))


def test_a_policy_that_is_bound_is_neither_bound_nor_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command binds and checks before it makes a directory; the transform takes what came of it."""
    asked = []
    monkeypatch.setattr(module, "check_solver", asked.append)
    bound = bound_feed(POLICY)
    assert KAnonymize(bound, SECRET).bound is bound
    assert asked == []
    KAnonymize(POLICY, SECRET)
    assert asked == [POLICY]


@pytest.mark.parametrize("loss", ["ncp", "sil"])
@pytest.mark.parametrize(("protect", "shape"), [("row", "row_graph"), ("individual", "classes")])
def test_workers_load_the_kernels_of_the_policys_loss(
    loss: str, protect: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first window, and once a process: a search for another loss would compile in a timer."""
    asked: list[tuple[Any, ...]] = []
    afresh = functools.cache(solve_windows._load_kernels.__wrapped__)
    monkeypatch.setattr(solve_windows, "_load_kernels", afresh)
    monkeypatch.setattr(needed_kernels, "warm_up", lambda *of: asked.append(of))
    ahead: list[tuple[str, ...]] = []
    monkeypatch.setattr(solve_windows, "compile_ahead", lambda sets, told=None: ahead.append(sets))
    policy = feed_policy(protect=protect, solver={"loss": loss, "evaluations_per_row": 20})
    for _ in range(2):
        SolveWindows(bound_feed(policy), SECRET, 1).setup()
    assert [of[:4] for of in asked] == [(shape, False, False, loss)]
    assert ahead == [(f"{shape} {loss}",)]


@pytest.mark.parametrize("method", ["auto", "iterated-local-search", "l-greedy", "pass-through"])
@pytest.mark.parametrize("protect", ["row", "individual"])
def test_every_method_that_is_not_refused_runs(method: str, protect: str) -> None:
    """Two windows, cold and warm, by another scale of widths than difference; the loss told is the one searched by."""
    scale = {"scale": "log", "log_from": 10}
    policy = feed_policy(
        protect=protect, running=True, age=scale, solver={"method": method, "evaluations_per_row": 20}
    )
    check_solver(policy)
    step = DrivenPartitions(bound_feed(policy), SECRET)
    step.send(hourly(2, 12, 9))
    step.finish()
    assert len(step.released) == 2
    for metrics in step.metrics:
        # Of classes of people, the search counts rows that wait as lost.
        assert metrics["gcp_hull"] == pytest.approx(metrics["loss_end"]) or protect == "individual"
        assert metrics["domains"]["age"].endswith(" running, by log")


@pytest.mark.parametrize("solver", [{"method": "paper-local-search"}, {"loss": "sil"}])
def test_rows_are_released_from_any_search_of_graphs(solver: dict[str, str]) -> None:
    """The paper's own search, and the search for the other loss."""
    policy = feed_policy(protect="row", solver={**solver, "evaluations_per_row": 50})
    check_solver(policy)
    step = DrivenPartitions(bound_feed(policy), SECRET)
    step.send(hourly(2, 12, 9))
    step.finish()
    assert len(step.released) == 2


def test_classes_are_released_from_the_search_for_the_other_loss() -> None:
    """Two windows, cold and warm; what the metrics call the loss is SIL then, and has no bound."""
    policy = feed_policy(solver={"loss": "sil", "evaluations_per_row": 50})
    check_solver(policy)
    step = DrivenPartitions(bound_feed(policy), SECRET)
    step.send(hourly(2, 12, 9))
    step.finish()
    assert len(step.released) == 2


@pytest.mark.parametrize(
    ("runner", "stored"),
    [
        ("FnApiRunner", False),
        ("PortableRunner", False),
        ("DataflowRunner", True),
        ("a.b.DataflowRunner", True),
    ],
)
def test_the_boundary_before_the_sinks_is_the_runners(runner: str, stored: bool) -> None:
    """Dataflow stores what a sink reads; local runners fail as a whole, and need nothing."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    numbers = pipeline | beam.Create([1, 2])
    after = numbers | durable_boundary(runner)
    assert (after is not numbers) == stored
