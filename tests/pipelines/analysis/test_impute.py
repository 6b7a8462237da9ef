"""``impute``: every value is one of its row's box, people make the hulls, and models see what they would have seen."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.analysis.combine import combine
from kanonflow.pipelines.analysis.impute import _weighed, hull_draws
from kanonflow.pipelines.analysis.released_fields import Kind, ReleasedField, ReleaseForm
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.published_member import PUBLISHED
from tests.made_releases import JOBS, QUASIS, SCHEMA, K, made, write_release

TREE = Hierarchy(tuple(JOBS))


def released(seed: int, count: int = 60) -> ReleasedTable:
    """A release with a field of every type."""
    one = made(seed, count)
    return ReleasedTable.of(one.released, one.bound)


def inside(value: object, box: object) -> bool:
    """Whether a value is one of a released cell's."""
    if isinstance(box, dict):
        return box["nulls"] if value is None else box["min"] is not None and box["min"] <= value <= box["max"]
    if isinstance(box, list):
        return value in box
    if box == TREE.root:
        return value is None or value in TREE.leaves
    return value is None if box is None else any(row[0] == value and box in row for row in JOBS)


def test_every_imputed_value_is_one_of_its_box_and_has_the_type_of_the_input() -> None:
    """Of all types, coded ends and missing values among them, weighed by an outcome or not; payload is untouched. The
    same seed gives the same tables, another one others."""
    for seed in range(1, 2):
        release = released(seed, 90)
        boxes = release.arrow()
        for outcome in (None, "amount", "flag"):
            tables = release.impute(2, outcome=outcome, seed=5)
            for table in tables:
                assert table.column_names == boxes.column_names
                for field in boxes.schema:
                    if field.name not in QUASIS:
                        assert table.column(field.name).equals(boxes.column(field.name))
                        continue
                    assert table.schema.field(field.name).type == SCHEMA.field(field.name).type
                    values, cells = table.column(field.name).to_pylist(), boxes.column(field.name).to_pylist()
                    assert all(map(inside, values, cells)), (field.name, outcome)
            assert not tables[0].equals(tables[1])
    again, other = (release.impute(1, outcome="flag", seed=asked)[0] for asked in (5, 6))
    assert again.equals(tables[0])
    assert not other.equals(again)


def test_the_people_of_a_box_make_its_hull() -> None:
    """Ends of ranges, missing values and members of sets are somebody's; a label is the nearest above its people."""
    for seed in range(4):
        release = released(seed)
        draws = hull_draws(release)
        draw = draws.draw(np.random.default_rng(seed))
        assert np.all(np.diff(draw.starts) >= K)
        for place, row in enumerate(release.arrow().take(pa.array(draws.boxes.first)).to_pylist()):
            for name, column in draw.people.items():
                values = column.slice(draw.starts[place], np.diff(draw.starts)[place]).to_pylist()
                box, there = row[name], [value for value in values if value is not None]
                if isinstance(box, dict):
                    assert (min(there, default=None), max(there, default=None)) == (box["min"], box["max"])
                    assert (None in values) == box["nulls"]
                elif isinstance(box, list):
                    assert set(values) == set(box)
                elif box is not None and len(below := {row[0] for row in JOBS if box in row}) > 1:
                    level = next(row.index(box) for row in JOBS if row[0] in below)
                    children = {row[level - 1] for row in JOBS if row[0] in values} | ({None} & set(values))
                    assert len(children) > 1


def test_labels_stay_without_their_hierarchy() -> None:
    """And a hierarchy that lacks one is refused."""
    one = made(1, 40)
    release = ReleasedTable(one.released, released(1).form)
    (table,) = release.impute(1, seed=1)
    assert table.column("job").equals(one.released.column("job"))
    other = Hierarchy((("x", "all"), ("y", "all")))
    with pytest.raises(InputError, match="job: the release has labels that the given hierarchy has not"):
        ReleasedTable(one.released, released(1).form, {"job": other}).impute(1, seed=1)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"m": 0}, "m: must be"),
        ({"outcome": "age"}, "outcome age: must be a field that is published as it is"),
        ({"outcome": "release_id"}, "must be a field that is published as it is"),
        ({"outcome": "uid"}, "values without an order"),
        ({"outcome": "nothing"}, "the release has no field nothing"),
    ],
)
def test_what_cannot_be_imputed_by_is_refused(asked: dict, message: str) -> None:
    """By name."""
    with pytest.raises(InputError, match=message):
        released(1).impute(**{"m": 1, "seed": 1} | asked)


