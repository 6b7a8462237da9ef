"""Numbers as large as a double can be, in a handful of rows, end no command and print no warning of numpy's."""

from __future__ import annotations

import datetime as dt
import json
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kanonflow
from kanonflow.pipelines import cli

MOST = 1.7e308
POLICY = """\
version: 1
name: extremes
k: 3
window: 1d
max_delay: 3d
fields:
  who: {role: individual}
  at: {role: time}
  age: {role: quasi, type: numeric, as: int}
  income: {role: quasi, type: numeric, as: double}
  amount: {role: insensitive}
"""
START = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)


def extreme_feed(folder: Path) -> tuple[Path, Path]:
    """Policy and input: 60 people over a week; the least and the greatest doubles in both kinds of fields."""
    rng = np.random.default_rng(4)
    who = rng.integers(0, 60, 1000)
    income = {3: 1e308, 4: -MOST, 5: MOST}
    amounts = np.round(rng.exponential(50, who.size), 2)
    amounts[[5, 77, 300, 301]] = [1e308, 1e308, -1e308, MOST]
    rows = pa.table(
        {
            "who": [f"p{each}" for each in who],
            "at": pa.array(
                [START + dt.timedelta(minutes=10 * n) for n in range(who.size)], pa.timestamp("ms", "UTC")
            ),
            "age": pa.array(18 + who, pa.int32()),
            "income": [income.get(int(each), 1000.0 * each) for each in who],
            "amount": amounts,
        }
    )
    pq.write_table(rows, folder / "feed.parquet")
    (folder / "policy.yaml").write_text(POLICY)
    return folder / "policy.yaml", folder / "feed.parquet"


def told(arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints; it must end with 0, without a warning of arithmetic."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        code = cli.main(arguments.split())
    out, err = capsys.readouterr()
    assert code == 0, err
    assert "nan" not in out.split()
    assert "nan%" not in out
    return out


def test_the_largest_doubles_go_through_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check, run, audit, explain, compare and export: exit code 0, figures and not NaN."""
    policy, feed = extreme_feed(tmp_path)
    given = f"--policy {policy} --input {feed}"
    told(f"policy draft --input {feed}", capsys)
    told(f"policy check {policy} --input {feed}", capsys)
    told(f"anonymize {given} --output {tmp_path}/out", capsys)
    told(f"verify {given} --release {tmp_path}/out", capsys)
    told(f"explain {given}", capsys)
    told(f"compare {given} --rows 300", capsys)
    told(f"report {tmp_path}/out {given}", capsys)
    told(f"export {tmp_path}/out --to csv --flat columns --output {tmp_path}/out.csv", capsys)
    found = json.loads(told(f"compare {given} --json", capsys))
    assert found["outcomes"]
    assert all(each["mean_error"] is not None for each in found["outcomes"])


def test_means_and_sums_of_the_largest_doubles_have_bounds_that_hold(tmp_path: Path) -> None:
    """A mean is within its bounds though a sum of its values is no double; of such a sum no bound is NaN."""
    policy, feed = extreme_feed(tmp_path)
    assert (
        cli.main(f"anonymize --policy {policy} --input {feed} --output {tmp_path}/out --quiet".split()) == 0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        release = kanonflow.read_release(tmp_path / "out")
        (mean,) = release.estimate("mean", of="amount").rows()
        (total,) = release.estimate("sum", of="amount").rows()
        (wide,) = release.estimate("mean", of="income").rows()
    true = np.mean(np.asarray(pq.read_table(feed)["amount"]) / 2**20) * 2**20
    assert mean["lower"] <= true <= mean["upper"]
    assert np.isfinite(mean["value"])
    assert total["lower"] <= total["value"] <= total["upper"]
    assert np.isfinite(wide["value"])
