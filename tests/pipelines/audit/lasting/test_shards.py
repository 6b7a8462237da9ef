"""Runs by a plan of shards before the audit: what passes, and faults that are planted in their files."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.audit.chain import audit_chain
from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.pipelines.commands.matching_record_recipe import recipe_check
from kanonflow.transforms.secret.seeds import Secret, people_key
from tests.nightly import POLICY, Nights, line, nights_of
from tests.pipelines.audit.lasting_runs import change_file
from tests.pipelines.runs.test_shards import plan, write_people

PLANNED = POLICY.replace("cohort: lasting", "cohort: lasting\npeople: customers.csv")
NAMED = range(30)
DAYS = 3


def _lines(day: int) -> list[str]:
    """People of two shops, half of whom change their job on later days; on the first two everybody has two rows."""
    rows = []
    for who in range(20 * day + 50):
        own = line(who, day, 60 * who % 1440, f"n{day}-{who}", 2).split(",")
        if day > 1 and who % 2:
            own[3] = "cook"
        rows += [",".join(own), ",".join([*own[:2], own[2], "smith", *own[4:6], f"m{day}-{who}"])][
            : 1 + day % 2
        ]
    return rows


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    """One run over all nights, and a chain of two, by one plan of two shards for each shop."""
    nights = nights_of(tmp_path_factory.mktemp("sharded") / "place", map(_lines, range(1, DAYS + 1)), PLANNED)
    write_people(nights.place, NAMED, 2)
    assert plan(nights, 2) == 0
    path = str(nights.place / "plan.json")
    assert nights.anonymize("*.csv", "out", "--plan", path, "--matching-records") == 0
    assert nights.anonymize("1.csv", "out1", "--plan", path, "--carry") == 0
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1", "--carry") == 0
    return nights


@pytest.fixture
def nights(made: Nights, tmp_path: Path) -> Nights:
    """A copy to spoil."""
    shutil.copytree(made.place, tmp_path / "place")
    return Nights(tmp_path / "place")


def judged(nights: Nights, files: str = "*.csv", output: str = "out", *, secret: bool = True,
           recorded: bool = False) -> AuditReport:  # fmt: skip
    """The audit's report of one output."""
    place = nights.place
    own = Secret.from_file(str(place / "secret"))
    return audit(
        place / "policy.yaml", [str(place / "in" / files)], place / output, matching_records=recorded,
        recipe=recipe_check(own, str(place / output)) if recorded and secret else None,
        people_key=people_key(own) if secret else None,
    )  # fmt: skip


def change_plan(nights: Nights, change: Callable[[list[dict[str, Any]]], Any], output: str = "out") -> None:
    """Rewrite the partitions of the plan that a run has kept."""
    path = nights.place / output / "restricted/plan.json"
    plain = json.loads(path.read_text())
    change(plain["partitions"])
    path.write_text(json.dumps(plain))


def fails(report: AuditReport, words: str) -> bool:
    """Whether a failure has these words."""
    return any(words in each for each in report.failures)


def test_runs_by_a_plan_pass(made: Nights) -> None:
    """With the secret, without it, with matching records; a night of a chain, and both as a whole."""
    whole = judged(made)
    assert whole.passed, whole.failures
    plain = json.loads((made.place / "out/restricted/plan.json").read_text())
    shards = sum(len(each["keys"]) for each in plain["partitions"])
    assert (whole.figures.shards, whole.figures.people_unplaced) == (shards, 0)
    assert any("people entered in the shard that the plan gives" in each for each in whole.checked)
    assert judged(made, recorded=True).failures == ()
    silent = judged(made, secret=False)
    assert silent.failures == ()
    assert any("who entered in which shard" in each for each in silent.not_checked)
    assert judged(made, "1.csv", "out1").failures == ()
    assert judged(made, "2.csv", "out2").failures == ()
    place = made.place
    outputs = [str(place / name) for name in ("out1", "out2")]
    key = people_key(Secret.from_file(str(place / "secret")))
    chain = audit_chain(place / "policy.yaml", [str(place / "in" / "[12].csv")], outputs, people_key=key)
    assert chain.failures == ()
    assert chain.figures.people_unplaced
    assert any("first values of" in each for each in chain.not_checked)


def _swap_keys(partitions: list[dict[str, Any]]) -> None:
    partitions[0]["keys"].reverse()


def test_people_in_each_others_shards(nights: Nights) -> None:
    """All of a partition: the file of people and first windows put them into the other shard."""
    change_plan(nights, _swap_keys)
    report = judged(nights)
    assert fails(report, "people entered in another shard than the plan gives")
    assert fails(report, "people were expected in another shard than the plan gives")
    silent = judged(nights, secret=False)
    assert fails(silent, "people were expected in another shard than the plan gives")


