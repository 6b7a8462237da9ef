"""What is tried for fields that are counted by: named fields stay, and the errors are those that a user would meet."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.dry_run.dry_run import dry_run
from kanonflow.pipelines.dry_run.feed import feed_of
from kanonflow.pipelines.dry_run.field_width import FieldWidth
from kanonflow.pipelines.dry_run.stretch import stretch_of
from kanonflow.pipelines.explain.explanation import Explanation, explain
from kanonflow.pipelines.explain.recommendations import recommendations
from kanonflow.pipelines.explain.solved import budget_of
from kanonflow.pipelines.explain.variants import changed
from kanonflow.pipelines.explain.wanted_fields import (
    SECRETS,
    CountedBy,
    ExpectedError,
    Try,
    Wanted,
    wanted_fields,
)
from kanonflow.pipelines.explain.wanted_page import wanted_section
from kanonflow.pipelines.pages.page_text import text_of
from kanonflow.transforms.secret.seeds import Secret
from tests.pipelines.explain.planted_feed import HONEST, POLICY, canonical, honest_rows, planted_rows

BORN = HONEST.replace("  job:", "  home town-2: {role: quasi, type: numeric, as: long}\n  job:")
BORN += "solver: {evaluations_per_row: 30, threads: 1}\n"


def born_rows(people: int = 60, days: int = 20) -> pa.Table:
    """Beside a district and a job everybody has a number, in a column whose name has a hyphen and a space."""
    rows = honest_rows(people, days)
    numbers = [int(name[1:]) * 37 % 101 for name in rows.column("who").to_pylist()]
    return rows.append_column("home town-2", pa.array(numbers))


@pytest.fixture(scope="module")
def wanted() -> Wanted:
    return wanted_fields(*canonical(born_rows(), BORN), ["home town-2", "district"])


def test_a_named_field_is_never_advised_away() -> None:
    """By no sentence; without its name it would be."""
    rows, bound = canonical(planted_rows(), POLICY)

    def left_out(found: Explanation) -> set[str]:
        return {name for each in found.recommendations for name in each.change.get("fields", {})}

    assert {"region", "tariff"} <= left_out(explain(rows, bound, quick=True))
    found = explain(rows, bound, quick=True, needed=["region", "tariff"])
    assert not {"region", "tariff"} & left_out(found)
    assert not any("region follows" in sentence or "Leave region" in sentence for sentence in found.sentences)


@pytest.mark.thorough
def test_no_try_leaves_a_named_field_out(wanted: Wanted) -> None:
    """Nor any but those that are left."""
    assert all(not {"home town-2", "district"} & set(each.without) for each in wanted.tries)
    assert {each.without for each in wanted.tries} == {(), ("job",)}


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::kanonflow.pipelines.estimates.estimate.WideBoundsWarning")
def test_the_error_told_is_what_a_slow_twin_counts(wanted: Wanted) -> None:
    """Releases of the policy by each secret, asked with ``estimate``, against rows that are counted one by one."""
    rows, bound = canonical(born_rows(), BORN)
    feed = feed_of(rows, bound)
    numbers, districts = (rows.column(name).to_pylist() for name in ("home town-2", "district"))
    ends = sorted(2 * numbers)
    # The least value that so large a share of the ends is not above, fiftieth by fiftieth; bands are tenths.
    borders = [ends[int(np.ceil(place / 50 * (len(ends) - 1)))] for place in range(51)]
    borders[0], borders[-1] = -(10**9), 10**9
    bands = {pair for pair in zip(borders, borders[5:], strict=False) if pair[0] < pair[1]}
    errors: dict[str, list[tuple[float, float]]] = {"home town-2": [], "district": []}
    for number in range(SECRETS):
        secret = Secret(b"kanonflow explain --for, secret %d" % number)
        play = changed(bound, {})
        run = dry_run(feed, play, stretch_of(feed, play.policy, budget_of(play.policy)), secret=secret)
        released = ReleasedTable.of(run.released, bound)
        published = bound.quasis[1].published_name
        of_bands = []
        for first, end in bands:
            (row,) = released.estimate("count", by={published: [first, end]}).rows() or [{"value": 0.0}]
            true = sum(first <= value < end for value in numbers)
            of_bands.append(abs(row["value"] - true) / true)
        counted = {
            row["district"]: row["value"]
            for row in released.estimate("count", by={"district": "each"}).rows()
        }
        of_districts = [
            abs(counted.get(name, 0.0) - true) / true for name, true in Counter(districts).items()
        ]
        for name, of_all in (("home town-2", of_bands), ("district", of_districts)):
            errors[name].append((float(np.median(of_all)), float(np.quantile(of_all, 0.9))))
    assert [each.name for each in wanted.asked] == [
        "home town-2",
        "district",
        "home town-2 x district",
    ]
    for asked, told in zip(wanted.asked[:2], wanted.own.errors, strict=False):
        medians = [median for median, _ in errors[asked.name]]
        assert told.median == pytest.approx(float(np.median(medians)))
        assert (told.least, told.most) == pytest.approx((min(medians), max(medians)))
        assert told.ninth == pytest.approx(float(np.median([ninth for _, ninth in errors[asked.name]])))
        assert told.median > 0


def made(error: float, **fields: dict[str, object]) -> Try:
    told = ExpectedError(error, error, error, 2 * error)
    return Try({"fields": fields} if fields else {}, 0.1, 100.0, 0.0, (told,), (error,) * SECRETS)


def test_what_keeps_all_fields_comes_first() -> None:
    """A field is left out where that saves more by half than weights do, and always out of the release altogether."""
    rows, bound = canonical(planted_rows(60, 20), POLICY)
    plain = explain(rows, bound, quick=True).plain.without(["device", "shop", "receipt"])
    own, weighed = made(0.10), made(0.06, birth={"weight": 4.0})
    asked = (CountedBy(("birth",), 10, FieldWidth("birth", "days", 3_000.0, 0.0)),)
    for error, chosen in ((0.05, weighed.name), (0.02, "without job"), (0.098, weighed.name)):
        tries = (
            own,
            *sorted([made(error, job={"role": "identifier"}), weighed], key=lambda each: each.error),
        )
        found = Wanted(("birth",), asked, tries, 100)
        assert found.best is not None
        assert found.best.name == chosen
        advice = [
            each for each in recommendations(plain, None, bound, ["birth"], found) if each.kind == "for"
        ]
        assert [each.change for each in advice] == [found.best.change]
        text = "\n".join(text_of([wanted_section(found, drawn=False)]))
        assert "leaves out its column (role: identifier). Moved to the payload" in text
    assert Wanted(("birth",), asked, (own, made(0.098, job={"role": "identifier"})), 100).best is None


def test_names_that_nobody_counts_by_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All at once, with those there are; names may have spaces and hyphens."""
    pyarrow.csv.write_csv(born_rows(), tmp_path / "in.csv")
    (tmp_path / "p.yaml").write_text(BORN)
    command = [
        "explain",
        "--policy",
        str(tmp_path / "p.yaml"),
        "--input",
        str(tmp_path / "in.csv"),
        "--quick",
    ]
    assert cli.main([*command, "--for", "agee, district, amount, gendr"]) == 2
    told = capsys.readouterr().err
    for words in ("no agee, gendr", "amount (sensitive)", "are district, home town-2, job"):
        assert words in told
    assert cli.main([*command, "--for", 'home town-2,"job"']) == 0
