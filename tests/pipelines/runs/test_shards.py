"""``--plan``: partitions cut into shards, through runs, chains, resumed runs, pipelines of one's own and the audit."""

from __future__ import annotations

import json
import shlex
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
from kanonflow.transforms.shards.shard_plan import PlanError, ShardPlan
from tests.nightly import HEADER, JOBS, POLICY, Nights, line, nights_of
from tests.pipelines.audit.good_runs import read
from tests.runners import bounded_pipeline, streaming_pipeline

PLANNED = POLICY.replace("partition_by: [shop]", "people: customers.csv")
NAMED = (*range(20), *range(60, 80))
"""Half of them never have a row."""
DAYS = [
    [line(who, day, 60 * who % 1440, f"n{day}-{who}") for who in range(6 * day + 24)] for day in (1, 2, 3)
]


def write_people(place: Path, named: Any = NAMED, shops: int = 1) -> None:
    """The file of people, beside the policy."""
    lines = ["who,age,job,shop"]
    for who in named:
        name, _, age, job, shop, *_ = line(who, 1, 0, "", shops).split(",")
        lines.append(f"{name},{age},{job},{shop}")
    (place / "customers.csv").write_text("\n".join(lines) + "\n")


def plan(nights: Nights, shards: int = 3, *flags: str, name: str = "plan.json") -> int:
    """kanonflow plan, over the people of the policy."""
    place = nights.place
    given = ["--policy", str(place / "policy.yaml"), "--input", str(place / "in" / "1.csv")]
    given += ["--shards", str(shards), "--output", str(place / name), "--accept-small", "--threads", "1"]
    return main(["plan", *given, *flags])


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """Three nights, people who are known, a plan for three shards of them."""
    made = nights_of(tmp_path / "place", DAYS, PLANNED)
    write_people(made.place)
    assert plan(made) == 0
    return made


def entered(output: Path) -> dict[str, set[int]]:
    """By key of a shard, who entered there."""
    found: dict[str, set[int]] = {}
    for path in output.glob("restricted/cohorts/*/*.people.avro"):
        people = {record["person"] for record in read(path)[1]}
        found.setdefault(path.parent.name, set()).update(people)
    return found


def rejected(output: Path) -> int:
    """Rows that a run rejected."""
    return sum(len(read(path)[1]) for path in output.glob("restricted/rejected/*.avro"))


