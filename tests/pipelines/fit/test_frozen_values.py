"""What ``policy check`` counts as misfits, and the run releases all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanonflow.pipelines.analysis.released_table import read_release
from kanonflow.pipelines.cli import main
from tests.nightly import night_lines, nights_of

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("cohort", ["lasting", "window"])
def test_the_check_says_which_misfits_are_released_all_the_same(
    tmp_path: Path, cohort: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row of a known person whose age cannot be read: counted, explained in a line, and released under the frozen
    values. Where cohorts do not last there is no such line, and it is rejected."""
    lines = night_lines(1)
    known = next(each.split(",") for each in lines)
    bad = f"{known[0]},2024-03-02 10:00:00,?,{known[3]},{known[4]},1.00,bad"
    nights = nights_of(tmp_path / "place", [lines, [*night_lines(2), bad]])
    if cohort == "window":
        text = (
            (nights.place / "policy.yaml").read_text().replace("cohort: lasting\nintake: 6", "cohort: window")
        )
        (nights.place / "policy.yaml").write_text(text)
    main(["policy", "check", str(nights.place / "policy.yaml"), "--input", str(nights.place / "in/2.csv")])
    said = capsys.readouterr().out
    assert ("under the values frozen at entry" in said) == (cohort == "lasting")
    outputs = nights.chain(2)
    released = read_release(nights.place / outputs[1]).arrow().column("ref").to_pylist()
    assert ("bad" in released) == (cohort == "lasting")
