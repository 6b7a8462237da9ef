"""A feed whose payload nobody measured: its first windows are, and the log says it, of whatever runner."""

from __future__ import annotations

import gc
import logging
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.testing import test_stream as stepped
from apache_beam.utils.timestamp import Timestamp

from kanonflow.pipelines import cli
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.risks import first_windows
from kanonflow.transforms.risks.check_record import UncheckedError
from kanonflow.transforms.risks.first_windows import MOST_WINDOWS, FirstLook, FirstWindows
from kanonflow.transforms.risks.payload_risks import PayloadRisks
from tests.runners import bounded_pipeline, streaming_pipeline
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, canonical, feed_policy, hourly, row

KEY = b"partition"
POLICY = feed_policy()
ACCOUNT = "Quetzal"
"""Begins each person's account: a value that no log holds."""


def hours(count: int, people: int = 40, **head: Any) -> list[Row]:
    """Everybody has three rows an hour; the reference is an account, one a person."""
    return [
        row(3 * who + each, who, hour + each / 4, reference=f"{ACCOUNT}{who}")
        for hour in range(count)
        for each in range(3)
        for who in range(people)
    ]


def harmless(count: int, people: int = 40) -> list[Row]:
    """The same with one reference for all."""
    return [each | {"reference": "r", "amount": "7.5"} for each in hours(count, people)]