def test_people_are_in_one_shard_each(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the file and newcomers; every row is released or rejected, and the plan with its keys is there."""
    assert nights.anonymize("*.csv", "out", "--plan", str(nights.place / "plan.json")) == 0
    assert "1 partition in 3 shards, the smallest of 12 people" in capsys.readouterr().err
    out = nights.place / "out"
    shards = entered(out)
    written = json.loads((out / "restricted/plan.json").read_text())
    assert set(written["partitions"][0]["keys"]) == set(shards)
    assert len(shards) == 3
    people = set().union(*shards.values())
    assert sum(map(len, shards.values())) == len(people)
    assert len(people) > len(NAMED) + 10
    rows = sum(count * len(rows) for rows, count in nights.releases("out").items())
    assert rows + rejected(out) == sum(map(len, DAYS))
    assert rejected(out) < 12
    for name in ("plan.json", "shards.state"):
        assert (out / "restricted" / name).stat().st_mode & 0o777 == 0o600


def test_a_chain_keeps_its_plan_and_a_resumed_run_too(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody changes his shard from night to night, without the flag; another plan, or a first one, is refused."""
    path = str(nights.place / "plan.json")
    assert nights.anonymize("1.csv", "out1", "--plan", path, "--carry") == 0
    assert nights.anonymize("1.csv", "out1", "--resume", "--carry") == 0
    first = entered(nights.place / "out1")
    assert plan(nights, 2, name="other.json") == 0
    other = str(nights.place / "other.json")
    capsys.readouterr()
    assert nights.anonymize("1.csv", "out1", "--resume", "--carry", "--plan", other) == 2
    assert "the plan of shards (--plan) is another one" in capsys.readouterr().err
    assert nights.anonymize("2.csv", "out4", "--continue", "@out1", "--plan", other) == 2
    assert "shards by another plan" in capsys.readouterr().err
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1", "--carry") == 0
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2", "--plan", path) == 0
    last = entered(nights.place / "out3")
    assert set(last) == set(first)
    assert any(first[key] < last[key] for key in first)
    assert all(first[key] <= last[key] for key in first)
    assert sum(map(len, last.values())) == len(set().union(*last.values()))
    assert nights.anonymize("1.csv", "plain1") == 0
    assert nights.anonymize("2.csv", "plain2", "--continue", "@plain1", "--plan", path) == 2
    assert "in one piece" in capsys.readouterr().err


def test_who_has_a_shard_stays_there_whatever_a_file_says_later(nights: Nights) -> None:
    """Newcomers of the first night, named by the second night's file with other values; and who was named before, with
    others than then. Each night's audit passes in full, the chain's as a whole."""
    path = str(nights.place / "plan.json")
    assert nights.anonymize("1.csv", "out1", "--plan", path, "--carry") == 0
    assert nights.verify("1.csv", "out1", flags=["--strict"]) == 0
    lines = (nights.place / "customers.csv").read_text().splitlines()
    aged = [
        ",".join([name, str(98 - int(age)), *rest])
        for name, age, *rest in (row.split(",") for row in lines[1:])
    ]
    later = [line(who, 1, 0, "").split(",") for who in range(20, 44)]
    aged += [f"{row[0]},{98 - int(row[2])},{row[3]},{row[4]}" for row in later]
    (nights.place / "customers.csv").write_text("\n".join([lines[0], *aged]) + "\n")
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1", "--carry") == 0
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2") == 0
    first, last = entered(nights.place / "out1"), entered(nights.place / "out3")
    assert all(first[key] <= last[key] for key in first)
    assert sum(map(len, last.values())) == len(set().union(*last.values())) > len(NAMED) + 20
    for night in ("2", "3"):
        assert nights.verify(f"{night}.csv", f"out{night}", flags=["--strict"]) == 0
    assert nights.verify("*.csv", "out1", "out2", "out3", flags=["--strict"]) == 0


def test_a_chain_comes_to_what_one_run_does(nights: Nights) -> None:
    """Where nothing waits at a night's end: the same groups of the same rows."""
    path = str(nights.place / "plan.json")
    assert nights.anonymize("*.csv", "whole", "--plan", path, "--epoch", f"{5:016x}") == 0
    assert nights.anonymize("1.csv", "out1", "--plan", path, "--epoch", f"{5:016x}", "--carry") == 0
    assert nights.anonymize("2.csv", "out2", "--continue", "@out1", "--carry") == 0
    assert nights.anonymize("3.csv", "out3", "--continue", "@out2") == 0
    assert nights.releases("out1", "out2", "out3") == nights.releases("whole")
    assert entered(nights.place / "whole") == entered(nights.place / "out3")


def test_a_plan_of_other_people_or_of_another_policy_is_refused(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is written, with what to do."""
    path = str(nights.place / "plan.json")
    write_people(nights.place, NAMED[:-1])
    assert nights.anonymize("1.csv", "out", "--plan", path) == 2
    assert "made from other people than" in capsys.readouterr().err
    (nights.place / "policy.yaml").write_text(POLICY.replace("partition_by: [shop]\n", ""))
    assert nights.anonymize("1.csv", "out", "--plan", path) == 2
    assert "name the file that it was made from in the policy (people:)" in capsys.readouterr().err
    (nights.place / "policy.yaml").write_text(
        PLANNED.replace("type: numeric, as: int", "type: numeric, as: long")
    )
    assert nights.anonymize("1.csv", "out", "--plan", path) == 2
    assert "made for another policy" in capsys.readouterr().err
    assert nights.anonymize("1.csv", "out", "--plan", str(nights.place / "none.json")) == 2
    assert "none.json: cannot be read" in capsys.readouterr().err
    assert not (nights.place / "out/release").exists()


def test_plan_refuses_what_makes_no_plan(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody named, a shard without a cohort, very few without a word, a file that is there, another protection."""
    capsys.readouterr()
    assert plan(nights) == 2
    assert "is there already" in capsys.readouterr().err
    assert plan(nights, 30, name="many.json") == 2
    assert "no partition has people for a cohort of 3 in each" in capsys.readouterr().err
    place = nights.place
    given = ["--policy", str(place / "policy.yaml"), "--input", str(place / "in" / "1.csv")]
    assert main(["plan", *given, "--shards", "2", "--output", str(place / "few.json")]) == 2
    assert "--accept-small" in capsys.readouterr().err
    (place / "policy.yaml").write_text(POLICY)
    assert plan(nights, name="nobody.json") == 2
    assert "not from rows: a sample of a feed would tell who was early" in capsys.readouterr().err
    assert plan(nights, 2, "--people", str(place / "customers.csv"), name="named.json") == 0
    (place / "policy.yaml").write_text(POLICY.replace("cohort: lasting\nintake: 6", "cohort: window"))
    assert plan(nights, name="window.json") == 2
    assert "cohort: lasting" in capsys.readouterr().err


def _table(lines: list[str], header: str = HEADER) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(header.split(","), row.split(","), strict=True)) for row in lines])


