"""What the metrics of a run tell, record by record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kanonflow.pipelines.audit.read.read_input import avro_records


def metrics_records(folder: Path) -> Iterator[dict[str, Any]]:
    """All records in ``folder``; of one place, the published release's before the withheld one's."""
    for path in sorted(folder.glob("*.avro")):
        yield from avro_records(path)


def told_metrics(folder: Path) -> dict[str, dict[str, Any]]:
    """The metrics of published releases, by id."""
    return {each["release_id"]: each for each in metrics_records(folder) if each.get("released", True)}