def plain(k: int, x: np.ndarray, y: np.ndarray, group: np.ndarray, member: np.ndarray) -> ReleasedTable:
    """A release of numbers: of each group the range of its x."""
    low, high = (np.array([edge(x[group == each]) for each in group]) for edge in (np.min, np.max))
    box = pa.StructArray.from_arrays(
        [pa.array(low), pa.array(high), pa.array(np.zeros(x.size, bool))], names=["min", "max", "nulls"]
    )
    table = pa.table({"x": box, "y": pa.array(y), "member": pa.array([f"{each:016x}" for each in member])})
    fields = (
        ReleasedField("x", Kind.RANGE, pa.float64()),
        ReleasedField("y", Kind.EXACT, pa.float64()),
        ReleasedField("member", Kind.EXACT, pa.string(), coarse=PUBLISHED),
    )
    return ReleasedTable(table, ReleaseForm(table.schema, fields, k, "made"))


def test_a_number_a_person_is_one_of_the_people() -> None:
    """All rows of a number in a box have one value, two numbers of a box are two people; so, too, by an outcome."""
    random = np.random.default_rng(3)
    group, member = np.repeat(np.arange(5), 12), np.arange(60) // 4
    release = plain(3, random.normal(size=60), random.normal(size=60), group, member)
    for outcome in (None, "y"):
        values = np.asarray(release.impute(1, outcome=outcome, seed=2)[0].column("x")).reshape(15, 4)
        assert np.all(values == values[:, :1])
    draws = hull_draws(release)
    person = draws.dealt(draws.draw(random), random)
    assert np.unique(person).size == 15


def test_an_outcome_mends_slopes_that_even_draws_draw_towards_nothing() -> None:
    """Of a line y = x + e in wide boxes; the interval by Rubin's rules holds the slope."""
    random = np.random.default_rng(8)
    x = random.normal(size=2000)
    y = x + random.normal(size=x.size)
    group = np.empty(x.size, np.int64)
    group[np.argsort(x + random.normal(size=x.size) * 0.4)] = np.arange(x.size) // 6
    release = plain(6, x, y, group, np.arange(x.size))

    def slopes(outcome: str | None) -> tuple[list[float], list[float]]:
        found = []
        for table in release.impute(5, outcome=outcome, seed=4):
            values, told = np.asarray(table.column("x")), np.asarray(table.column("y"))
            spread = values - values.mean()
            slope = float(spread @ told / (spread @ spread))
            off = told - told.mean() - slope * spread
            found.append((slope, float(off @ off / (x.size - 2) / (spread @ spread))))
        return tuple(map(list, zip(*found, strict=True)))  # type: ignore[return-value]

    even, _ = slopes(None)
    assert np.mean(even) < 0.92
    pooled = release.combine(*slopes("y"), rows_less_coefficients=x.size - 2)
    assert pooled.lower < 1.0 < pooled.upper
    assert abs(pooled.estimate - 1.0) < 0.07