def _boxes(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr((row["age"], row["job"])) for row in rows)


def read_plan(nights: Nights) -> ShardPlan:
    """The plan of the fixture."""
    found = asked_plan(str(nights.place / "plan.json"), "", None, resume=False)
    assert found is not None
    return found[0]


def test_a_table_and_a_pipeline_of_ones_own_go_by_a_plan(nights: Nights) -> None:
    """They come to what the command does."""
    assert (
        nights.anonymize("*.csv", "out", "--plan", str(nights.place / "plan.json"), "--epoch", f"{5:016x}")
        == 0
    )
    secret, path = Secret.from_file(str(nights.place / "secret")), nights.place / "policy.yaml"
    people = (nights.place / "customers.csv").read_text().splitlines()
    named, rows = _table(people[1:], people[0]), _table([row for day in DAYS for row in day])
    shards = read_plan(nights)
    made = anonymize_table(
        rows, path, secret, text=True, epoch=5, people=named, plan=path.with_name("plan.json")
    )
    expected = _boxes(made.released.to_pylist())
    released = [row for path in nights.place.glob("out/release/*.avro") for row in read(path)[1]]
    assert _boxes(released) == expected

    def keep(releases: list[Any]) -> None:
        assert _boxes([row for each in releases for row in from_ipc(each.ipc).to_pylist()]) == expected

    with bounded_pipeline() as pipeline:
        feed = pipeline | "Rows" >> beam.Create(rows.to_pylist())
        names = pipeline | "People" >> beam.Create(named.to_pylist())
        out = feed | KAnonymize(path, secret, epoch=5, people=names, plan=shards)
        assert_that(out.released | beam.WindowInto(beam.window.GlobalWindows()), keep)
    with pytest.raises(PlanError, match="hand them in"):
        KAnonymize(_plain(path), secret, plan=shards)
    with pytest.raises(PlanError, match="hand them in"):
        anonymize_table(rows, _plain(path), secret, text=True, plan=shards)


def _plain(path: Path) -> Path:
    """The policy without people."""
    plain = path.with_name("plain.yaml")
    plain.write_text(path.read_text().replace("people: customers.csv\n", ""))
    return plain


def test_in_a_stream_strangers_go_on_when_their_window_ends(nights: Nights) -> None:
    """Under a watermark that moves day by day, releases are those of the table."""
    secret, path = Secret.from_file(str(nights.place / "secret")), nights.place / "policy.yaml"
    people = (nights.place / "customers.csv").read_text().splitlines()
    named = _table(people[1:], people[0])
    shards = read_plan(nights)
    rows = [row for day in DAYS for row in day]
    made = anonymize_table(_table(rows), path, secret, text=True, epoch=5, people=named, plan=shards)
    stream = TestStream()
    begin = 1709251200  # the first of March
    for day in range(6):
        lines = DAYS[day] if day < len(DAYS) else []
        stream = stream.add_elements(_table(lines).to_pylist()) if lines else stream
        # Up to the route's timer first: this runner lets a step fire before what the timer before it has sent is there.
        stream = stream.advance_watermark_to(begin + (day + 1) * 86400 - 0.001)
        stream = stream.advance_watermark_to(begin + (day + 1) * 86400 + 43200)

    def keep(releases: list[Any]) -> None:
        found = [row for each in releases for row in from_ipc(each.ipc).to_pylist()]
        assert _boxes(found) == _boxes(made.released.to_pylist())

    with streaming_pipeline() as pipeline:
        names = pipeline | "People" >> beam.Create(named.to_pylist())
        out = pipeline | stream | KAnonymize(path, secret, epoch=5, people=names, plan=shards)
        assert_that(out.released | beam.WindowInto(beam.window.GlobalWindows()), keep)


