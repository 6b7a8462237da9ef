"""The metrics record: complete, true to its schema, its numbers those of a plain count."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any

import fastavro
import numpy as np
import pytest

from kanonflow.schemas.avro_schema import metrics_defaults, metrics_schema, rejected_schema
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.transforms.release.metrics import class_candidates, common_candidates, linked_candidates
from tests import naive
from tests.driven_partitions import DrivenPartitions
from tests.small_feeds import HOUR, SECRET, START, bound_feed, feed_policy, hourly, row

SHAPES: dict[str, dict[str, Any]] = {"classes": {}, "people": {"protect": "row"}, "rows": {"people": False}}


def run(shape: str, **head: Any) -> DrivenPartitions:
    """Three busy hours, a lonely row, the end."""
    step = DrivenPartitions(bound_feed(feed_policy(max_delay="1h", **SHAPES[shape], **head)), SECRET)
    step.send([*hourly(3, 10, 7), row(90, 1, 5.5)])
    step.finish()
    return step


@pytest.mark.parametrize("shape", SHAPES)
def test_records_have_the_fields_of_their_schema(shape: str) -> None:
    """Of releases and of expiries; nothing missing, nothing that the schema does not name."""
    step = run(shape)
    names = {field["name"] for field in metrics_schema()["fields"]}
    assert {record["kind"] for record in step.metrics} == {"window", "expiry"}
    for record in step.metrics:
        assert record.keys() == names
    for schema, records in (
        (metrics_schema(), step.metrics),
        (rejected_schema(), [record for each in step.rejected for record in each.records]),
    ):
        out = io.BytesIO()
        fastavro.writer(out, schema, records, strict_allow_default=True)
        out.seek(0)
        assert len(list(fastavro.reader(out))) == len(records)


@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_of_a_release_agree(shape: str) -> None:
    """Rows, individuals, windows as released; losses ordered: bound <= end <= start, hull <= published."""
    step = run(shape)
    records = {record["release_id"]: record for record in step.metrics}
    assert len(step.released) == 3
    for release, table in zip(step.released, step.tables(), strict=True):
        record = records[release.release_id]
        assert record["released"]
        assert record["rows_released"] == table.num_rows
        assert (record["window_start"], record["window_end"]) == (release.window_start, release.window_end)
        assert record["gcp_hull"] <= record["gcp"] + 1e-12
        assert record["lower_bound"] <= record["loss_end"] + 1e-12
        assert record["loss_end"] <= record["loss_start"] + 1e-12
        assert record["candidates_min"] >= 3
        assert 3 <= record["individuals"] <= record["rows_released"]
        assert (record["classes"] is None) == (shape != "classes")
        assert (record["c_avg"] is None) == (record["dm"] is None) == (shape != "classes")
        assert (record["levels"], record["log"], record["los"]) == ({}, None, None)
        assert (record["linked_candidates"] is not None) == (shape == "people")
        assert record["ncp"].keys() == {"age", "job"}
        assert sum(record["candidates_of_rows"].values()) == record["rows_released"]
        assert sum(record["candidates_of_people"].values()) == record["individuals"]
        assert min(map(int, record["candidates_of_rows"])) == record["candidates_min"]


def test_class_sizes_are_those_of_the_boxes() -> None:
    """C_AVG and DM against rows that are counted by their boxes, where no two classes have the same one."""
    step = run("classes")
    records = {record["release_id"]: record for record in step.metrics}
    checked = 0
    for release, table in zip(step.released, step.tables(), strict=True):
        record = records[release.release_id]
        boxes = Counter(
            repr(box) for box in zip(table["age"].to_pylist(), table["job"].to_pylist(), strict=True)
        )
        if len(boxes) == record["classes"]:
            out = sum(record["rows_rejected"].values())
            checked += 1
            assert record["c_avg"] == pytest.approx(table.num_rows / len(boxes) / 3)
            assert record["dm"] == sum(each**2 for each in boxes.values()) + out * (table.num_rows + out)
    assert checked >= 2


def test_rejected_rows_are_hidden_among_all_that_leave() -> None:
    """Three people are one class; of the first two rows more are rejected, one of them late, one as its surplus: 3 x 3
    and 2 x 5. Rows that wait count where they leave."""
    step = DrivenPartitions(bound_feed(feed_policy()), SECRET)
    step.send([row(number, who, 0.1 + 0.01 * number) for number, who in enumerate((0, 1, 2, 0, 0))])
    step.finish()
    (record,) = (record for record in step.metrics if record["released"])
    assert (record["rows_released"], record["rows_rejected"]) == (3, {"individual_over_limit": 2})
    assert (record["c_avg"], record["dm"]) == (1.0, 9 + 2 * 5)


def test_what_released_nothing_has_its_ledger_and_its_window() -> None:
    """A window with too few people, then the end of its rows' time."""
    step = run("rows")
    small, over = step.metrics[-2:]
    assert (small["kind"], small["released"], small["rows_new"], small["rows_waiting"]) == (
        "window",
        False,
        1,
        1,
    )
    assert (small["window_start"], small["window_end"]) == (START + 5 * HOUR, START + 6 * HOUR)
    assert (over["kind"], over["rows_waited"], over["rows_rejected"]) == ("expiry", 1, {"too_few_peers": 1})
    assert over["gcp"] is None


