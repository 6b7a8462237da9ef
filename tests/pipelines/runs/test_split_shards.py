"""A plan that splits shards between two runs of a chain: who goes where, what goes on, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanonflow.pipelines.cli import main
from tests.nightly import Nights, line, nights_of
from tests.pipelines.runs.test_shards import PLANNED, entered, plan, rejected, write_people

NAMED = range(40)
DAYS = [
    [line(who, day, 60 * who % 1440, f"n{day}-{who}") for who in range(day % 2, 12 * day + 40, 1 + day % 2)]
    for day in (1, 2, 3)
]


def split(nights: Nights, output: str, *flags: str, name: str = "plan2.json", shard: str = "largest") -> int:
    """kanonflow plan --continue."""
    place = nights.place
    given = ["--policy", str(place / "policy.yaml"), "--input", str(place / "in" / "1.csv")]
    given += ["--output", str(place / name), "--accept-small", "--threads", "1"]
    given += ["--split", shard] if shard else []
    return main(["plan", *given, "--continue", str(place / output), *flags])


def cohorts(output: Path) -> dict[str, set[frozenset[int]]]:
    """By key of a shard, the people of each cohort."""
    from tests.pipelines.audit.good_runs import read

    found: dict[str, set[frozenset[int]]] = {}
    for folder in output.glob("restricted/cohorts/*/"):
        members: dict[int, set[int]] = {}
        for path in folder.glob("*.people.avro"):
            for record in read(path)[1]:
                members.setdefault(record["cohort"], set()).add(record["person"])
        found[folder.name] = set(map(frozenset, members.values()))
    return found


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """Three nights, people who are known, a plan for two shards of them, the first night."""
    made = nights_of(tmp_path / "place", DAYS, PLANNED)
    write_people(made.place, NAMED)
    assert plan(made, 2) == 0
    assert made.anonymize("1.csv", "out1", "--plan", str(made.place / "plan.json"), "--carry") == 0
    return made


def test_a_shard_is_split_between_two_nights(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Each cohort goes whole to one part; the other shard keeps its key; rows go out once, and nobody is twice."""
    before = cohorts(nights.place / "out1")
    assert split(nights, "out1") == 0
    path = str(nights.place / "plan2.json")
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1", "--plan", path, "--carry") == 0
    after = cohorts(nights.place / "out2")
    (gone,) = before.keys() - after.keys()
    parts = after.keys() - before.keys()
    (stays,) = before.keys() & after.keys()
    assert len(parts) >= 2
    assert before[stays] <= after[stays]
    assert all(sum(cohort in after[part] for part in parts) == 1 for cohort in before[gone])
    assert all(before[gone] & after[part] for part in parts)
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2") == 0
    last = entered(nights.place / "out3")
    assert set(last) == set(after)
    assert sum(map(len, last.values())) == len(set().union(*last.values()))
    rows = sum(
        count * len(rows)
        for name in ("out1", "out2", "out3")
        for rows, count in nights.releases(name).items()
    )
    assert rows + sum(rejected(nights.place / name) for name in ("out1", "out2", "out3")) == sum(
        map(len, DAYS)
    )
    for night in ("1", "2", "3"):
        assert nights.verify(f"{night}.csv", f"out{night}", flags=["--strict"]) == 0, capsys.readouterr().out
    assert nights.verify("*.csv", "out1", "out2", "out3", flags=["--strict"]) == 0, capsys.readouterr().out
    assert nights.verify("[23].csv", "out2", "out3", flags=["--strict"]) == 0, capsys.readouterr().out


def test_a_chain_that_begins_before_a_later_split_is_audited(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole, and its last three runs: the second one of these splits a shard."""
    (nights.place / "in" / "4.csv").write_text(
        (nights.place / "in" / "3.csv").read_text().replace("-03-03", "-03-04").replace("n3-", "n4-")
    )
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1", "--carry") == 0
    assert split(nights, "out2") == 0
    path = str(nights.place / "plan2.json")
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2", "--plan", path, "--carry") == 0
    assert nights.anonymize("4.csv", "out4", "--continue", "@out3") == 0
    capsys.readouterr()
    for files, first in (("*.csv", 1), ("[234].csv", 2), ("[34].csv", 3), ("4.csv", 4)):
        outputs = [f"out{number}" for number in range(first, 5)]
        assert nights.verify(files, *outputs, flags=["--strict"]) == 0, capsys.readouterr().out


def test_a_part_that_lost_a_cohort_or_rows_is_found(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """The parts of a shard have all that it left, each thing once."""
    assert split(nights, "out1") == 0
    path = str(nights.place / "plan2.json")
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1", "--plan", path) == 0
    before, restricted = cohorts(nights.place / "out1"), nights.place / "out2" / "restricted"
    (gone,) = before.keys() - cohorts(nights.place / "out2").keys()
    parts = sorted(cohorts(nights.place / "out2").keys() - before.keys())
    assert (nights.place / "out1" / "restricted" / "carried" / f"{gone}.state").is_file()
    # As if the second part had begun as the first one did.
    kept = {name: (restricted / "cohorts" / parts[1] / name).read_bytes() for name in ("carried.state",)}
    (restricted / "cohorts" / parts[1] / "carried.state").write_bytes(
        (restricted / "cohorts" / parts[0] / "carried.state").read_bytes()
    )
    capsys.readouterr()
    assert nights.verify("[12].csv", "out1", "out2") == 1
    assert "shard that was split" in capsys.readouterr().out
    (restricted / "cohorts" / parts[1] / "carried.state").write_bytes(kept["carried.state"])
    assert nights.verify("[12].csv", "out1", "out2") == 0
    (restricted / "cohorts" / parts[1] / "continued.json").write_text('{"segments": 0}')
    capsys.readouterr()
    assert nights.verify("[12].csv", "out1", "out2") == 1
    assert "cohorts of a shard that was split" in capsys.readouterr().out