def test_somebody_in_two_partitions_is_told_over_shards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """People with rows in two shops: each shop has shards, and nobody is divided for being in one of them."""
    policy = POLICY.replace("cohort: lasting", "cohort: lasting\npeople: customers.csv")
    policy = policy.replace("shop: {role: insensitive, accept_risk: made up}", "shop: {role: insensitive}")
    lines = [line(who, 1, who, f"n{who}", 2) for who in range(40)]
    made = nights_of(tmp_path / "place", [lines, [*lines, lines[0].replace(",s0,", ",s1,")]], policy)
    write_people(made.place, range(40), 2)
    assert plan(made, 2) == 0
    path = str(made.place / "plan.json")
    assert made.anonymize("1.csv", "out", "--plan", path) == 0
    assert len(entered(made.place / "out")) == 4
    capsys.readouterr()
    assert made.anonymize("2.csv", "other", "--plan", path) == 3
    assert "1 person has rows in more than one partition" in capsys.readouterr().err


def test_windows_are_split_in_each_shard(tmp_path: Path) -> None:
    """A field of rows splits the window of each shard: people have rows in both parts, and one shard."""
    policy = PLANNED.replace("people:", "split_by: [shop]\npeople:")
    days = [
        [row.replace(",s0,", f",s{(who + day) % 2},") for who, row in enumerate(lines)]
        for day, lines in enumerate(DAYS)
    ]
    made = nights_of(tmp_path / "place", days, policy)
    write_people(made.place)
    assert plan(made, 2) == 0
    assert made.anonymize("*.csv", "out", "--plan", str(made.place / "plan.json")) == 0
    shards = entered(made.place / "out")
    assert len(shards) == 2
    assert sum(map(len, shards.values())) == len(set().union(*shards.values()))
    for rows in made.releases("out"):
        assert len({row[row.index("'shop': ") :].split("'")[3] for row in rows}) == 1
    assert made.verify("*.csv", "out", flags=["--strict"]) == 0


