"""What a chain has read, and how files that were read before are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kanonflow.pipelines.chains.read_before import read_again, read_by_chain, refusal

INPUT = [{"name": "2.csv", "bytes": 9, "content": "bb"}]


def test_a_run_counts_once_it_has_released_or_carries(tmp_path: Path) -> None:
    """Its own files beside those of the runs before; of a run that failed before, those alone."""
    record: dict[str, Any] = {"input": INPUT, "read": [{"name": "1.csv", "content": "aa"}]}
    for folder in ("release", "restricted/carried"):
        (tmp_path / folder).mkdir(parents=True)
    first = [{"name": "1.csv", "content": "aa"}]
    both = [*first, {"name": "2.csv", "content": "bb"}]
    assert read_by_chain(str(tmp_path), record) == first
    (tmp_path / "restricted/carried/00.state").write_bytes(b"pool")
    assert read_by_chain(str(tmp_path), record) == first  # a pool without rows
    assert read_by_chain(str(tmp_path), record | {"chain": {"place": 1, "carry": True}}) == both
    (tmp_path / "release/00.parquet").write_bytes(b"")
    assert read_by_chain(str(tmp_path), record) == both
    assert read_by_chain(str(tmp_path), {"input": [{"topic": "feed"}]}) == []


def test_files_are_known_by_content_and_only_with_rows() -> None:
    """Today's name is the key, the name of the first reading the value."""
    read = [{"name": "1.csv", "content": "aa"}, {"name": "again.csv", "content": "aa"}]
    inputs = [
        {"name": name, "content": content} for name, content in (("x", "aa"), ("empty", "aa"), ("y", "cc"))
    ]
    assert read_again(read, inputs, lambda name: name != "empty") == {"x": "1.csv"}


def test_names_are_few_and_break_no_line() -> None:
    """Five, and how many more there are; a name of a file may hold what a terminal would obey."""
    again = {f"{day}\n.csv": f"{day}\n.csv" for day in range(7)}
    told = refusal("DIR", again, 9)
    assert "\n" not in told
    assert "have read 7 of the 9 files of the input already" in told
    assert "and 2 more" in told
    assert "4" in told.split("already: ")[1].split(" and ")[0]
    assert "5" not in told.split("already: ")[1].split(" and ")[0]
