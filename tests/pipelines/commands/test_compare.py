"""``kanonflow compare``: losses of every setting, refusals before anything runs, and the front that is drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from kanonflow.pipelines.cli import main
from kanonflow.pipelines.commands.compare import (
    Comparison,
    Outcome,
    Settings,
    compare,
    render,
    write_front,
)
from kanonflow.pipelines.dry_run.side_by_side import side_by_side
from kanonflow.schemas.errors import InputError, PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import load_policy, parse_policy
from tests.page_reading import read_page

pytestmark = pytest.mark.thorough

POLICY = """
version: 1
k: 3
name: small
fields:
  name: identifier
  age: {role: quasi, type: numeric, as: int, domain: [0, 100]}
  job: {role: quasi, type: categorical}
  illness: {role: sensitive}
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A policy and 240 rows; an illness is more frequent among the old."""
    rng = np.random.default_rng(3)
    lines = ["name,age,job,illness"]
    for number in range(240):
        age = int(rng.integers(20, 80))
        illness = rng.choice(["flu", "gout", "ulcer"], p=[0.4, 0.4, 0.2] if age < 50 else [0.2, 0.4, 0.4])
        lines.append(f"n{number},{age},{rng.choice(['baker', 'clerk'])},{illness}")
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "small.yaml").write_text(POLICY)
    return tmp_path / "small.yaml", tmp_path / "rows.csv"


@pytest.fixture
def policy(files: tuple[Path, Path]) -> Policy:
    return load_policy(files[0])


def run(policy: Policy, files: tuple[Path, Path], settings: Settings) -> list[Outcome]:
    return list(compare(policy, [str(files[1])], settings).outcomes)


def test_sizes_of_lasting_cohorts_go_with_k(tmp_path: Path) -> None:
    """A policy's own sizes are for its own k: a larger one has cohorts of that."""
    lines = [f"2020-01-01 {row % 24:02d}:00:00,p{row % 30},{20 + row % 30}" for row in range(60)]
    (tmp_path / "rows.csv").write_text("when,who,age\n" + "\n".join(lines) + "\n")
    fields = {
        "when": "time",
        "who": "individual",
        "age": {"role": "quasi", "type": "numeric", "as": "int", "domain": [0, 100]},
    }
    lasting = {"window": "1d", "cohort": "lasting", "cohort_size": 4, "intake": 5}
    policy = parse_policy({"version": 1, "k": 3, "fields": fields} | lasting, "", "small")
    settings = Settings(["auto"], [3, 6], evaluations=20, threads=1)
    found = list(compare(policy, [str(tmp_path / "rows.csv")], settings).outcomes)
    assert [outcome.k for outcome in found] == [3, 6]


def test_every_combination_is_one_outcome(policy: Policy, files: tuple[Path, Path]) -> None:
    """More protection costs more; the bound is below; a comparison repeats."""
    settings = Settings(["auto", "l-greedy"], [3, 6], "illness", None, [1, 2], evaluations=300, threads=1)
    found = run(policy, files, settings)
    assert [(o.method, o.k, o.limit) for o in found] == [
        (method, k, limit) for method in ("auto", "l-greedy") for k in (3, 6) for limit in (1, 2)
    ]
    for plain, ruled in zip(found[::2], found[1::2], strict=True):
        assert plain.shape == "graph"
        assert ruled.shape == "classes of rows"
        assert plain.shown is None
        assert ruled.shown is not None
        assert ruled.shown >= 2
        assert plain.bound is not None
        assert plain.bound <= plain.loss <= ruled.loss
    losses = {(o.method, o.k, o.limit): o.loss for o in found}
    assert losses["auto", 3, 1] < losses["auto", 6, 1]
    assert losses["auto", 3, 2] < losses["l-greedy", 3, 2]
    again = run(policy, files, settings)
    assert [o.loss for o in again] == [o.loss for o in found]
    assert [(o.count_error, o.mean_error) for o in again] == [(o.count_error, o.mean_error) for o in found]
    errors = [-1.0 if o.count_error is None else o.count_error for o in found]
    assert all(0 <= error < 1 for error in errors)
    assert errors[2] > errors[0], "k = 6 answers worse than k = 3"
    assert all(o.mean_error is None for o in found), "no number is published as it is"


