"""What lies in an output directory and is no run's: it is said, so that nobody gives it away with the releases."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from kanonflow.schemas.printable import printable
from kanonflow.transforms.files.storage import is_local

_OF_RUNS = frozenset(
    {
        "release",
        "restricted",
        "metrics",
        "feed",
        "verdict.json",
        "certificate.html",
        "promise.json",
        "renewal.json",
    }
)
"""What runs write, and ``verify`` and ``report``; ``feed`` is the demo's."""
_SECOND = re.compile(r"second-[0-9]+")
_NAMED = 5
"""Names that are told; of more, how many there are."""


def foreign_files(output: str) -> tuple[str, ...]:
    """What lies in a local output directory and is no run's, by name; hidden files are nobody's."""
    if not is_local(output) or not os.path.isdir(output):
        return ()
    names = (name for name in sorted(os.listdir(output)) if not name.startswith("."))
    return tuple(name for name in names if name not in _OF_RUNS and not _SECOND.fullmatch(name))


def strangers_note(output: str, names: Sequence[str]) -> tuple[str, ...]:
    """What to say of them; nothing of none."""
    if not names:
        return ()
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    named = ", ".join(map(printable, names[:_NAMED]))
    return (
        f"{output} also holds what is not of a run and is left as it is: {named}{more}. A directory of"
        " its own for each run keeps what may be given away apart from what may not.",
    )
