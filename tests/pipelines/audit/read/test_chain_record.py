"""What a run says of its place in a chain, against its releases; and what lies beside its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines.audit.read.chain_record import ChainRecord, judge_place
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.foreign_entries import foreign_entries


@pytest.mark.parametrize(
    ("record", "told", "message"),
    [
        (ChainRecord(1, True, "e", True), {"chain_place": 1, "epoch": "e"}, None),
        (ChainRecord(0, True, "e", False), {"chain_place": None, "epoch": "e"}, None),
        (ChainRecord(None, True, "e", True), {"chain_place": 5, "epoch": None}, None),
        (ChainRecord(1, True, None, True), {"chain_place": 1, "epoch": "e"}, None),
        (None, {"chain_place": 5, "epoch": "e"}, None),
        (ChainRecord(1, True, "e", True), {"chain_place": 2}, "1 releases of another place"),
        (ChainRecord(1, True, "e", True), {"chain_place": None}, "1 releases of another place"),
        (ChainRecord(1, True, "e", True), {"chain_place": 1, "epoch": "f"}, "1 releases of another epoch"),
        (ChainRecord(1, True, "e", False), {"chain_place": 1}, "run.json tells a place"),
        (ChainRecord(0, True, "e", True), {"chain_place": 0}, "run.json tells a place"),
    ],
)
def test_releases_are_of_the_place_and_the_epoch_of_their_run(
    record: ChainRecord | None, told: dict[str, Any], message: str | None
) -> None:
    """As far as either is told."""
    findings = Findings()
    judge_place(record, {"r": told}, findings)
    if message is None:
        assert findings.messages() == ()
    else:
        assert [each.startswith(message) for each in findings.messages()] == [True]


def test_three_foreign_entries_are_named(tmp_path: Path) -> None:
    """Of more there is a number; of several outputs each name has its output's before it."""
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        (folder / "release").mkdir(parents=True)
        (folder / "restricted/rejected").mkdir(parents=True)
        (folder / "second-1").mkdir()
    assert foreign_entries([one]) == foreign_entries([one, other]) == ()
    (one / "a").touch()
    (one / "restricted/b").touch()
    (one / "restricted/rejected/c").touch()
    assert foreign_entries([one]) == ("a", "restricted/b", "restricted/rejected/c")
    assert foreign_entries([one, other])[:1] == ("one/a",)
    (one / "d").touch()
    assert foreign_entries([one]) == ("a", "d", "restricted/b", "and 1 more")
