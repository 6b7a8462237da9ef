"""``--plan`` with ``protect: row``: each row goes by its own values, through runs, chains, pipelines and tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that

from kanonflow.pipelines.chains.shards_record import asked_plan
from kanonflow.pipelines.cli import main
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.secret.seeds import Secret
from tests.nightly import HEADER, POLICY, Nights, line, nights_of
from tests.pipelines.audit.good_runs import read
from tests.pipelines.runs.test_streams_of_windows import stream
from tests.runners import bounded_pipeline, streaming_pipeline

ROWS = POLICY.replace("cohort: lasting\nintake: 6", "protect: row").replace(
    "{role: individual}", "{role: identifier}"
)
ONE = ROWS.replace("partition_by: [shop]\n", "")
DAYS = [[line(who, day, who, f"n{day}-{who}") for who in range(10 * day + 50)] for day in (1, 2, 3)]


def plan(nights: Nights, shards: int = 3, *flags: str, name: str = "plan.json", files: str = "*.csv") -> int:
    """kanonflow plan, over rows of the feed."""
    place = nights.place
    given = ["--policy", str(place / "policy.yaml"), "--input", str(place / "in" / files)]
    given += ["--shards", str(shards), "--output", str(place / name), "--accept-small", "--threads", "1"]
    return main(["plan", *given, *flags])


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """Three nights, and a plan of their rows: of four shards where three were asked for, for what is alike stays."""
    made = nights_of(tmp_path / "place", DAYS, ONE)
    assert plan(made) == 0
    return made


def released(nights: Nights, output: str) -> list[dict[str, Any]]:
    """All rows of a run."""
    return [row for path in nights.place.glob(f"{output}/release/*.avro") for row in read(path)[1]]


def refs_by_key(nights: Nights, output: str) -> dict[str, set[str]]:
    """By key of a shard the rows that were released there."""
    found: dict[str, set[str]] = {}
    for path in nights.place.glob(f"{output}/restricted/metrics/*.avro"):
        for told in read(path)[1]:
            file = nights.place / output / "release" / f"{told['release_id']}.avro"
            if told["released"]:
                found.setdefault(told["partition"], set()).update(row["ref"] for row in read(file)[1])
    return found


def boxes(rows: list[dict[str, Any]]) -> list[str]:
    """The boxes of rows, sorted."""
    return sorted(repr((row["age"], row["job"])) for row in rows)


def test_each_window_is_released_in_shards(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """A release a shard and a window, every row once; the plan names nobody, and no directory is written."""
    assert nights.anonymize("*.csv", "out", "--plan", str(nights.place / "plan.json")) == 0
    assert "1 partition in 4 shards, the smallest of" in (told := capsys.readouterr().err)
    assert "rows that it was made from; each has releases of its own" in told
    out = nights.place / "out"
    written = json.loads((out / "restricted/plan.json").read_text())
    assert (written["individual"], written["people"]) == (None, "")
    shards = refs_by_key(nights, "out")
    assert set(written["partitions"][0]["keys"]) == set(shards)
    assert len(list(out.glob("release/*.avro"))) == 12
    assert sum(map(len, shards.values())) == len(released(nights, "out")) == sum(map(len, DAYS))
    assert not (out / "restricted/shards.state").exists()
    assert (out / "restricted/plan.json").stat().st_mode & 0o777 == 0o600
    # Who has the same values in each night is in one shard.
    shard_of = {ref.split("-", 1)[1]: key for key, refs in shards.items() for ref in refs}
    assert all(shard_of[ref.split("-", 1)[1]] == key for key, refs in shards.items() for ref in refs)


def test_a_chain_keeps_its_plan_and_a_resumed_run_too(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the flag; another plan, or a first one, is refused. All nights together pass the audit."""
    path = str(nights.place / "plan.json")
    assert nights.anonymize("1.csv", "out1", "--plan", path) == 0
    assert nights.anonymize("1.csv", "out1", "--resume") == 0
    assert plan(nights, 2, name="other.json") == 0
    other = str(nights.place / "other.json")
    capsys.readouterr()
    assert nights.anonymize("1.csv", "out1", "--resume", "--plan", other) == 2
    assert "the plan of shards (--plan) is another one" in capsys.readouterr().err
    assert nights.anonymize("2.csv", "out4", "--continue", "@out1", "--plan", other) == 2
    assert "it went by another plan, and a chain has one" in capsys.readouterr().err
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1") == 0
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2", "--plan", path) == 0
    assert set(refs_by_key(nights, "out3")) == set(refs_by_key(nights, "out1"))
    assert nights.verify("*.csv", "out1", "out2", "out3", secret=False, flags=["--strict"]) == 0
    assert nights.anonymize("1.csv", "plain") == 0
    assert nights.anonymize("2.csv", "plain2", "--continue", "@plain", "--plan", path) == 2
    assert "it went by no plan, and a chain has one" in capsys.readouterr().err
    assert plan(nights, 2, "--continue", str(nights.place / "out3"), name="split.json") == 2
    assert "with protect: row no shard is split" in capsys.readouterr().err