def said_by(run: Callable[[], None], caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    """What the first windows have it say: levels and words."""
    caplog.clear()
    with caplog.at_level(logging.INFO):
        run()
    name = first_windows.__name__
    return [(each.levelno, each.getMessage()) for each in caplog.records if each.name == name]


def look_at(look: FirstLook, rows: Sequence[Row], window: int, key: bytes = KEY) -> int | None:
    return look.took(key, window, canonical(rows, bound_feed(POLICY)))


def test_a_risk_is_said_once_without_a_value_and_nothing_is_held(caplog: pytest.LogCaptureFixture) -> None:
    """At the first window that shows it; the worker hears of it, and so does whoever asked."""
    heard: list[PayloadRisks] = []
    look = FirstWindows(bound_feed(POLICY), heard.append).look()
    high: list[int | None] = []

    def run() -> None:
        high.extend(look_at(look, hours(1), window) for window in range(3))

    ((level, words),) = said_by(run, caplog)
    assert level == logging.WARNING
    assert "fields.reference: one person's" in words
    assert "measured on 120 rows of the first windows, which are released all the same" in words
    assert ACCOUNT not in caplog.text
    assert [each is None or each > 0 for each in high] == [True, True, True]
    assert high[0]
    assert high[1:] == [None, None]
    assert look.holds == 0
    assert [risks.rows for risks in heard] == [120]


def test_what_cannot_be_told_is_said_at_first_and_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    """Six rows a window are too few: the first window says so, and so do eight, and no more are held."""
    look, held = FirstWindows(bound_feed(POLICY)).look(), []

    def run() -> None:
        for window in range(MOST_WINDOWS + 3):
            look_at(look, harmless(1, people=2), window)
            held.append(look.holds)

    said = said_by(run, caplog)
    assert [level for level, _ in said] == [logging.WARNING] * 2
    assert (
        "too few rows to tell of amount, reference, town, measured on 6 rows of the first windows"
        in said[0][1]
    )
    assert f"measured on {6 * MOST_WINDOWS} rows" in said[1][1]
    assert held == [6 * (window + 1) for window in range(MOST_WINDOWS)] + [0, 0, 0]


def test_rows_enough_within_the_limits_are_a_verdict(caplog: pytest.LogCaptureFixture) -> None:
    """No warning, and nothing is held."""
    look = FirstWindows(bound_feed(POLICY)).look()
    rng = np.random.default_rng(3)
    rows = [
        each
        | {"reference": f"r{rng.integers(9)}", "town": f"t{rng.integers(9)}", "amount": f"{rng.integers(9)}"}
        for each in hours(6, people=400)
    ]
    ((level, words),) = said_by(lambda: print(look_at(look, rows, 0)), caplog)
    assert level == logging.INFO, words
    assert words.startswith("payload within its limits: town, amount, reference, measured on 7,200 rows of")
    assert look.holds == 0


def test_it_looks_again_when_it_has_twice_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at each window of each partition: of many partitions each window is small."""
    looked: list[int] = []
    measure = first_windows.payload_risks
    monkeypatch.setattr(
        first_windows,
        "payload_risks",
        lambda rows, bound: looked.append(rows.num_rows) or measure(rows, bound),
    )
    look = FirstWindows(bound_feed(POLICY)).look()
    for partition in range(40):
        look_at(look, harmless(1, people=1), 0, b"%d" % partition)
    assert looked == [3, 6, 12, 24, 48, 96]


def test_a_retry_does_not_make_rows_of_a_window_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubled rows would be alone in nothing."""
    look = FirstWindows(bound_feed(POLICY)).look()
    for _ in range(3):
        look_at(look, harmless(1, people=2), 0)
    assert look.holds == 6
    monkeypatch.setattr(first_windows, "MOST_ROWS", 10)
    look_at(look, harmless(1, people=20), 1)
    assert look.holds == 0


def test_what_goes_wrong_holds_up_no_release(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said by its kind, whose text may hold a value."""

    def fail(*_: Any) -> PayloadRisks:
        raise ValueError(ACCOUNT)

    monkeypatch.setattr(first_windows, "payload_risks", fail)
    look = FirstWindows(bound_feed(POLICY)).look()
    ((level, words),) = said_by(lambda: print(look_at(look, hours(1), 0)), caplog)
    assert (level, words.endswith("could not be measured (ValueError)")) == (logging.ERROR, True)
    assert ACCOUNT not in caplog.text
    assert look.holds == 0


def test_a_full_disk_holds_up_no_release(caplog: pytest.LogCaptureFixture) -> None:
    """Nor are rows held because what was measured could not be kept."""

    def fail(*_: Any) -> None:
        raise OSError(ACCOUNT)

    look = FirstWindows(bound_feed(POLICY), fail).look()
    said = said_by(lambda: print(look_at(look, hours(1), 0)), caplog)
    assert said[-1][1].endswith("could not be measured (OSError)")
    assert ACCOUNT not in caplog.text
    assert look.holds == 0


def test_copies_of_a_step_share_a_look_and_a_job_that_is_over_leaves_none() -> None:
    """A worker works on several bundles at a time, each with a copy of the step."""
    first, other = FirstWindows(bound_feed(POLICY)), FirstWindows(bound_feed(POLICY))
    look = first.look()
    copy = pickle.loads(pickle.dumps(first)).look()
    look_at(look, harmless(1, people=2), 0)
    assert (copy.holds, other.look().holds) == (6, 0)
    del look
    gc.collect()
    assert copy.holds == first.look().holds == 6
    del copy
    gc.collect()
    assert first.look().holds == 0


def test_it_is_said_once_where_no_copy_of_the_step_stays(caplog: pytest.LogCaptureFixture) -> None:
    """Of a feed so quiet that a worker lets go of its step after each window: rows are lost, no words."""
    first = FirstWindows(bound_feed(POLICY))

    def run() -> None:
        for window in range(MOST_WINDOWS + 3):
            look_at(first.look(), harmless(1, people=2), window)
            gc.collect()

    said = said_by(run, caplog)
    assert ["measured on 6 rows" in words for _, words in said] == [True, True]


def run_bounded(rows: Sequence[Row], heard: list[int] | None = None, **more: Any) -> Any:
    with bounded_pipeline() as pipeline:
        pipeline | beam.Create([list(rows)]) | beam.FlatMap(list) | KAnonymize(POLICY, SECRET, **more)
    return pipeline.result


def test_a_pipeline_of_ones_own_says_it(caplog: pytest.LogCaptureFixture) -> None:
    """Of dicts, without anything asked for; a gauge counts what is above its limit."""
    results: list[Any] = []
    ((level, words),) = said_by(lambda: results.append(run_bounded(hours(2))), caplog)
    assert level == logging.WARNING
    assert "fields.reference: one person's" in words
    assert ACCOUNT not in caplog.text
    found = results[0].metrics().query(MetricsFilter().with_name("payload_over_limit"))["gauges"]
    assert [each.result.value for each in found] == [words.count("  - ")]


def test_before_the_first_window_goes_out(caplog: pytest.LogCaptureFixture) -> None:
    """Stepwise: the first window of a stream is measured when it is due, and with it all is said."""
    rows = hours(3)
    source = stepped.TestStream()
    for hour in range(3):
        source.add_elements(rows[hour * 120 : (hour + 1) * 120])
        source.advance_watermark_to(Timestamp((START + (hour + 1) * HOUR) / 1000))
    source.advance_watermark_to_infinity()

    def run() -> None:
        with streaming_pipeline() as pipeline:
            pipeline | source | KAnonymize(POLICY, SECRET)

    ((_, words),) = said_by(run, caplog)
    assert "measured on 120 rows" in words


def test_where_every_risk_is_accepted_nothing_is_measured(caplog: pytest.LogCaptureFixture) -> None:
    """Somebody answers for it."""
    fields = {
        "who": "individual",
        "when": "time",
        "age": {"role": "quasi", "type": "numeric", "as": "int"},
        "reference": {"role": "sensitive", "accept_risk": "agreed"},
    }
    policy = {"version": 1, "k": 3, "window": "1h", "cohort": "window", "others": "drop", "fields": fields}

    def run() -> None:
        with bounded_pipeline() as pipeline:
            pipeline | beam.Create(hours(1)) | KAnonymize(policy, SECRET)

    assert said_by(run, caplog) == []


@pytest.fixture
def checked(tmp_path: Path) -> Path:
    """A policy, and what the check of a sample kept of it."""
    (tmp_path / "p.yaml").write_text(
        "version: 1\nk: 3\nwindow: 1h\ncohort: window\nothers: drop\nfields:\n"
        "  who: {role: individual}\n  when: {role: time}\n  age: {role: quasi, type: numeric, as: int}\n"
        "  amount: {role: sensitive, as: double}\n"
    )
    lines = [f"p{each['who']},{each['when']},{each['age']},{each['amount']}" for each in hourly(3, 60, 40)]
    (tmp_path / "s.csv").write_text("\n".join(["who,when,age,amount", *lines]) + "\n")
    check = ["policy", "check", str(tmp_path / "p.yaml"), "--input", str(tmp_path / "s.csv")]
    assert cli.main([*check, "--for", str(tmp_path / "out")]) == 0
    return tmp_path


def test_a_verdict_of_a_check_stands_for_it(checked: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is measured again, and the log says on what it stands."""
    verdict = checked / "out/restricted/check.json"

    def run() -> None:
        with bounded_pipeline() as pipeline:
            anonymize = KAnonymize(str(checked / "p.yaml"), SECRET, verdict=verdict)
            pipeline | beam.Create(hours(1)) | anonymize

    assert said_by(run, caplog) == []
    assert "no payload above its limits, as measured on 180 rows at 2" in caplog.text
    assert str(verdict) in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("k: 3", "k: 4"), "is of another policy, or of this one before it was changed"),
        (("amount: {role: sensitive", "amount: {role: insensitive"), "is of another policy"),
        (None, "nobody has measured"),
        ("damaged", "is damaged"),
    ],
)
def test_a_verdict_of_another_policy_is_refused_with_the_mend(
    checked: Path, change: Any, message: str
) -> None:
    """When the pipeline is put together; and so is one that is not there."""
    verdict, path = checked / "out/restricted/check.json", checked / "p.yaml"
    if change is None:
        verdict.unlink()
    elif change == "damaged":
        verdict.write_text("{}")
    else:
        path.write_text(path.read_text().replace(*change))
    with pytest.raises(UncheckedError, match=message) as caught:
        KAnonymize(str(path), SECRET, verdict=str(verdict))
    assert "kanonflow policy check POLICY --input SAMPLE --for DIR" in str(caught.value)
    assert "or none, and the first windows are measured" in str(caught.value)