def test_keys_of_another_partition(nights: Nights) -> None:
    """A release under a shard of the other shop, and one under a key that is nobody's (as without the plan)."""

    def swap(partitions: list[dict[str, Any]]) -> None:
        one, other = (partition["keys"] for partition in partitions[:2])
        one[0], other[0] = other[0], one[0]

    change_plan(nights, swap)
    assert fails(judged(nights), "releases under a key that is none of their partition's in the plan")
    change_plan(nights, swap)
    path = next((nights.place / "out/release").glob("*.avro"))
    metrics = nights.place / "out/restricted/metrics" / path.name
    change_file(metrics, lambda schema, records: records[0].update(partition="0" * 32))
    report = judged(nights)
    assert fails(report, "1 releases under a key that is none of their partition's in the plan")


def test_a_partition_that_the_plan_leaves_whole(nights: Nights) -> None:
    """Its releases are under keys of shards that another partition has now."""

    def drop(partitions: list[dict[str, Any]]) -> None:
        partitions[0]["values"] = ["elsewhere"]

    change_plan(nights, drop)
    assert fails(judged(nights), "releases under a key that is none of their partition's in the plan")


def test_a_release_without_metrics(nights: Nights) -> None:
    """Which shard it is of is told nowhere else."""
    path = next((nights.place / "out/release").glob("*.avro"))
    (nights.place / "out/restricted/metrics" / path.name).unlink()
    assert fails(judged(nights), "1 releases of partitions in shards whose metrics tell no shard")


def test_somebody_in_two_shards(nights: Nights) -> None:
    """A digest of one shard among the people of another one, though the policy accepts people in two partitions."""
    keys = json.loads((nights.place / "out/restricted/plan.json").read_text())["partitions"][0]["keys"]
    here, there = (nights.place / "out/restricted/cohorts" / key / "000000.people.avro" for key in keys)
    digests: list[int] = []
    change_file(here, lambda schema, records: digests.append(records[0]["person"]))
    change_file(there, lambda schema, records: records[0].update(person=digests[0]))
    assert fails(judged(nights), "1 people entered in two shards of one partition")
    assert fails(judged(nights, secret=False), "1 people entered in two shards of one partition")


def test_one_person_moved(nights: Nights) -> None:
    """A border of the plan lies elsewhere, or its sides are changed: those beyond it are in another shard."""

    def move(partitions: list[dict[str, Any]]) -> None:
        for each in partitions:
            each["cells"], each["roots"], each["columns"], each["prices"] = [[]], [0], [], []
            each["nodes"] = [
                {"field": "age", "at_most": 30, "left": 1, "right": 2}, {"shard": 0}, {"shard": 1}
            ]  # fmt: skip

    change_plan(nights, move)
    assert fails(judged(nights), "people entered in another shard than the plan gives")


def test_a_value_of_a_later_window(nights: Nights) -> None:
    """Somebody who was seen on two days, frozen with what only the second says."""
    book = nights.place / "out/restricted/cohorts"
    own = Secret.from_file(str(nights.place / "secret"))

    late = {
        int.from_bytes(hashlib.blake2b(f"p{who:02}".encode(), digest_size=8, key=people_key(own)).digest(), "little")
        for who in range(31, 70, 2)
    }  # fmt: skip
    changed = 0

    def later(schema: dict[str, Any], records: list[dict[str, Any]]) -> None:
        nonlocal changed
        for each in records:
            if (
                np.int64(each["person"]).astype(np.uint64).item() in late
                and each["job"] != "cook"
                and not changed
            ):
                each["job"] = "cook"
                changed += 1

    for path in sorted(book.glob("*/*.people.avro")):
        change_file(path, later)
    assert changed == 1
    assert fails(
        judged(nights), "field job: 1 people have another frozen value than their first window gives"
    )


def test_cohorts_under_another_key(nights: Nights) -> None:
    """A release of one shard whose people lie in the folder of the other."""
    keys = json.loads((nights.place / "out/restricted/plan.json").read_text())["partitions"][0]["keys"]
    other = dict(zip(keys, reversed(keys), strict=True))
    for path in (nights.place / "out/restricted/metrics").glob("*.avro"):
        change_file(
            path,
            lambda schema, records: records[0].update(
                partition=other.get(records[0]["partition"], records[0]["partition"])
            ),
        )
    assert fails(
        judged(nights, secret=False), "segments of cohorts lie under another key than that of their release"
    )


def test_two_releases_of_one_shard_and_window(nights: Nights) -> None:
    """Shards release for themselves; one of them does so once a window."""
    keys = json.loads((nights.place / "out/restricted/plan.json").read_text())["partitions"][0]["keys"]

    def as_first(schema: dict[str, Any], records: list[dict[str, Any]]) -> None:
        if records[0]["partition"] == keys[1]:
            records[0]["partition"] = keys[0]

    for path in (nights.place / "out/restricted/metrics").glob("*.avro"):
        change_file(path, as_first)
    assert fails(judged(nights, secret=False), "one window of a partition was released more than once")


def test_a_chain_has_one_plan(nights: Nights) -> None:
    """Another one in a later run is a failure of their link."""
    change_plan(nights, lambda partitions: partitions[0].update(people=[1, 1]), "out2")
    outputs = [str(nights.place / name) for name in ("out1", "out2")]
    report = audit_chain(nights.place / "policy.yaml", [str(nights.place / "in" / "[12].csv")], outputs)
    assert fails(report, "another plan of shards")