def test_the_page_of_scaling_is_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands, as they stand there, over people enough for sixteen shards, of which one is split."""
    page = (Path(__file__).parents[3] / "docs" / "scaling.md").read_text()
    blocks = [block.partition("```")[0] for block in page.split("```bash\n")[1:]]
    people = range(9_600)
    rows = [[line(who, day, who % 1440, f"n{day}-{who}") for who in people] for day in (1, 2)]
    made = nights_of(tmp_path / "place", rows, PLANNED)
    write_people(made.place, people)
    (made.place / "in").rename(made.place / "feed")
    (made.place / "tonight").mkdir()
    (made.place / "feed" / "2.csv").rename(made.place / "tonight" / "2.csv")
    monkeypatch.chdir(made.place)
    commands = [shlex.split(command)[1:] for block in blocks for command in block.splitlines()]
    assert list(map(main, commands)) == [0, 0, 0, 0]
    assert len(entered(made.place / "out")) == 16
    assert len(entered(made.place / "out2")) == 17


def test_who_is_in_two_partitions_has_a_shard_in_each(tmp_path: Path) -> None:
    """Where the policy accepts it: rows of one shop never go to a shard of the other, though their person is known
    there."""
    policy = POLICY.replace("cohort: lasting", "cohort: lasting\npeople: customers.csv")
    lines = [line(who, 1, who, f"n{who}", 2) for who in range(40)]
    lines += [row.replace(f",s{who % 2},", f",s{1 - who % 2},") + "b" for who, row in enumerate(lines[:16])]
    made = nights_of(tmp_path / "place", [lines], policy)
    write_people(made.place, range(40), 2)
    assert plan(made, 2) == 0
    assert made.anonymize("1.csv", "out", "--plan", str(made.place / "plan.json")) == 0
    shops = [{row["shop"] for row in read(path)[1]} for path in made.place.glob("out/release/*.avro")]
    assert shops
    assert all(len(each) == 1 for each in shops)
    assert made.verify("1.csv", "out") == 0


@pytest.mark.parametrize("job", JOBS[:2])
def test_who_waits_in_a_pool_and_is_named_later_is_counted_as_the_step_does(tmp_path: Path, job: str) -> None:
    """Two bakers who wait since the first night are named with a third, whose rows say another job: three are a cohort,
    so he is expected with them, and his rows find him there, whatever they say."""

    def row(who: int, day: int, work: str) -> str:
        return f"p{who},2024-03-0{day} 10:00:00,30,{work},s0,{who}.00,x{day}-{who}"

    usual = [[line(who, day, who, f"n{day}-{who}") for who in range(20)] for day in (1, 2)]
    days = [
        [*usual[0], row(90, 1, "baker"), row(91, 1, "baker")],
        [*usual[1], row(90, 2, "baker"), row(91, 2, "baker"), row(92, 2, job)],
    ]
    made = nights_of(tmp_path / "place", days, PLANNED.replace("intake: 6", "intake: 60"))
    write_people(made.place, range(40))
    assert plan(made, 2) == 0
    assert made.anonymize("1.csv", "out1", "--plan", str(made.place / "plan.json"), "--carry") == 0
    with (made.place / "customers.csv").open("a") as file:
        file.writelines(f"p{who},30,baker,s0\n" for who in (90, 91, 92))
    assert made.anonymize("2.csv", "out2", "--continue", "@out1") == 0
    released = {row["ref"] for path in made.place.glob("out2/release/*.avro") for row in read(path)[1]}
    assert {"x2-90", "x2-91", "x2-92"} <= released
    assert made.verify("2.csv", "out2") == 0


@pytest.mark.parametrize("job", JOBS[:2])
def test_whom_a_file_names_with_too_few_others_goes_by_his_rows_for_the_audit_too(
    tmp_path: Path, job: str
) -> None:
    """A baker by a later file, whose rows say another job: nobody is named with him, so he is known by his rows, and
    enters where they say, with strangers. The night's audit passes, and that of both nights together."""

    def row(who: int) -> str:
        return f"p{who},2024-03-02 10:00:00,30,{job},s0,{who}.00,x{who}"

    usual = [[line(who, day, who, f"n{day}-{who}") for who in range(20)] for day in (1, 2)]
    made = nights_of(tmp_path / "place", [usual[0], usual[1] + [row(who) for who in range(92, 98)]], PLANNED)
    write_people(made.place, range(40))
    assert plan(made, 2) == 0
    assert made.anonymize("1.csv", "out1", "--plan", str(made.place / "plan.json"), "--carry") == 0
    with (made.place / "customers.csv").open("a") as file:
        file.write("p92,30,baker,s0\n")
    assert made.anonymize("2.csv", "out2", "--continue", "@out1") == 0
    released = {row["ref"] for path in made.place.glob("out2/release/*.avro") for row in read(path)[1]}
    assert {f"x{who}" for who in range(92, 98)} <= released
    assert made.verify("2.csv", "out2") == 0
    assert made.verify("[12].csv", "out1", "out2") == 0


def test_the_graph_of_a_job_holds_no_value_of_a_plan(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds where the plan is: whoever runs a cluster keeps graphs, and a plan states values of people."""
    graphs: list[str] = []

    def run(pipeline: beam.Pipeline, output: str) -> dict[str, int]:
        graphs.extend(repr(step.__dict__) for step in _steps(pipeline))
        raise RuntimeError

    monkeypatch.setattr("kanonflow.pipelines.runs.anonymize_files.run_to_end", run)
    assert nights.anonymize("1.csv", "out", "--plan", str(nights.place / "plan.json")) == 3
    plain = json.loads((nights.place / "plan.json").read_text())["partitions"][0]
    assert {"at_most", "among", "cells"} & {key for node in (plain, *plain["nodes"]) for key in node}
    told = "".join(graphs)
    assert "plan.json" in told
    assert "PartitionCut" not in told


def _steps(pipeline: beam.Pipeline) -> list[Any]:
    """The functions of all steps."""
    found: list[Any] = []

    class Visitor(beam.pipeline.PipelineVisitor):
        def visit_transform(self, node: Any) -> None:
            found.extend([node.transform.fn] if isinstance(node.transform, beam.ParDo) else [])

    pipeline.visit(Visitor())
    return found