def test_the_partition_is_named_by_its_key_only() -> None:
    """Neither its values nor anything of a row is in a metrics record."""
    step = run("classes", towns=True)
    text = repr(step.metrics)
    assert not any(value in text for value in ("Bonn", "p1'", "'r1", "baker"))
    assert {record["partition"] for record in step.metrics} == {key.hex() for key in step.cells}


def test_running_domains_are_described() -> None:
    """Restricted metrics say what normalized the losses."""
    step = run("rows", running=True)
    assert step.metrics[0]["domains"]["job"].endswith("values running")
    assert step.metrics[0]["domains"]["age"].endswith("running")
    assert run("rows").metrics[0]["domains"]["age"] == "[0, 120] declared"


@pytest.mark.parametrize("seed", range(5))
def test_linked_candidates_are_those_of_a_plain_count(seed: int) -> None:
    """Individuals common to all slots of one individual's rows."""
    rng = np.random.default_rng(seed)
    n, k = 12, 3
    members = np.array([[(slot + step) % n for step in range(k)] for slot in range(n)], dtype=np.int32)
    individuals = rng.permutation(6)[np.arange(n) % 6]
    factor = members[np.arange(n), int(rng.integers(k))]
    counts = naive.linked_candidates(members.tolist(), factor.tolist(), individuals.tolist())
    common = common_candidates(GeneralizationGraph(members), factor, individuals)
    assert common.tolist() == counts
    found = linked_candidates(common)
    assert found["minimum"] == min(counts)
    assert found["mean"] == pytest.approx(np.mean(counts))
    assert found["share_one"] == pytest.approx(np.mean([count == 1 for count in counts]))


@pytest.mark.parametrize("seed", range(8))
def test_candidates_of_classes_are_those_of_a_plain_count(seed: int) -> None:
    """Rows and people, each by the people of its class; rows that wait are in none. Without individuals rows count."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 4, 40).astype(np.int32)
    released = labels[labels >= 0].tolist()
    owners = (rng.integers(0, 5, len(released)) * 4 + np.array(released)).astype(np.int64)
    for people in (owners, None):
        members: dict[int, set[int]] = {}
        whose = list(range(len(released))) if people is None else people.tolist()
        for label, person in zip(released, whose, strict=True):
            members.setdefault(label, set()).add(person)
        rows = Counter(str(len(members[label])) for label in released)
        persons = Counter(str(len(each)) for each in members.values() for _ in each)
        assert class_candidates(labels, people) == (rows, persons)


def test_defaults_are_told_once_and_never_shared() -> None:
    """What a window without a release says is what metrics.avsc says; a record's maps are its own."""
    step = run("classes" if "classes" in SHAPES else next(iter(SHAPES)))
    expiries = [record for record in step.metrics if not record["released"]]
    assert expiries
    for record in expiries:
        for name, default in metrics_defaults(of_a_release=True).items():
            assert record[name] == default, name
    expiries[0]["domains"]["changed"] = "here"
    assert "changed" not in run(next(iter(SHAPES))).metrics[-1]["domains"]
    assert "changed" not in metrics_defaults()["domains"]
