"""What lies in a run's directory, and no run puts there. It is not judged; it is named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kanonflow.schemas.printable import printable

_OF_RUNS = frozenset(
    {
        "release",
        "restricted",
        "metrics",
        "feed",
        "promise.json",
        "renewal.json",
        "verdict.json",
        "certificate.html",
    }
)
_SECOND = re.compile(r"second-[0-9]+")
MATCHING_RECORDS = ("matching_records", "certificates")
"""Where matching records stand in ``restricted/``, and where builds before 0.1.0 put them."""
_RECORDS = ("metrics", "rejected", *MATCHING_RECORDS)
_RESTRICTED = re.compile(
    r"cohorts|carried|ended|parked|divided|shards\.state|slots|solutions|lock|stop|secret|beam\.log.*|error-.*\.log|report\.html|\..*"
    r"|(run|check|measured|summary|verdict|refused|continued_by|plan)\.json.*|" + "|".join(_RECORDS)
)
_MOST_NAMED = 3


def foreign_entries(outputs: Sequence[Path]) -> tuple[str, ...]:
    """Names of the first few in the outputs of runs, and how many more there are: beside the releases, and among the
    restricted records. Of several outputs each name has its output's before it."""
    named = [
        f"{output.name}/{name}" if len(outputs) > 1 else name
        for output in outputs
        for name in sorted(_foreign(output))
    ]
    more = len(named) - _MOST_NAMED
    return (*map(printable, named[:_MOST_NAMED]), *([f"and {more} more"] if more > 0 else []))


def _foreign(folder: Path) -> list[str]:
    found = [
        path.name
        for path in _entries(folder)
        if path.name not in _OF_RUNS and not _SECOND.fullmatch(path.name)
    ]
    found += [
        f"restricted/{path.name}"
        for path in _entries(folder / "restricted")
        if not _RESTRICTED.fullmatch(path.name)
    ]
    for place in _RECORDS:
        below = _entries(folder / "restricted" / place)
        found += [f"restricted/{place}/{path.name}" for path in below if path.suffix != ".avro"]
    return found


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []
