"""Every number of a page is that of the metrics, worked out here once more from the files alone."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
from collections import Counter
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from kanonflow.pipelines.analysis.band_counts import bands_of
from kanonflow.pipelines.analysis.released_table import read_release
from kanonflow.pipelines.pictures.released_sample import released_sample
from kanonflow.pipelines.report.published_fields import published_fields
from kanonflow.pipelines.report.report import ReportInput, write_report
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.release_format import RELEASE_FORMATS
from tests.page_checks import check_page
from tests.page_reading import ReadPage, read_page
from tests.pipelines.report.told_runs import (
    FIRST,
    MODES,
    SCHEMAS,
    exact_schema,
    ninety,
    record,
    release_schema,
    released_rows,
    write_avro,
    write_parquet,
    write_run,
)

MOST_BYTES = 500_000


def pages(out: Path) -> tuple[ReadPage, ReadPage]:
    """Report and certificate, made anew."""
    inside, public = write_report(str(out))
    return read_page(Path(inside).read_text()), read_page(Path(public).read_text())


def weighted(records: list[dict[str, Any]], name: str) -> float:
    """Mean over released rows."""
    told = [each for each in records if each[name] is not None]
    return sum(each[name] * each["rows_released"] for each in told) / sum(
        each["rows_released"] for each in told
    )


def together(records: list[dict[str, Any]], name: str) -> Counter[int]:
    """Histograms added up."""
    total: Counter[int] = Counter()
    for each in records:
        total.update({int(number): rows for number, rows in each[name].items()})
    return total


@pytest.mark.parametrize("mode", MODES)
def test_every_number_is_that_of_the_metrics(mode: str, tmp_path: Path) -> None:
    """Loss, bound, people, rows by reason, risk, times: exactly, and as they are read."""
    records = ninety(mode)
    released = [each for each in records if each["released"]]
    page, _ = pages(write_run(tmp_path, records))
    tables = page.tables
    assert tables["loss"].column("loss") == [each["gcp"] for each in records]
    assert tables["loss"].column("no answer loses less") == [each["lower_bound"] for each in records]
    told = ["-" if each["gcp"] is None else f"{each['gcp']:.4f}" for each in records]
    assert tables["loss"].shown("loss") == told
    assert tables["loss"].shown("window") == [f"{each['window_end']:%Y-%m-%d}" for each in records]
    assert tables["people"].column("people") == [
        each["individuals"] if each["released"] else None for each in records
    ]
    rows = tables["rows"]
    assert rows.column("released") == [each["rows_released"] for each in records]
    for reason in ("too_few_peers", "awaits_intake"):
        assert rows.column(f"waiting: {reason}") == [each["waiting_reasons"][reason] for each in records]
    for reason in ("late", "individual_over_limit"):
        assert rows.column(f"rejected: {reason}") == [each["rows_rejected"][reason] for each in records]
    points = [(each["individuals"], each["gcp"]) for each in released]
    found = tables["people_loss"]
    assert list(zip(found.column("people"), found.column("loss"), strict=True)) == points
    ledger = dict(zip(tables["ledger"].shown(""), tables["ledger"].column("rows"), strict=True))
    assert ledger["releases"] == len(released)
    assert ledger["rows released"] == sum(each["rows_released"] for each in released)
    assert ledger["rows waiting"] == records[-1]["rows_waiting"]
    assert ledger["rows rejected"] == sum(sum(each["rows_rejected"].values()) for each in records)
    assert ledger["rejected: late"] == sum(each["rows_rejected"]["late"] for each in records)
    assert ledger["mean loss"] == pytest.approx(weighted(released, "gcp"), rel=1e-12)
    classes = "rows of a class, over k (C_AVG)"
    assert (classes in ledger) == (mode != "row")
    if classes in ledger:
        assert ledger[classes] == pytest.approx(weighted(released, "c_avg"), rel=1e-12)
    times = dict(zip(tables["times"].shown(""), tables["times"].column("seconds"), strict=True))
    assert times["solving, all windows"] == pytest.approx(sum(each["solve_ms"] for each in records) / 1000)
    assert times["solving, the longest window"] == pytest.approx(
        max(each["solve_ms"] for each in records) / 1000
    )
    check_risk(page, released, mode)


def test_levels_stand_beside_each_field(tmp_path: Path) -> None:
    """Means over released rows, of a run whose releases have them; no column of a run whose have not."""
    draw = random.Random(2)
    levels = [{"age": 1, "city": 0}, {"age": 3, "city": 0}]
    records = [
        record("window", number, draw, levels=each, log=0.25 + number / 4, los=0.01)
        for number, each in enumerate(levels)
    ]
    page, public = pages(write_run(tmp_path, records))
    means = dict(
        zip(page.tables["fields"].shown("field"), page.tables["fields"].column("mean level"), strict=True)
    )
    weights = [each["rows_released"] for each in records]
    assert means["age"] == pytest.approx((weights[0] + 3 * weights[1]) / sum(weights))
    assert means["city"] == 0
    ledger = dict(zip(page.tables["ledger"].shown(""), page.tables["ledger"].column("rows"), strict=True))
    assert ledger["level of generalization (LOG)"] == pytest.approx(weighted(records, "log"))
    assert ledger["level of suppression (LOS)"] == pytest.approx(0.01)
    assert "mean level" not in public.tables["fields"].head
    plain, _ = pages(write_run(tmp_path / "plain", ninety("window", 3)))
    assert "mean level" not in plain.tables["fields"].head


def check_risk(page: ReadPage, released: list[dict[str, Any]], mode: str) -> None:
    """Histograms by row and by person, prosecutor and marketer risk, the fewest candidates of each window."""
    by_what = {"rows": "candidates_of_rows", "people": "candidates_of_people"}
    risk = dict(zip(("rows", "people"), page.tables["risk"].exact, strict=True))
    for what, name in by_what.items():
        counts = together(released, name)
        table = page.tables[name]
        assert dict(zip(table.column("candidates"), table.column(what), strict=True)) == counts
        assert float(risk[what][1]) == counts.total()
        assert float(risk[what][2]) == min(counts)
        assert float(risk[what][4]) == 1 / min(counts)
        marketer = sum(number / each for each, number in counts.items()) / counts.total()
        assert float(risk[what][5]) == pytest.approx(marketer, rel=1e-12)
    fewest = page.tables["candidates"]
    assert fewest.column("in one release") == [each["candidates_min"] for each in released]
    if mode == "lasting":
        assert fewest.column("over the epoch") == [each["epoch_candidates"]["minimum"] for each in released]
        people = [each["individuals"] for each in released]
        below = [each["activity_candidates"]["below_k"] for each in released]
        mean = sum(a * b for a, b in zip(below, people, strict=True)) / sum(people)
        assert page.tables["activity"].column("value")[2] == pytest.approx(mean, rel=1e-12)
        rows = [each["rows_released"] for each in released]
        alone = [each["purchase_candidates"]["alone"] for each in released]
        mean = sum(a * b for a, b in zip(alone, rows, strict=True)) / sum(rows)
        assert page.tables["purchase"].column("value")[3] == pytest.approx(mean, rel=1e-12)
        assert "1 row by its window and amount to 1" in page.text
        assert re.search(r"against, over the epoch: 7\d\.\d% of 400 people released .* 3 windows", page.text)
        changed = sum(each["changed_before_entry"] for each in released)
        assert f"between their first row and their entry: {changed:,}." in page.text
    elif mode == "window":
        told = fewest.column("over five releases, not promised")
        assert told == [each["guaranteed_candidates"] for each in released]
    else:
        assert "neither promised nor measured" in page.text


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("lasting", ("all releases of this epoch", "at most 1/5", "when or how often", "GDPR")),
        (
            "window",
            ("every number of rows that occurs is shared by 5", "Each release is promised alone", "GDPR"),
        ),
        ("row", ("probability exactly 1/5", "Rows of one person that the payload links", "GDPR")),
    ],
)
def test_the_promise_is_told_with_its_numbers(mode: str, words: tuple[str, ...], tmp_path: Path) -> None:
    """Of each mode its own, on both pages, with what it is not."""
    for page in pages(write_run(tmp_path, ninety(mode, 3))):
        for each in words:
            assert each in page.text


@pytest.mark.parametrize("mode", MODES)
def test_a_page_begins_with_four_numbers(mode: str, tmp_path: Path) -> None:
    """Those of the tables below them: the promise, rows, what is not released, and the loss; public ones as they are
    public. A promise that is lost is no number."""
    records = ninety(mode, 5)
    out = write_run(tmp_path, records)
    inside, public = (numbers(Path(path).read_text()) for path in write_report(str(out)))
    released = sum(each["rows_released"] for each in records)
    rejected = sum(sum(each["rows_rejected"].values()) for each in records)
    waiting = sum(records[-1]["waiting_reasons"].values())
    assert inside[0][0] == public[0][0] == "1 in 5"
    assert inside[1] == (f"{released / (released + rejected + waiting):.2%}", inside[1][1])
    assert f"of {released + rejected + waiting:,} rows" in inside[1][1]
    assert inside[2][0] == f"{rejected:,}"
    assert f"{waiting:,} wait" in inside[2][1]
    assert inside[3][0] == f"{weighted([each for each in records if each['released']], 'gcp'):.1%}"
    assert public[1] == (f"{released:,}", "rows are released")
    assert public[2][1].startswith("at least so many rows are rejected")
    (out / "restricted/run.json").write_text(json.dumps({"second_release_of": ".."}))
    assert numbers(Path(write_report(str(out))[0]).read_text())[0][0] == "none"


def numbers(html: str) -> list[tuple[str, str]]:
    """Each number and its words."""
    (found,) = re.findall(r'<ul class="numbers">(.*?)</ul>', html, re.DOTALL)
    plain = [re.sub(r"<(?!/?b>)[^>]*>", "", each) for each in re.findall(r"<li>(.*?)</li>", found)]
    return [tuple(each.removeprefix("<b>").split("</b> ")) for each in plain]


def test_a_run_that_released_nothing_is_told(tmp_path: Path) -> None:
    """Windows without a release, and a directory without a window."""
    records = [each | {"released": False, "rows_released": 0, "gcp": None} for each in ninety("window", 2)]
    out = write_run(tmp_path / "some", records)
    page, public = pages(out)
    assert "Nothing was released." in page.text
    assert page.tables["ledger"].records()["releases"][0] == "0"
    assert page.tables["rows"].column("released") == [0, 0]
    assert "The policy keeps the metrics of this run restricted" in public.text
    page, _ = pages(write_run(tmp_path / "none", []))
    assert "No window has ended yet." in page.text
    assert page.tables["ledger"].records()["rows read"][0] == "0"


def test_partitions_and_parts_of_a_window_are_one_step(tmp_path: Path) -> None:
    """Rows and people are added up, the loss is the mean over rows; what waits is that of each partition's last."""
    draw = random.Random(5)
    end = {"window_end": FIRST}
    many = [
        record("window", 1, draw, partition="aa", release_no=0, **end),
        record("window", 2, draw, partition="aa", release_no=1, **end),
        record("window", 3, draw, partition="bb", release_no=0, **end),
    ]
    page, _ = pages(write_run(tmp_path, many))
    assert page.tables["people"].column("people") == [sum(each["individuals"] for each in many)]
    (loss,) = page.tables["loss"].column("loss")
    assert loss == pytest.approx(weighted(many, "gcp"), rel=1e-12)
    waits = sum(each["waiting_reasons"]["awaits_intake"] for each in many[1:])
    assert page.tables["rows"].column("waiting: awaits_intake") == [waits]
    assert page.tables["ledger"].records()["waiting: awaits_intake"][0] == str(waits)


def test_many_windows_become_few_points(tmp_path: Path) -> None:
    """A stream of years: the page stays small, and nothing is lost of the sums."""
    records = ninety("lasting", 1203)
    out = write_run(tmp_path, records, releases=False)
    inside, _ = write_report(str(out))
    page = read_page(Path(inside).read_text())
    assert len(page.tables["rows"].rows) == 172
    assert sum(filter(None, page.tables["rows"].column("released"))) == sum(
        each["rows_released"] for each in records
    )
    seven = records[14:21]
    assert page.tables["loss"].column("loss")[2] == pytest.approx(weighted(seven, "gcp"), rel=1e-12)
    assert page.tables["people"].column("people")[2] == sum(each["individuals"] for each in seven) / 7
    assert Path(inside).stat().st_size < MOST_BYTES


def test_rows_without_windows_are_one_step(tmp_path: Path) -> None:
    """A policy without a time releases once."""
    draw = random.Random(5)
    only = record("row", 0, draw, window_start=None, window_end=None, linked_candidates=None)
    page, public = pages(write_run(tmp_path, [only]))
    for each in (page, public):
        assert each.tables["loss"].shown("window") == ["all rows"]
    assert "candidates_of_people" not in page.tables  # each row is its own individual


def test_the_closing_table_settings_and_payload_are_told(tmp_path: Path) -> None:
    """What a run over files kept of itself: rows that came into no window, its policy, what it measured."""
    out = write_run(tmp_path, ninety("lasting", 3))
    restricted = out / "restricted"
    summary = {
        "rows_read": 1000,
        "rows_released": 900,
        "rows_waiting": 0,
        "rejected": {"bad_value": 60, "late": 40},
    }
    summary |= {"total_seconds": 12.5, "read_seconds": 2.25, "solve_seconds": 8.0, "publish_seconds": 1.0}
    told = {
        "ended_at": "2024-06-01T12:00:00+00:00",
        "settings": {"window": "1d", "k": "5"},
        "summary": summary,
    }
    (restricted / "summary.json").write_text(json.dumps(told))
    risks = [
        {"field": "amount", "measure": "order", "value": 0.96, "limit": 0.95, "verdict": "accepted"},
        {
            "field": "shop",
            "measure": "one person's",
            "value": None,
            "limit": 0.1,
            "verdict": "too few rows to tell",
        },
    ]
    fields = {"age": {"edges": [30, 60], "rows": [10, 20, 70]}}
    check = {"rows": 1000, "measured_at": "2024-06-01T11:00:00+00:00", "risks": risks, "fields": fields}
    (restricted / "check.json").write_text(json.dumps(check))
    run = {"policy_name": "mine", "accepted_risks": {"amount": "nobody <else> sees it"}}
    (restricted / "run.json").write_text(json.dumps(run))
    page, public = pages(out)
    ledger = page.tables["ledger"].records()
    assert ledger["rows read"] == ["1,000", "100.00%"]
    assert ledger["rejected: bad_value"] == ["60", "6.00%"]
    assert page.tables["settings"].rows == [["window", "1d"], ["k", "5"]]
    assert page.tables["payload"].rows[0] == ["amount", "order", "0.960", "0.950", "accepted"]
    assert page.tables["payload"].column("value") == [0.96, None]
    assert page.tables["accepted"].rows == [["amount", "nobody <else> sees it"]]
    assert page.tables["times"].records()["total (closing table)"] == ["12.5"]
    assert page.tables["times"].records()["the run ended"] == ["2024-06-01 12:00:00 UTC"]
    assert "nobody <else>" not in public.text
    assert page.tables["shape_0"].column("input") == [0.1, 0.2, 0.7]
    assert "shape_0" not in public.tables
    fields["age"]["rows"].pop()
    (restricted / "check.json").write_text(json.dumps(check))
    with pytest.raises(InputError, match=r"check\.json: the value of fields"):
        write_report(str(out))


def test_a_streams_directory_is_told(tmp_path: Path) -> None:
    """It keeps neither policy nor closing table; its releases are in a topic, and what could not be read in files."""
    draw = random.Random(2)
    last = record("window", 3, draw, kind="expiry", released=False, rows_released=0, gcp=None, individuals=0)
    out = write_run(tmp_path, [*ninety("window", 2), last], public=False, releases=False)
    (out / "release").rmdir()
    (out / "restricted/run.json").write_text(
        json.dumps({"policy_name": "streamed", "job": {}, "sink": "topic"})
    )
    schema = json.loads((SCHEMAS / "rejected.avsc").read_text())
    empty = {"message": "", "source": None, "row": {}}
    reasons = ["bad_value"] * 3 + ["late"] * 2 + ["unparseable"]
    write_avro(
        out / "restricted/rejected/some.avro",
        schema,
        [empty | {"reason": each, "field": None, "window_end": None} for each in reasons],
    )
    page, public = pages(out)
    ledger = page.tables["ledger"].records()
    assert [ledger[f"rejected: {each}"][0] for each in ("bad_value", "late", "unparseable")] == [
        "3",
        "2",
        "1",
    ]
    assert ledger["rows rejected"][0] == "6"
    assert ledger["rows waiting"][0] == str(last["rows_waiting"])
    assert "There is no release in this directory" in page.text
    assert "The policy is not kept here" in page.text
    assert "streamed" in page.text
    assert "bad_value" not in public.text


@pytest.mark.parametrize("release_format", RELEASE_FORMATS)
def test_widths_are_those_of_the_rows(release_format: str, tmp_path: Path) -> None:
    """Of ranges in their own unit, of days in days, of sets in values; examples are no value of a row."""
    out = write_run(tmp_path, ninety("window", 1))
    (path,) = (out / "release").iterdir()
    path.unlink()
    write = write_avro if release_format == "avro" else write_parquet
    rows = released_rows(record("window", 0, random.Random(1)), 101)
    write(path.with_suffix(f".{release_format}"), release_schema(), rows)
    page, public = pages(out)
    assert "101 rows in 1 of 1 releases" in page.text
    fields = page.tables["fields"]
    assert fields.shown("field") == ["age", "born", "city", "amount"]
    assert fields.column("median width") == [50, 50, 51, None]
    assert fields.column("90% width") == [90, 90, 91, None]
    assert fields.shown("in") == ["-", "days", "values", "-"]
    example = fields.shown("invented example")
    assert example[:2] == ["30 to 80", "1980-01-01 to 1980-02-20"]
    assert example[2].startswith("one of A, B, C")
    assert "city 1" not in public.text
    assert "city 1" not in " ".join(example)


def test_the_error_expected_of_a_count_is_that_of_the_model_row_by_row(tmp_path: Path) -> None:
    """Of each field, in units that people use; worked out here box by box, band by band."""
    out = write_run(tmp_path, ninety("window", 3))
    told = pages(out)[0].tables["count_errors_by_field"]
    assert told.shown("field") == ["age", "born", "city"]
    released = read_release(out)
    rows = released.arrow().to_pylist()
    boxes: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        boxes.setdefault(repr([row[name] for name in ("window_start", "age", "born", "city")]), []).append(
            place
        )
    normal = [NormalDist().inv_cdf(0.5 + (place + 0.5) / 200) for place in range(100)]
    for at, name in enumerate(("age", "born", "city")):
        column = released.column(name)
        errors = []
        for part in bands_of(name, column).parts:
            cover = column.cover(part.query)
            shares = dict(zip(cover.rows.tolist(), cover.share.tolist(), strict=True))
            counted = sum(shares.values())
            if counted < 0.01 * len(rows):
                continue
            spread = 0.0
            for places in boxes.values():
                share, own = shares.get(places[0], 0.0), len(places)
                spread += 2 * own**2 * share * (1 - share) / (min(own, released.form.k) + 1)
            errors += [each * spread**0.5 / counted for each in normal]
        assert told.column("median error")[at] == pytest.approx(float(np.median(errors)), abs=1e-9)
        assert told.column("90% error")[at] == pytest.approx(float(np.quantile(errors, 0.9)), abs=1e-9)
    assert "narrower than" in told.shown("in bands")[0]
    assert re.search(r"narrower than \d.* (year|day)", told.shown("in bands")[1])
    assert told.shown("in bands")[2] == "value by value"


def test_a_directory_of_the_public_alone_gets_its_certificate(tmp_path: Path) -> None:
    """The same as the run's own."""
    out = write_run(tmp_path, ninety("window", 4))
    _, public = write_report(str(out))
    before = Path(public).read_bytes()
    (out / "restricted").rename(tmp_path / "kept")
    assert write_report(str(out)) == (public,)
    assert Path(public).read_bytes() == before


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    """By name, also where metrics are damaged; nothing is written."""
    with pytest.raises(InputError, match="holds nothing of a run"):
        write_report(str(tmp_path))
    with pytest.raises(InputError, match="on this machine"):
        write_report("gs://bucket/out")
    out = write_run(tmp_path, ninety("window", 2))
    path = next((out / "restricted/metrics").iterdir())
    path.write_bytes(b"Obj\x01 not any more")
    with pytest.raises(InputError, match=path.name):
        write_report(str(out))
    assert not (out / "certificate.html").exists()


def test_a_sample_of_parquet_is_spread_over_its_rows(tmp_path: Path) -> None:
    """They stand in the order of their boxes: the first of them are no sample."""
    rows = released_rows(record("window", 0, random.Random(1)), 1000)
    write_parquet(tmp_path / "a.parquet", release_schema(), rows)
    told = published_fields(released_sample(tmp_path, 50))
    assert 50 <= told.rows <= 60
    age = told.fields[0]
    assert age.median == pytest.approx(500, abs=50)
    assert age.ninth == pytest.approx(900, abs=50)
    assert told.files == told.all_files == 1


def test_junk_is_no_release(tmp_path: Path) -> None:
    """In either format, with restricted/ or without: named, and no page is written."""
    for number, name in enumerate(("a.avro", "a.parquet")):
        out = tmp_path / str(number)
        (out / "release").mkdir(parents=True)
        (out / "release" / name).write_bytes(b"somebody x31y")
        with pytest.raises(InputError, match=name) as refused:
            write_report(str(out))
        assert "x31y" not in str(refused.value)
        (out / "restricted").mkdir()
        with pytest.raises(InputError, match=name):
            write_report(str(out))
        assert not (out / "certificate.html").exists()


SUMMARY = {"rows_read": 5, "rejected": {}, "total_seconds": 1.5}


@pytest.mark.parametrize(
    ("name", "told", "key"),
    [
        ("summary.json", {"summary": "x"}, "summary"),
        ("summary.json", {"summary": SUMMARY | {"rows_released": None}}, "rows_released"),
        ("summary.json", {"summary": SUMMARY | {"total_seconds": "long"}}, "total_seconds"),
        ("summary.json", {"summary": SUMMARY | {"rejected": {"late": "x31y"}}}, "rejected"),
        ("summary.json", {"summary": SUMMARY | {"rows_read": float("inf")}}, "rows_read"),
        ("summary.json", {"settings": ["k"]}, "settings"),
        ("run.json", {"accepted_risks": "x"}, "accepted_risks"),
        ("run.json", {"versions": 5}, "versions"),
        ("check.json", {"risks": [{"field": "amount"}]}, "risks"),
        ("check.json", {"risks": 5}, "risks"),
        ("check.json", {"rows": None, "risks": []}, "rows"),
    ],
)
def test_a_record_of_another_shape_is_refused_by_name(
    name: str, told: dict[str, Any], key: str, tmp_path: Path
) -> None:
    """What somebody edited, or another build wrote: file and key, and no value."""
    out = write_run(tmp_path, ninety("window", 2))
    (out / "restricted" / name).write_text(json.dumps(told))
    with pytest.raises(InputError, match=rf"{name}: .*{key}") as refused:
        write_report(str(out))
    assert "x31y" not in str(refused.value)