def test_certify_shows_how_far_the_loss_is_above_its_bound(policy: Policy, files: tuple[Path, Path]) -> None:
    """The bound is the proven one, nearer than LB1; only there is a gap shown."""
    plain, proven = run(policy, files, Settings(["auto", "certify"], rows=40, evaluations=100, threads=1))
    assert plain.gap is None
    assert plain.bound is not None
    assert proven.bound is not None
    assert proven.gap == pytest.approx(proven.loss / proven.bound - 1.0)
    assert plain.bound < proven.bound <= proven.loss
    assert f"{proven.gap:.1%}" in render(Comparison((plain, proven), ()), Settings(), policy)


def test_solvers_of_small_windows_are_compared_on_a_part_of_a_large_one(
    policy: Policy, files: tuple[Path, Path]
) -> None:
    """Windows of 200,000 rows are beyond them, by the policy; as many rows as are read are not."""
    settings = Settings(["hungarian", "greedy"], rows=60, evaluations=20, threads=1)
    assert [outcome.released for outcome in run(policy, files, settings)] == [1.0, 1.0]
    with pytest.raises(PolicyError, match="max_window_rows"):
        run(policy, files, replace(settings, rows=None))


def feed_of_days(folder: Path, cohort: str) -> tuple[Policy, str]:
    """Sixty days with some of eighty people each, and a policy over windows of a day."""
    rng = np.random.default_rng(5)
    lines = ["when,who,age,amount"]
    ages = rng.integers(20, 80, 80)
    for day in range(60):
        for who in np.flatnonzero(rng.random(80) < 0.4):
            month, date = divmod(day, 28)
            lines.append(f"2020-{month + 1:02}-{date + 1:02} 10:00:00,p{who},{ages[who]},{rng.integers(9)}")
    (folder / "days.csv").write_text("\n".join(lines) + "\n")
    fields = {
        "when": "time",
        "who": "individual",
        "age": {"role": "quasi", "type": "numeric", "as": "int", "domain": [0, 100]},
        "amount": {"role": "sensitive", "as": "int"},
    }
    mapping = {"version": 1, "k": 3, "fields": fields, "window": "1d", "max_delay": "3d", "cohort": cohort}
    return parse_policy(mapping | ({"intake": 30} if cohort == "lasting" else {}), "", "days"), str(
        folder / "days.csv"
    )


@pytest.mark.parametrize("cohort", ["lasting", "window"])
def test_sampled_windows_tell_what_the_whole_feed_loses(tmp_path: Path, cohort: str) -> None:
    """A third of the rows, whole days in a row: the loss is within 15%, and says of another k what the whole says."""
    policy, path = feed_of_days(tmp_path, cohort)
    settings = Settings([], [3, 6], evaluations=100, threads=1)
    whole = list(compare(policy, [path], settings).outcomes)
    part = list(compare(policy, [path], replace(settings, rows=700)).outcomes)
    for one, other in zip(part, whole, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=0.15)
        assert one.released == pytest.approx(other.released, abs=0.03)
        assert one.count_error is not None
        assert one.bound is not None
    assert part[0].loss < part[1].loss
    again = list(compare(policy, [path], replace(settings, rows=700)).outcomes)
    assert [replace(one, seconds=0.0) for one in again] == [replace(one, seconds=0.0) for one in part]


def test_what_is_infeasible_loses_every_row(policy: Policy, files: tuple[Path, Path]) -> None:
    """Three values cannot show four: the loss is 1, and the table says none."""
    settings = Settings((), [5], "illness", "distinct", [4], evaluations=100, threads=1)
    (only,) = run(policy, files, settings)
    assert (only.loss, only.released, only.bound) == (1.0, 0.0, None)
    assert re.search(
        r"auto\s+5\s+4\s+classes of rows\s+1\.0000\s+-\s+-\s+none",
        render(Comparison((only,), ()), settings, policy),
    )