def test_rows_are_weighed_as_a_slow_twin_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares times likelihoods, person by person; in pieces as in one."""
    release = released(2)
    draws = hull_draws(release)
    draw = draws.draw(np.random.default_rng(1))

    class Favours:
        """The people whose number is a multiple of 3; of row 0, nobody in particular."""

        def log(self, rows: np.ndarray, people: np.ndarray) -> np.ndarray:
            return np.where(rows == 0, 0.0, np.where(people % 3 == 0, 0.0, -1.0))

    counts = np.zeros((len(release), draw.box.size))
    for seed in range(800):
        person = _weighed(draws, draw, Favours(), np.random.default_rng(seed))
        counts[np.arange(len(release)), person] += 1
    box = draws.box_of_rows
    for row in range(len(release)):
        people = np.arange(draw.starts[box[row]], draw.starts[box[row] + 1])
        likely = draw.shares[people] * np.where((row == 0) | (people % 3 == 0), 1.0, np.exp(-1.0))
        assert np.abs(counts[row, people] / 800 - likely / likely.sum()).max() < 0.08
        assert counts[row].sum() == counts[row, people].sum() == 800
    whole = _weighed(draws, draw, Favours(), np.random.default_rng(1))
    monkeypatch.setattr("kanonflow.pipelines.analysis.impute.PAIRS", 1)
    pieces = _weighed(draws, draw, Favours(), np.random.default_rng(1))
    assert np.array_equal(box, draw.box[whole])
    assert np.array_equal(box, draw.box[pieces])


def test_rubins_rules_are_those_worked_out_by_hand() -> None:
    """Q = 2, U = 1/2, B = 1: T = 11/6, l = 8/11, v_m = 121/32; v_o = 101/103 * 100 * 3/11."""
    found = combine([1.0, 2.0, 3.0], [0.25, 0.5, 0.75], rows_less_coefficients=100)
    own, observed = 121 / 32, 101 / 103 * 100 * 3 / 11
    assert found.estimate == 2
    assert (found.within, found.between) == (0.5, 1.0)
    assert found.variance == pytest.approx(11 / 6)
    assert found.imputed_share == pytest.approx(8 / 11)
    assert found.degrees_of_freedom == pytest.approx(own * observed / (own + observed))
    assert combine([1, 2, 3], [0.25, 0.5, 0.75]).degrees_of_freedom == pytest.approx(own)
    # Student's t of 2 degrees of freedom, 4.302653; of 4, 2.776445: as tables have them.
    wide = combine([1.0, 2.0, 3.0], [0, 0, 0])
    assert wide.degrees_of_freedom == pytest.approx(2)
    assert wide.upper - 2 == pytest.approx(4.302653 * np.sqrt(4 / 3), rel=1e-6)
    # Of tables that do not differ what remains is one table's interval.
    alike = combine([[2.0, 5.0]] * 4, [[1.0, 4.0]] * 4)
    assert alike.lower == pytest.approx([2 - 1.959964, 5 - 2 * 1.959964], abs=1e-6)
    for wrong in (
        ([1.0], [1.0]),
        ([1.0, 2.0], [1.0]),
        ([1.0, 2.0], [-1.0, 1.0]),
        ([1.0, np.nan], [1.0, 1.0]),
    ):
        with pytest.raises(InputError, match="combine: "):
            combine(*wrong)


def test_the_command_writes_what_python_gives_and_says_that_rows_are_invented(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Parquet and CSV; nothing is replaced, nothing of the release is touched."""
    one = made(3, 40, lasting=True)
    file = write_release(tmp_path, one)
    before = file.read_bytes()
    (tmp_path / "jobs.csv").write_text("\n".join(";".join(row) for row in JOBS) + "\n")
    asked = ["impute", str(tmp_path), "-m", "2", "--seed", "9", "--outcome", "amount"]
    job = ["--hierarchy", f"job={tmp_path}/jobs.csv"]
    assert cli.main([*asked, *job, "--json"]) == 0
    told = capsys.readouterr()
    assert "imputed rows are invented: they are no people" in told.err
    assert "invented" in json.loads(told.out)["invented"]
    from kanonflow import read_release

    expected = read_release(tmp_path, hierarchies={"job": TREE}).impute(2, outcome="amount", seed=9)
    for number, table in enumerate(expected, start=1):
        found = pyarrow.parquet.read_table(tmp_path / "imputed" / f"imputed-{number}.parquet")
        assert found.equals(table)
        assert b"invented" in found.schema.metadata[b"kanonflow.imputed"]
    assert cli.main(asked) == 2
    assert "is there already, and is not replaced" in capsys.readouterr().err
    assert cli.main([*asked, "--to", "csv", "--output", str(tmp_path / "csv")]) == 0
    assert "labels stay as they were released: job" in capsys.readouterr().err
    rows = pyarrow.csv.read_csv(tmp_path / "csv" / "imputed-2.csv")
    assert rows.num_rows == 40
    assert pc.max(rows.column("age")).as_py() <= 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["csv", "imputed", "jobs.csv", "release"]
    assert file.read_bytes() == before
    with pytest.raises(SystemExit):
        cli.main(["impute", str(tmp_path), "--hierarchy", "job"])