@pytest.mark.parametrize("missing", ["k", "protect", "ncp", "rows_released"])
def test_metrics_that_lack_what_a_page_tells_are_refused(missing: str, tmp_path: Path) -> None:
    """By file, whoever wrote them."""
    out = write_run(tmp_path, ninety("window", 1))
    (path,) = (out / "restricted/metrics").iterdir()
    schema = exact_schema()
    schema["fields"] = [field for field in schema["fields"] if field["name"] != missing]
    write_avro(path, schema, [{k: v for k, v in ninety("window", 1)[0].items() if k != missing}])
    with pytest.raises(InputError, match="holds no metrics"):
        write_report(str(out))


def test_pages_are_small(tmp_path: Path) -> None:
    """Ninety windows: each page below 500 KB, and the one for inside readable by its owner only."""
    written = write_report(str(write_run(tmp_path, ninety("lasting"))))
    assert all(Path(path).stat().st_size < MOST_BYTES for path in written)
    assert Path(written[0]).stat().st_mode & 0o777 == 0o600


def test_the_same_directory_gives_the_same_pages(tmp_path: Path) -> None:
    """Byte for byte: no clock and no order of a set is in them."""
    out = write_run(tmp_path, ninety("row", 10))
    first = [Path(path).read_bytes() for path in write_report(str(out))]
    assert first == [Path(path).read_bytes() for path in write_report(str(out))]


def test_errors_of_queries_are_told_with_the_input(tmp_path: Path) -> None:
    """Asked of the rows as the policy reads them."""
    from kanonflow.schemas.policy_source import read_policy
    from tests.pipelines.small_runs import people

    policy, inputs, out = people().write(tmp_path)
    for path in (out / "restricted/metrics").iterdir():
        path.unlink()
    inside, _ = write_report(str(out), read_policy(policy), ReportInput(inputs))
    page = read_page(Path(inside).read_text())
    told = page.tables["utility"]
    assert told.column("queries")[0] == 200
    assert sum(filter(None, page.tables["count_errors"].column("queries"))) == 200
    shares = zip(told.column("median error"), told.column("90% error"), told.column("worst"), strict=True)
    for three in shares:
        assert all(one <= other for one, other in itertools.pairwise(three))
    assert page.tables["settings"].records()["window"] == ["1d"]
    shapes = [name for name in page.tables if name.startswith("shape_")]
    assert shapes
    for name in shapes:
        assert page.tables[name].head[1:] == ["input", "release"]
        assert sum(filter(None, page.tables[name].column("input"))) == pytest.approx(1)


@pytest.mark.thorough
@pytest.mark.browser
@pytest.mark.parametrize("mode", MODES)
def test_pages_are_readable_in_a_browser(browser: Any, mode: str, tmp_path: Path) -> None:
    """Ninety windows: whole and offline, at both widths, in both schemes, by keyboard."""
    for path in write_report(str(write_run(tmp_path, ninety(mode)))):
        check_page(browser, Path(path))


def test_a_pipe_among_metrics_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """By name; so is a folder of such a name."""
    out = write_run(tmp_path, ninety("window", 2))
    place = out / "metrics" / "pipe.avro"
    os.mkfifo(place)
    with pytest.raises(InputError, match=r"pipe\.avro: no file"):
        write_report(str(out))
    place.unlink()
    place.mkdir()
    with pytest.raises(InputError, match=r"pipe\.avro: no file"):
        write_report(str(out))