def test_closeness_has_its_own_axis(policy: Policy, files: tuple[Path, Path]) -> None:
    """A smaller t costs more, and every class is within it; only the first rows are read where that is asked."""
    settings = Settings(
        (), (), "illness", None, (), "equal", [1, 0.4, 0.2], rows=150, evaluations=300, threads=1
    )
    none, far, near = run(policy, files, settings)
    assert none.loss < far.loss < near.loss
    assert near.shown is not None
    assert near.shown <= 0.2 + 1e-8
    assert near.released > 0.9


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(ls=[2]), "--field: which sensitive field"),
        (Settings(field="illness", ls=[2], ts=[0.2]), "--l and --t: give one of them"),
        (Settings(field="ilness", ls=[2]), "--field: ilness is not a field"),
        (Settings(field="age", ls=[2]), "only a field with role: sensitive"),
        (Settings(field="illness", ls=[9]), "must be at most k = 3"),
        (Settings(methods=["magic"]), "solver.method"),
        (Settings(ks=[1]), "k: must be a whole number"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    policy: Policy, files: tuple[Path, Path], settings: Settings, words: str
) -> None:
    """With the words of the policy's own rules."""
    with pytest.raises(PolicyError, match=re.escape(words)):
        run(policy, files, settings)


def test_the_command_prints_a_table_and_draws_the_front(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line of loss against l for each k; nothing else is written."""
    before = set(tmp_path.iterdir())
    command = ["compare", "--policy", str(files[0]), "--input", str(files[1]), "--k", "3,5"]
    command += ["--field", "illness", "--l", "1,2", "--evaluations", "100", "--threads", "1"]
    assert main([*command, "--plot", str(tmp_path / "front.svg")]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[1].split()[:5] == ["method", "k", "l", "from", "loss"]
    assert "count off  mean off" in told[1]
    assert len(told) == 12
    assert told[7].split() == ["method", "k", "l", "GenTotal-IL", "C_AVG", "DM"]
    assert set(tmp_path.iterdir()) - before == {tmp_path / "front.svg"}
    drawing = ElementTree.fromstring((tmp_path / "front.svg").read_text())
    assert drawing.tag.endswith("svg")
    assert main([*command, "--plot", str(tmp_path / "none" / "front.svg")]) == 2
    assert main([*command, "--kind", "distinct", "--l", "7"]) == 2


def test_lists_that_are_none_are_refused(files: tuple[Path, Path]) -> None:
    """Numbers separated by commas, at least one."""
    for flags in (["--k", "a"], ["--k", ","], ["--l", "2", "--t", "0.1"], ["--kind", "many"]):
        with pytest.raises(SystemExit) as raised:
            main(["compare", "--policy", str(files[0]), "--input", str(files[1]), *flags])
        assert raised.value.code == 2


def test_a_front_is_a_drawing_with_its_numbers(policy: Policy, tmp_path: Path) -> None:
    """An .html holds the figures beside it, as every page does; a place that cannot be written is named."""
    found = Comparison((Outcome("auto", 5, None, "graph", 0.2, 0.1, 1.0, None, 0.1),), ())
    write_front(found, Settings(), policy, tmp_path / "k.html")
    page = read_page((tmp_path / "k.html").read_text())
    assert "Loss against k" in page.text
    assert page.tables["outcomes"].column("loss") == [0.2]
    with pytest.raises(InputError, match="--plot"):
        write_front(found, Settings(), policy, tmp_path / "none" / "k.svg")


def test_one_method_that_cannot_be_does_not_end_the_others(policy: Policy, files: tuple[Path, Path]) -> None:
    """It is refused by name; where none is left, the command is."""
    found = compare(policy, [str(files[1])], Settings(["magic", "auto"], evaluations=50, threads=1))
    assert [each.method for each in found.outcomes] == ["auto"]
    (refused,) = found.refused
    assert refused.startswith("magic, k = 3: solver.method")
    assert "not played, magic" in render(found, Settings(), policy)


LEVELS = """
version: 1
k: 3
name: levels
others: drop
fields:
  age: {role: quasi, type: hierarchy, as: int, hierarchy: {widths: [5, 20], domain: [0, 99]}}
  illness: {role: sensitive}
"""


def test_suppression_is_swept_for_solvers_that_publish_levels(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A share each for ola, one run for auto; more suppression lowers levels; LOG, LOS, CM and accuracy are told."""
    (tmp_path / "levels.yaml").write_text(LEVELS)
    command = ["compare", "--policy", str(tmp_path / "levels.yaml"), "--input", str(files[1])]
    command += ["--methods", "ola,auto", "--suppression", "0,0.1,0.5", "--class-field", "illness"]
    command += ["--threads", "1", "--evaluations", "50", "--plot", str(tmp_path / "s.html"), "--json"]
    assert main(command) == 0
    outcomes = json.loads(capsys.readouterr().out)["outcomes"]
    assert [(each["method"], each["suppression"]) for each in outcomes] == [
        ("ola", 0.0),
        ("ola", 0.1),
        ("ola", 0.5),
        ("auto", None),
    ]
    *leveled, plain = [each["figures"] for each in outcomes]
    assert leveled[0]["los"] == 0.0
    assert all(each["los"] <= share for each, share in zip(leveled, (0, 0.1, 0.5), strict=True))
    assert leveled[0]["log"] > leveled[2]["log"]
    assert (plain["log"], plain["los"]) == (None, None)
    for each in (*leveled, plain):
        assert 0 < each["by_class"]["metric"] < 1
        assert each["by_class"]["most"] <= each["by_class"]["exact"]
    page = read_page((tmp_path / "s.html").read_text())
    assert page.tables["measures"].column("suppression") == [0.0, 0.1, 0.5, None]
    assert "Loss against suppression" in page.text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(suppressions=[0.1]), "--suppression: auto publishes no levels"),
        (Settings(class_field="job"), "--class-field: job has role: quasi"),
        (Settings(class_field="jobs"), "--class-field: jobs is not a field"),
    ],
)
def test_measures_that_cannot_be_told_are_refused(
    policy: Policy, files: tuple[Path, Path], settings: Settings, words: str
) -> None:
    """Before anything runs."""
    with pytest.raises(PolicyError, match=re.escape(words)):
        run(policy, files, settings)


