"""What a split of a shard must not lose, double or mix up: rows, repeats, who was forgotten, runs that broke off."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that

from kanonflow.pipelines.chains import continued_run
from kanonflow.pipelines.chains.shards_record import asked_plan, known_shards
from kanonflow.pipelines.cli import main
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_source import read_policy
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.roster.continued_cohorts import ContinuedCohorts
from kanonflow.transforms.rows.elements import RejectedRows, from_ipc
from kanonflow.transforms.secret.seeds import Secret
from kanonflow.transforms.shards.shard_plan import PlanError
from kanonflow.transforms.windows.chain import Chain, carried_from_bytes
from tests.nightly import HEADER, Nights, line, nights_of
from tests.pipelines.audit.good_runs import read
from tests.pipelines.runs.test_shards import PLANNED, _plain, _table, entered, plan, rejected, write_people
from tests.pipelines.runs.test_split_shards import DAYS, NAMED, cohorts, split
from tests.runners import bounded_pipeline, streaming_pipeline

PATH = "plan2.json"


def begun(place: Path, policy: str = PLANNED, days: list[list[str]] = DAYS, shops: int = 1) -> Nights:
    """A first night by a plan for two shards."""
    made = nights_of(place, days, policy)
    write_people(made.place, NAMED, shops)
    assert plan(made, 2) == 0
    assert made.anonymize("1.csv", "out1", "--plan", str(made.place / "plan.json"), "--carry") == 0
    return made


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """The first night, and a plan that splits a shard of it."""
    made = begun(tmp_path / "place")
    assert split(made, "out1") == 0
    return made


def second(nights: Nights, *flags: str, output: str = "out2", before: str = "@out1") -> int:
    """The second night, by the plan that splits."""
    path = str(nights.place / PATH)
    return nights.anonymize("2.csv", output, "--continue", before, "--plan", path, *flags)


def refs(nights: Nights, *outputs: str) -> list[str]:
    """Of all released rows."""
    return [
        row["ref"]
        for name in outputs
        for path in (nights.place / name / "release").glob("[!.]*")
        for row in read(path)[1]
    ]


def refused(nights: Nights, *outputs: str) -> list[str]:
    """Of all rejected rows."""
    return [
        record["row"]["ref"]
        for name in outputs
        for path in (nights.place / name).glob("restricted/rejected/*.avro")
        for record in read(path)[1]
    ]


def written(path: Path) -> dict[str, bytes]:
    """The files of a folder's cohorts."""
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def test_what_was_split_twice_is_split_again(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """A part of a shard that was split goes in two; then both shards of the first plan at once."""
    assert second(nights, "--carry") == 0
    parts = cohorts(nights.place / "out2").keys() - cohorts(nights.place / "out1").keys()
    part = max(parts, key=lambda name: len(entered(nights.place / "out2")[name]))
    assert split(nights, "out2", name="plan3.json", shard=part[:12]) == 0
    path = str(nights.place / "plan3.json")
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2", "--plan", path) == 0
    last = entered(nights.place / "out3")
    assert part not in last
    assert sum(map(len, last.values())) == len(set().union(*last.values()))
    before, after = cohorts(nights.place / "out2"), cohorts(nights.place / "out3")
    assert before[part] <= set().union(*(after[name] for name in after.keys() - before.keys()))
    assert nights.verify("*.csv", "out1", "out2", "out3", flags=["--strict"]) == 0, capsys.readouterr().out
    assert len(refs(nights, "out1", "out2", "out3")) + sum(
        rejected(nights.place / name) for name in ("out1", "out2", "out3")
    ) == sum(map(len, DAYS))


def test_a_row_that_comes_again_after_a_split_is_known(tmp_path: Path) -> None:
    """Whichever part its person went to."""
    policy = PLANNED.replace(
        "ref: {role: insensitive, accept_risk: made up}",
        "ref: {role: event_id}\n  tag: {role: insensitive, accept_risk: made up}",
    )
    days = [[f"{row},{row.split(',')[-1]}" for row in day] for day in DAYS]
    days[1] = [*days[1], *days[0]]
    made = nights_of(tmp_path / "place", days, policy)
    for number, day in enumerate(days, 1):
        (made.place / "in" / f"{number}.csv").write_text("\n".join([f"{HEADER},tag", *day]) + "\n")
    write_people(made.place, NAMED)
    assert plan(made, 2) == 0
    assert made.anonymize("1.csv", "out1", "--plan", str(made.place / "plan.json"), "--carry") == 0
    assert split(made, "out1") == 0
    assert second(made) == 0
    out = [
        row["tag"]
        for name in ("out1", "out2")
        for path in (made.place / name / "release").glob("[!.]*")
        for row in read(path)[1]
    ]
    assert len(out) == len(set(out))
    assert len(out) + rejected(made.place / "out1") + rejected(made.place / "out2") == sum(map(len, days[:2]))


def test_a_rotated_secret_splits_alike(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """The parts have the keys and the people that they would have had."""
    assert second(nights) == 0
    there = entered(nights.place / "out2")
    shutil.rmtree(nights.place / "out2")
    (nights.place / "out1/restricted/continued_by.json").unlink()
    (nights.place / "old").write_bytes((nights.place / "secret").read_bytes())
    (nights.place / "old").chmod(0o600)
    (nights.place / "secret").write_bytes(bytes(range(100, 140)))
    assert second(nights, "--previous-secret", f"file:{nights.place / 'old'}") == 0
    assert entered(nights.place / "out2") == there


@pytest.mark.parametrize("after", [0, 2])
def test_a_run_that_broke_off_while_it_split_begins_again(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """After some shards and parts were laid down: what is made then is what would have been."""
    lay, count = continued_run._lay, [0]

    def broken(*told: object) -> None:
        if count[0] == after:
            raise OSError(28, "no space")
        count[0] += 1
        lay(*told)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(continued_run, "_lay", broken)
        try:
            code = second(nights)
        except OSError:
            code = 3
        assert code != 0
    assert second(nights) == 0
    assert nights.verify("[12].csv", "out1", "out2", flags=["--strict"]) == 0


def test_a_run_that_broke_off_behind_the_split_resumes(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the flag, with the same plan, and not with the first one; a second run is refused in any place."""

    def stop(*_: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr("kanonflow.pipelines.runs.anonymize_files.run_to_end", stop)
        assert second(nights, "--carry") == 3
    began = written(nights.place / "out2/restricted/cohorts")
    capsys.readouterr()
    assert second(nights, output="other") == 2
    assert "another run continues it already" in capsys.readouterr().err
    first = str(nights.place / "plan.json")
    assert nights.anonymize("2.csv", "out2", "--resume", "--carry", "--plan", first) == 2
    assert "the plan of shards (--plan) is another one" in capsys.readouterr().err
    assert nights.anonymize("2.csv", "out2", "--resume", "--carry") == 0
    assert began.items() <= written(nights.place / "out2/restricted/cohorts").items()
    assert nights.anonymize("2.csv", "out2", "--resume", "--carry", "--plan", str(nights.place / PATH)) == 0
    assert nights.verify("[12].csv", "out1", "out2", flags=["--strict"]) == 0
    assert len(refs(nights, "out1", "out2")) == len(set(refs(nights, "out1", "out2")))


def test_a_plan_of_another_run_is_refused(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the run before, of one in whose place another was made since, of one that has not ended; the first plan."""
    place = nights.place
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1", "--carry") == 0
    capsys.readouterr()
    path = str(place / PATH)
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2", "--plan", path) == 2
    assert "splits shards of another run than this one" in capsys.readouterr().err
    # Made again, of other rows.
    assert nights.anonymize("[12].csv", "again", "--plan", str(place / "plan.json"), "--carry") == 0
    capsys.readouterr()
    assert nights.anonymize("3.csv", "out3", "--continue", "@again", "--plan", path) == 2
    assert "other cohorts" in capsys.readouterr().err
    assert not (place / "out3/restricted/run.json").exists()
    assert not (place / "again/restricted/continued_by.json").exists()
    (place / "again/restricted/ended").unlink()
    assert split(nights, "again", name="early.json") == 2
    assert "has not ended" in capsys.readouterr().err
    assert split(nights, "out1", name="early.json") == 2
    assert "another run continues its cohorts" in capsys.readouterr().err
    assert nights.anonymize("3.csv", "new", "--plan", path) == 2
    assert "An epoch begins with a plan from people" in capsys.readouterr().err
    for name in ("zz", "", "largest2", "../x"):
        assert split(nights, "out2", name="none.json", shard=name or " ") == 2
    assert split(nights, "out2", "--split", "largest", name="none.json") == 2
    assert "names one shard twice" in capsys.readouterr().err
    assert split(nights, "out2", "--shards", "30", name="none.json") == 2
    assert not (place / "none.json").exists()


def test_who_was_forgotten_before_a_split_stays_forgotten(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Between the nights, in the one before and then in the one behind: no value of his is in a part, and his cohort
    stays as it was."""

    def forget(who: int, output: str) -> int:
        (nights.place / "names").write_text(f"p{who:02}\n")
        given = [
            "--individual-file",
            str(nights.place / "names"),
            "--secret-file",
            str(nights.place / "secret"),
        ]
        return main(["forget", str(nights.place / output), *given])

    before = cohorts(nights.place / "out1")
    for who in range(12):
        assert forget(who, "out1") == 0, capsys.readouterr().err
    assert split(nights, "out1", name="plan4.json") == 0
    (nights.place / PATH).write_bytes((nights.place / "plan4.json").read_bytes())
    assert second(nights, "--carry") == 0
    after = cohorts(nights.place / "out2")
    assert set().union(*before.values()) <= set().union(*after.values())
    people = [
        row for path in nights.place.glob("out2/restricted/cohorts/*/*.people.avro") for row in read(path)[1]
    ]
    gone = [row for row in people if row["forgotten"]]
    assert len(gone) == 12
    assert all(row["age"] is None and row["job"] is None for row in gone)
    assert forget(13, "out2") == 0
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2") == 0
    assert nights.verify("3.csv", "out3") == 0, capsys.readouterr().out


def test_a_shard_of_a_partition_with_an_odd_name_is_split(tmp_path: Path) -> None:
    """Names with hyphens, slashes and dots, and none at all; rows go out once."""
    names = ["a-b--c", "../up", "ü [*]?"]
    policy = PLANNED.replace("people:", "partition_by: [shop]\npeople:")
    days = [
        [line(who, day, 17 * who % 1440, f"n{day}-{who}", 3) for who in range(day % 2, 150, 1 + day % 2)]
        for day in (1, 2)
    ]
    made = nights_of(tmp_path / "place", days, policy)
    write_people(made.place, range(120), 3)
    for path in (*made.place.glob("in/*.csv"), made.place / "customers.csv"):
        text = path.read_text()
        for number, name in enumerate(names):
            text = text.replace(f",s{number},", f",{name},").replace(f",s{number}\n", f",{name}\n")
        path.write_text(text)
    assert plan(made, 2) == 0
    assert made.anonymize("1.csv", "out1", "--plan", str(made.place / "plan.json"), "--carry") == 0
    keys = sorted(entered(made.place / "out1"))
    assert split(made, "out1", "--split", keys[0], shard=keys[-1]) == 0
    assert second(made) == 0
    assert len(set(entered(made.place / "out2")) - set(keys)) >= 4
    assert not {keys[0], keys[-1]} & set(entered(made.place / "out2"))
    out = refs(made, "out1", "out2")
    assert len(out) == len(set(out))
    assert sorted([*out, *refused(made, "out1", "out2")]) == sorted(
        row.split(",")[-1] for day in days for row in day
    )
    assert made.verify("[12].csv", "out1", "out2", flags=["--strict"]) == 0


def test_late_and_unreadable_rows_cross_a_split_once(tmp_path: Path) -> None:
    """Rows that wait for an intake, of windows that are not over, that came late, that nobody can read, of people who
    have no others: each is released or rejected once over three nights that split twice."""
    days = [list(day) for day in DAYS]
    for who in range(200, 212):
        own = line(who, 1, who, f"x1-{who}").split(",")
        days[0].append(",".join([*own[:2], "old", *own[3:]]))  # nobody can read it
        days[1 if who % 2 else 2].append(line(who, 2, who, f"x2-{who}"))
    days[0] += [line(who, 4, who, f"x4-{who}") for who in (*range(5), *range(220, 226))]
    days[2] += [line(who, 1, 7, f"late-{who}") for who in (*range(8), *range(230, 236))]
    made = nights_of(tmp_path / "place", days, PLANNED)
    write_people(made.place, NAMED)
    assert plan(made, 2) == 0
    given = ("--plan", str(made.place / "plan.json"), "--carry", "--until", "2024-03-02")
    assert made.anonymize("1.csv", "out1", *given) == 0
    assert split(made, "out1") == 0
    assert second(made, "--carry", "--until", "2024-03-03") == 0
    assert split(made, "out2", name="plan3.json") == 0
    path = str(made.place / "plan3.json")
    assert made.anonymize("3.csv", "out3", "--continue", "@out2", "--plan", path) == 0
    names = ("out1", "out2", "out3")
    assert sorted([*refs(made, *names), *refused(made, *names)]) == sorted(
        row.split(",")[-1] for day in days for row in day
    )
    assert made.verify("*.csv", *names, flags=["--strict"]) == 0


def test_people_whom_a_file_names_later_go_to_parts(nights: Nights) -> None:
    """Those who have a shard stay in their part of it, whatever the file says now."""
    write_people(nights.place, range(100))
    assert second(nights, "--carry") == 0
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2") == 0
    last = entered(nights.place / "out3")
    assert sum(map(len, last.values())) == len(set().union(*last.values())) >= 100
    assert nights.verify("*.csv", "out1", "out2", "out3", flags=["--strict"]) == 0


def test_pipelines_of_ones_own_refuse_a_plan_that_splits(nights: Nights) -> None:
    """They begin epochs, and nobody is in its shards."""
    secret, path = Secret.from_file(str(nights.place / "secret")), nights.place / PATH
    people = (nights.place / "customers.csv").read_text().splitlines()
    named, rows = _table(people[1:], people[0]), _table(DAYS[0])
    policy = nights.place / "policy.yaml"
    with pytest.raises(PlanError, match="splits shards of a run"):
        anonymize_table(rows, policy, secret, text=True, epoch=5, people=named, plan=path)
    with bounded_pipeline() as pipeline:
        names = pipeline | beam.Create(named.to_pylist())
        with pytest.raises(PlanError, match="splits shards of a run"):
            KAnonymize(policy, secret, epoch=5, people=names, plan=path)


def test_a_damaged_state_of_a_shard_splits_nothing(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is laid down of a shard whose files are damaged, and the run before may still be continued."""
    restricted = nights.place / "out1/restricted"
    largest = max(entered(nights.place / "out1").items(), key=lambda each: len(each[1]))[0]
    for path in (
        restricted / "carried" / f"{largest}.state",
        restricted / "cohorts" / largest / "000000.boxes.avro",
    ):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        capsys.readouterr()
        assert second(nights) == 2
        assert "cannot be read" in capsys.readouterr().err
        assert not (restricted / "continued_by.json").exists()
        path.write_bytes(whole)
    record = json.loads((restricted / "run.json").read_text())
    assert record["chain"]["place"] == 0
    assert second(nights) == 0


def test_a_stream_goes_on_with_parts(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the directory of a run that broke off behind the split: what the parts were left and the next day's rows go
    out once under a watermark, and everybody of a cohort of the shard in one part."""

    def stop(*_: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr("kanonflow.pipelines.runs.anonymize_files.run_to_end", stop)
        assert second(nights) == 3
    out = str(nights.place / "out2")
    record = json.loads((nights.place / "out2/restricted/run.json").read_text())
    carried = [
        row["ref"]
        for path in nights.place.glob("out2/restricted/cohorts/*/carried.state")
        for state in [carried_from_bytes(path.read_bytes())]
        for table in [*(batch.rows for batch in state.batches), state.warm.waiting]
        if table is not None
        for row in table.to_pylist()
    ]
    assert carried
    before = cohorts(nights.place / "out1")
    parts = {name for name, _ in entered(nights.place / "out2").items()} - before.keys()
    plain = _plain(nights.place / "policy.yaml")
    bound = bind(
        read_policy(str(plain)),
        pa.schema([(name, pa.string()) for name in HEADER.split(",")]),
        text=True,
        source="test",
    )
    plan_file = asked_plan(None, out, None, resume=True)
    assert plan_file is not None
    epoch = int(record["epoch"], 16)
    stream = TestStream().add_elements(_table(DAYS[1]).to_pylist())
    for day in range(1, 8):
        stream = stream.advance_watermark_to(1709251200 + (day + 1) * 86400 - 0.001)
        stream = stream.advance_watermark_to(1709251200 + (day + 1) * 86400 + 43200)

    def keep(found: list[Any]) -> None:
        released = [each for each in found if not isinstance(each, RejectedRows)]
        rows = [row["ref"] for each in released for row in from_ipc(each.ipc).to_pylist()]
        rows += [
            record["row"]["ref"]
            for each in found
            if isinstance(each, RejectedRows)
            for record in each.records
        ]
        assert sorted(rows) == sorted([*carried, *(told.split(",")[-1] for told in DAYS[1])])
        shards = {each.slot.partition.hex() for each in released}
        assert parts & shards
        assert shards <= parts | before.keys()

    with streaming_pipeline() as pipeline:
        made = (
            pipeline
            | stream
            | KAnonymize(
                bound,
                Secret.from_file(str(nights.place / "secret")),
                epoch=epoch,
                continued=ContinuedCohorts(out, bound, epoch, expects=True),
                chain=Chain(1),
                plan=plan_file[0],
                shards=known_shards(out, plan_file[0]),
            )
        )
        every = (made.released, made.rejected) | beam.Flatten()
        assert_that(every | beam.WindowInto(beam.window.GlobalWindows()), keep)


@pytest.mark.parametrize(("carry", "named"), [(True, True), (False, False)])
def test_what_was_in_one_piece_is_split_and_its_part_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, carry: bool, named: bool
) -> None:
    """A run without a plan, whoever it knew from the start; then a part of it, three nights in all."""
    flags = ("--carry",) if carry else ()
    policy = PLANNED if named else PLANNED.replace("people: customers.csv\n", "")
    made = nights_of(tmp_path / "place", DAYS, policy)
    write_people(made.place, NAMED)
    assert made.anonymize("1.csv", "out1", *flags) == 0
    assert split(made, "out1", shard="largest") == 2
    assert "went by no plan" in capsys.readouterr().err
    assert split(made, "out1", shard="") == 0
    assert second(made, *flags) == 0
    (gone,) = cohorts(made.place / "out1")
    assert gone not in cohorts(made.place / "out2")
    assert split(made, "out2", name="plan3.json") == 0
    path = str(made.place / "plan3.json")
    assert made.anonymize("3.csv", "out3", "--continue", "@out2", "--plan", path) == 0
    last = entered(made.place / "out3")
    assert sum(map(len, last.values())) == len(set().union(*last.values()))
    names = ("out1", "out2", "out3")
    assert sorted([*refs(made, *names), *refused(made, *names)]) == sorted(
        row.split(",")[-1] for day in DAYS for row in day
    )
    capsys.readouterr()
    for number in (1, 2, 3):
        assert made.verify(f"{number}.csv", f"out{number}", flags=["--strict"]) == 0, capsys.readouterr().out
    assert made.verify("*.csv", *names, flags=["--strict"]) == 0, capsys.readouterr().out
    assert made.verify("[23].csv", *names[1:], flags=["--strict"]) == 0, capsys.readouterr().out


def test_who_had_only_a_row_that_nobody_can_read_goes_by_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a window that is not over: the row waits in the first shard, its person enters wherever his values belong,
    with a split in between and without one; the audit finds nothing."""
    days = [list(day) for day in DAYS]
    for who in range(240, 264):
        own = line(who, 4, who, f"x4-{who}").split(",")
        days[0].append(",".join([*own[:2], "old", *own[3:]]))
        days[1].append(line(who, 2, who, f"x2-{who}"))
    for name in ("split", "whole"):
        made = nights_of(tmp_path / name, days, PLANNED)
        write_people(made.place, NAMED)
        assert plan(made, 2) == 0
        given = ("--plan", str(made.place / "plan.json"), "--carry", "--until", "2024-03-02")
        assert made.anonymize("1.csv", "out1", *given) == 0
        if name == "split":
            assert split(made, "out1") == 0
            assert second(made, "--carry", "--until", "2024-03-03") == 0
        else:
            end = ("--carry", "--until", "2024-03-03")
            assert made.anonymize("2.csv", "out2", "--continue", "@out1", *end) == 0
        assert made.anonymize("3.csv", "out3", "--continue", "@out2") == 0
        names = ("out1", "out2", "out3")
        assert sorted([*refs(made, *names), *refused(made, *names)]) == sorted(
            row.split(",")[-1] for day in days for row in day
        )
        capsys.readouterr()
        for number in (1, 2, 3):
            done = made.verify(f"{number}.csv", f"out{number}", flags=["--strict"])
            assert done == 0, capsys.readouterr().out
        assert made.verify("*.csv", *names, flags=["--strict"]) == 0, capsys.readouterr().out


def test_windows_are_split_by_a_field_over_a_split(tmp_path: Path) -> None:
    """Parts of windows in parts of shards."""
    policy = PLANNED.replace("people:", "split_by: [shop]\npeople:")
    days = [
        [row.replace(",s0,", f",s{(who + day) % 2},") for who, row in enumerate(lines)]
        for day, lines in enumerate(DAYS)
    ]
    made = begun(tmp_path / "place", policy, days)
    assert split(made, "out1") == 0
    assert second(made, "--carry") == 0
    assert made.anonymize("3.csv", "out3", "--continue", "@out2") == 0
    names = ("out1", "out2", "out3")
    assert sorted([*refs(made, *names), *refused(made, *names)]) == sorted(
        row.split(",")[-1] for day in days for row in day
    )
    assert made.verify("*.csv", *names, flags=["--strict"]) == 0
