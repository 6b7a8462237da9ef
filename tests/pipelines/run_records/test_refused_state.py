"""A job whose state was refused ends itself, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanonflow.pipelines.run_records import refused_state
from kanonflow.pipelines.run_records.refused_state import RefusedState
from kanonflow.transforms.lineage.published_slots import refusal_file


def test_a_refusal_that_a_new_start_took_away_ends_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """run.json names the new job by then: the old one, still idle, would end that one."""
    ended: list[tuple[str, str]] = []
    record = {"job": {"cluster": "http://c", "name": "new"}}
    monkeypatch.setattr(refused_state, "read_record", lambda _: record)
    monkeypatch.setattr(refused_state, "cancel_jobs", lambda cluster, name: ended.append((cluster, name)))
    refused = RefusedState(str(tmp_path))
    refused.end_job()
    assert ended == []
    told = Path(refusal_file(str(tmp_path)))
    told.parent.mkdir(parents=True)
    told.write_text('{"reason": "older"}')
    refused.end_job()
    assert ended == [("http://c", "new")]