def test_a_share_that_is_none_is_refused_and_the_others_are_played(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    """By the setting's name."""
    (tmp_path / "levels.yaml").write_text(LEVELS)
    found = compare(
        load_policy(tmp_path / "levels.yaml"),
        [str(files[1])],
        Settings(["datafly"], suppressions=[0.1, 1.0], threads=1),
    )
    assert [each.suppression for each in found.outcomes] == [0.1]
    assert found.refused[0].startswith("datafly, k = 3, suppression 1: --suppression")


def test_the_loss_that_is_asked_for_is_shown(policy: Policy, files: tuple[Path, Path]) -> None:
    """Beside the one that all settings have."""
    sil = replace(policy, solver=replace(policy.solver, loss="sil"))
    found = compare(sil, [str(files[1])], Settings(evaluations=50, threads=1))
    assert found.outcomes[0].asked_loss is not None
    assert found.outcomes[0].asked_loss != found.outcomes[0].loss
    assert " sil " in render(found, Settings(), sil)


def test_everything_is_compiled_before_anything_is_timed(
    policy: Policy, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What every setting needs, at once, and before the first is played."""
    calls: list[str] = []
    compiled: list[str] = []

    def compiles(names: Sequence[str], terminal: object) -> None:
        calls.append("compile")
        compiled.extend(names)

    def plays(*given: Any, **named: Any) -> Any:
        calls.append("play")
        return side_by_side(*given, **named)

    monkeypatch.setattr("kanonflow.pipelines.commands.compare.compile_sets", compiles)
    monkeypatch.setattr("kanonflow.pipelines.commands.compare.side_by_side", plays)
    settings = Settings(["auto"], (), "illness", None, [1, 2], evaluations=50, threads=1)
    assert len(compare(policy, [str(files[1])], settings).outcomes) == 2
    assert calls == ["compile", "play"]
    assert {"row_graph", "classes"} <= {name.split()[0] for name in compiled}
