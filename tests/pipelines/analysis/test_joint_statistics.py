"""What the bounds of joint statistics rest on: the payload of a released row is that of a record in the row's box.

Shown of the three promises as they are published, by a reference that is unique and told in the payload.
"""

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.rows.element_rows import rows_to_table
from tests.small_feeds import SECRET, bound_feed, feed_policy, hourly

pytestmark = pytest.mark.filterwarnings("ignore::kanonflow.pipelines.estimates.estimate.WideBoundsWarning")
POLICIES = {
    "graph": feed_policy(people=False),
    "classes": feed_policy(),
    "lasting": feed_policy(cohort="lasting", max_delay="2h", intake=10),
    "waiting": feed_policy(max_delay="3h"),
}


def released(policy: Policy) -> tuple[ReleasedTable, list[dict[str, Any]]]:
    """Three hours of a feed as released, and the record behind the payload of each row."""
    bound = bound_feed(policy)
    feed = hourly(3, 60, 25)
    table: pa.Table = rows_to_table(feed, bound).table
    for field in policy.fields:
        if field.name not in table.column_names:
            table = table.append_column(field.name, pa.nulls(table.num_rows, pa.string()))
    found = anonymize_table(table, policy, SECRET, text=True, threads=1)
    by_reference = {row["reference"]: row for row in feed}
    assert found.released.num_rows > 100
    records = [by_reference[each] for each in found.released.column("reference").to_pylist()]
    return ReleasedTable.of(found.released, bound), records


@pytest.mark.parametrize("promise", POLICIES)
def test_a_payload_stands_in_a_box_of_its_record(promise: str) -> None:
    """In graphs as in classes; and in a window that its record's time lies in."""
    release, records = released(POLICIES[promise])
    for row, record in zip(release.arrow().to_pylist(), records, strict=True):
        assert row["age"]["min"] <= int(record["age"]) <= row["age"]["max"]
        assert record["job"] in row["job"]
        when = dt.datetime.fromisoformat(str(record["when"]))
        assert row["window_start"] <= when < row["window_end"]


@pytest.mark.parametrize("promise", POLICIES)
def test_sums_of_payload_by_attributes_keep_their_bounds(promise: str) -> None:
    """Sums, means and counts of groups by age, job and hour, of which the truth is known."""
    release, records = released(POLICIES[promise])
    for what in ("count", "sum", "mean"):
        of = None if what == "count" else "amount"
        for row in release.estimate(what, of, by={"age": [0, 30, 50, 121], "job": "each"}).rows():
            inside = [
                float(each["amount"])
                for each in records
                if row["age_from"] <= int(each["age"]) < row["age_to"] and each["job"] == row["job"]
            ]
            if what == "mean" and not inside:
                continue
            true = {"count": len(inside), "sum": sum(inside)}.get(what) or (
                sum(inside) / len(inside) if what == "mean" else 0
            )
            assert row["lower"] <= true <= row["upper"], (what, row["age_from"], row["job"])
        for row in release.estimate(what, of, by={"window": "1h"}).rows():
            hour = row["window_from"].isoformat()[:13]
            inside = [float(each["amount"]) for each in records if str(each["when"])[:13] == hour]
            true = {"count": len(inside), "sum": sum(inside)}.get(what) or (sum(inside) / len(inside))
            assert row["lower"] - 1e-9 <= true <= row["upper"] + 1e-9, (what, hour)