def test_a_table_a_pipeline_and_a_stream_go_by_a_plan(nights: Nights) -> None:
    """They come to the boxes that the command makes; in a stream a row goes on at once."""
    plan_file, path = nights.place / "plan.json", nights.place / "policy.yaml"
    assert nights.anonymize("*.csv", "out", "--plan", str(plan_file)) == 0
    secret = Secret.from_file(str(nights.place / "secret"))
    rows = [dict(zip(HEADER.split(","), row.split(","), strict=True)) for day in DAYS for row in day]
    made = anonymize_table(pa.Table.from_pylist(rows), path, secret, text=True, plan=plan_file)
    expected = boxes(released(nights, "out"))
    assert boxes(made.released.to_pylist()) == expected
    assert {each["partition"] for each in made.metrics} == set(refs_by_key(nights, "out"))

    def keep(releases: list[Any]) -> None:
        assert boxes([row for each in releases for row in from_ipc(each.ipc).to_pylist()]) == expected

    with bounded_pipeline() as pipeline:
        out = pipeline | beam.Create(rows) | KAnonymize(path, secret, plan=plan_file)
        assert_that(out.released | beam.WindowInto(beam.window.GlobalWindows()), keep)

    stream = TestStream()
    begin = 1709251200  # the first of March
    for day in (1, 2, 3):
        stream = stream.add_elements([row for row in rows if row["when"].startswith(f"2024-03-0{day}")])
        stream = stream.advance_watermark_to(begin + day * 86400 + 1)
    with streaming_pipeline() as pipeline:
        out = pipeline | stream | KAnonymize(path, secret, plan=plan_file)
        assert_that(out.released | beam.WindowInto(beam.window.GlobalWindows()), keep)


def test_a_followed_folder_goes_by_a_plan(nights: Nights) -> None:
    """A stream over it comes to the releases that a run over the files does, and passes the audit."""
    found = asked_plan(str(nights.place / "plan.json"), "", None, resume=False)
    assert found is not None
    stream(nights, "streamed", plan=found[0])
    assert nights.anonymize("*.csv", "out", "--plan", found[1]) == 0
    assert refs_by_key(nights, "streamed") == refs_by_key(nights, "out")
    assert boxes(released(nights, "streamed")) == boxes(released(nights, "out"))
    assert nights.verify("*.csv", "streamed", secret=False) == 0


def test_partitions_are_cut_each_by_itself(tmp_path: Path) -> None:
    """No release has rows of two shops; a shop of few rows stays one piece."""
    days = [
        [line(who, day, who, f"n{day}-{who}", 2) for who in range(80)]
        + [line(who, day, who, f"m{day}-{who}").replace(",s0,", ",s9,") for who in range(5)]
        for day in (1, 2)
    ]
    made = nights_of(tmp_path / "place", days, ROWS)
    assert plan(made, 2) == 0
    assert made.anonymize("*.csv", "out", "--plan", str(made.place / "plan.json")) == 0
    shops = [{row["shop"] for row in read(path)[1]} for path in made.place.glob("out/release/*.avro")]
    assert sorted(map(sorted, shops)) == sorted([[shop] for shop in ("s0", "s0", "s1", "s1", "s9") * 2])
    assert made.verify("*.csv", "out", secret=False, flags=["--strict"]) == 0


def test_what_makes_no_plan_of_rows_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By name, by the plan and by the run: event ids, cohorts of a window, people, shards of too few rows."""
    made = nights_of(tmp_path / "place", DAYS, ONE)
    assert plan(made) == 0
    path, policy = str(made.place / "plan.json"), made.place / "policy.yaml"
    for text, words in (
        (
            ONE.replace("ref: {role: insensitive, accept_risk: made up}", "ref: {role: event_id}"),
            "fields.ref",
        ),
        (POLICY.replace("cohort: lasting\nintake: 6", "cohort: window"), "With cohort: window rows of a"),
    ):
        policy.write_text(text)
        assert plan(made, name="other.json") == 2
        assert words in capsys.readouterr().err
        assert made.anonymize("1.csv", "out", "--plan", path) == 2
        assert words in capsys.readouterr().err
    policy.write_text(POLICY.replace("partition_by: [shop]\n", ""))
    assert made.anonymize("1.csv", "out", "--plan", path) == 2
    assert "made for another policy, which differs in the individual" in capsys.readouterr().err
    policy.write_text(ONE)
    assert plan(made, 60, name="other.json") == 2
    assert "no partition has rows for k = 3 of a window in each" in capsys.readouterr().err
    assert plan(made, 2, "--people", str(policy), name="other.json") == 2
    assert "people: belongs to cohort: lasting" in capsys.readouterr().err
    assert not (made.place / "out/release").exists()


def test_a_plan_of_other_rows_serves(nights: Nights) -> None:
    """Of the first night's, for all; rows with values that it has not seen go to the nearest cell."""
    assert plan(nights, 2, name="first.json", files="1.csv") == 0
    (nights.place / "in" / "4.csv").write_text(
        "\n".join([HEADER, *(f"q{who},2024-03-04 10:00:00,{who},pilot,s0,1.00,x{who}" for who in range(40))])
        + "\n"
    )
    assert nights.anonymize("*.csv", "out", "--plan", str(nights.place / "first.json")) == 0
    assert len(released(nights, "out")) == sum(map(len, DAYS)) + 40
    assert nights.verify("*.csv", "out", secret=False, flags=["--strict"]) == 0
