"""What a run says of its place in a chain of runs: restricted/run.json, and what must agree with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kanonflow.pipelines.audit.read.findings import Findings


@dataclass(frozen=True)
class ChainRecord:
    """place: 0 for the run that began its epoch; None: it tells none, as runs of older builds do. carry: whether what
    waits at its end is left for the next run. epoch: None: it tells none. continued: whether it continues another."""

    place: int | None
    carry: bool
    epoch: str | None
    continued: bool


def chain_record(folder: Path) -> ChainRecord | None:
    """What the run in ``folder`` says; None: it says nothing, or nothing that can be read."""
    path = folder / "restricted" / "run.json"
    try:
        record = json.loads(path.read_text()) if path.is_file() else None
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    chain = record.get("chain")
    told: Mapping[str, Any] = chain if isinstance(chain, dict) else {}
    place, epoch = told.get("place"), record.get("epoch")
    return ChainRecord(
        place if isinstance(place, int) and not isinstance(place, bool) else None,
        told.get("carry") is True,
        epoch if isinstance(epoch, str) else None,
        record.get("continued") is True,
    )


def judge_place(
    record: ChainRecord | None, metrics: Mapping[str, Mapping[str, Any]], findings: Findings
) -> None:
    """Its releases are those of its place, as the metrics (by release) tell, and of its epoch."""
    if record is None:
        return
    if record.place is not None:
        if (record.place > 0) != record.continued:
            findings.add(
                "run.json tells a place in its chain that does not fit to whether it continues a run"
            )
        other = [name for name, told in metrics.items() if (told.get("chain_place") or 0) != record.place]
        if other:
            findings.add(f"{len(other)} releases of another place in the chain than that of the run", *other)
    strange = [name for name, told in metrics.items() if told.get("epoch") not in (None, record.epoch)]
    if record.epoch is not None and strange:
        findings.add(f"{len(strange)} releases of another epoch than run.json tells", *strange)
