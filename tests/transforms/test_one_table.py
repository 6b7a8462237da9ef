"""anonymize_table: the pipeline's releases without a runner."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.one_table import AnonymizedTable, anonymize_table
from tests.driven_partitions import DrivenPartitions
from tests.small_feeds import SECRET, Row, bound_feed, feed_policy, hourly, references, row

COLUMNS = ["who", "when", "age", "job", "town", "amount", "reference"]
POLICIES = {
    "classes": feed_policy(towns=True, max_delay="2h"),
    "people": feed_policy(towns=True, max_delay="2h", protect="row"),
    "rows": feed_policy(people=False, towns=True, max_delay="2h"),
    "no windows": feed_policy(towns=True, window=None, protect="row"),
}


def anonymized(rows: list[Row], policy: Policy) -> AnonymizedTable:
    """A table of text."""
    schema = pa.schema([(name, pa.string()) for name in COLUMNS])
    table = pa.Table.from_pylist([{name: each[name] for name in COLUMNS} for each in rows], schema)
    return anonymize_table(table, policy, SECRET, text=True)


@pytest.mark.parametrize("shape", POLICIES)
def test_the_releases_are_those_of_the_step(shape: str) -> None:
    """Row for row, with the same metrics and rejections."""
    policy = POLICIES[shape]
    feed = [*hourly(4, 9, 7, seed=8, towns=("Bonn", "Kiel")), row(90, 1, 6.5)]
    step = DrivenPartitions(bound_feed(policy), SECRET)
    step.send(feed)
    step.finish()
    out = anonymized(feed, policy)
    by_content = [(name, "ascending") for name in ("release_id", "reference")]
    assert out.released.sort_by(by_content).equals(pa.concat_tables(step.tables()).sort_by(by_content))
    assert {record["release_id"] for record in out.metrics} == {
        record["release_id"] for record in step.metrics
    }
    refused = sorted((record["row"]["reference"], record["reason"]) for record in out.rejected)
    assert refused == sorted(step.refused())
    assert len(refused) + out.released.num_rows == len(feed)


def test_an_empty_table_has_an_empty_release() -> None:
    """With the columns of a release."""
    out = anonymized([], POLICIES["classes"])
    assert (out.released.num_rows, out.metrics, out.rejected) == (0, [], [])
    assert "window_start" in out.released.column_names


def test_broken_rows_are_rejected() -> None:
    """The others are released."""
    rows = [row(number, number, 0.5) for number in range(5)]
    out = anonymized([*rows, row(9, 9, 0.5, age="x")], POLICIES["rows"])
    assert [record["reason"] for record in out.rejected] == ["bad_value"]
    assert references(out.released) == [f"r{number}" for number in range(5)]


def test_a_table_that_lacks_a_field_is_refused() -> None:
    """PolicyError names it."""
    with pytest.raises(PolicyError, match="fields that the input does not have: who"):
        anonymize_table(pa.table({"when": ["x"]}), POLICIES["classes"], SECRET, text=True)
