"""Nights that continue each other under ``against``: what was out before counts, and who did not count is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nightly import POLICY, night_lines, nights_of

AGAINST = "against: {known_windows: {count: 2, drop: true}, max_dropped: 1}\ncohort_size: 8"
WITHOUT = POLICY.replace("intake: 6", "intake: 12\ncohort_size: 8")
WITH = WITHOUT.replace("cohort_size: 8", AGAINST)


@pytest.mark.thorough
def test_nights_count_what_was_out_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three nights are audited as one run, by all sets of windows; one begun without the clause is refused under it."""
    nights = nights_of(tmp_path / "with", map(night_lines, range(1, 6)), WITH)
    outputs = nights.chain(4, "--carry")
    capsys.readouterr()
    assert nights.verify("[1-4].csv", *outputs) == 0
    told = capsys.readouterr().out
    assert "rows that are out leave k people to who also knows 2 windows with rows" in told
    other = nights_of(tmp_path / "without", map(night_lines, range(1, 4)), WITHOUT)
    other.chain(1)
    (other.place / "policy.yaml").write_text(WITH)
    assert other.anonymize("2.csv", "out2", "--continue", "@out1") != 0
    assert "against (what is out there already was not counted for it)" in capsys.readouterr().err
    (nights.place / "policy.yaml").write_text(WITHOUT)
    assert nights.anonymize("5.csv", "without", "--continue", "@out4") != 0
    assert "against (it is promised there)" in capsys.readouterr().err


def test_a_run_that_drops_too_much_ends_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And says for whom."""
    nights = nights_of(
        tmp_path,
        [night_lines(1) + night_lines(2) + night_lines(3)],
        WITH.replace("_dropped: 1", "_dropped: 0"),
    )
    assert nights.anonymize("1.csv", "out1") == 3
    assert "so that 2 windows with rows leaves enough people, and max_dropped is 0" in capsys.readouterr().err
