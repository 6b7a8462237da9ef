"""Whether a run's rows were released more than once, and what is then no longer said of the first release."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kanonflow.pipelines.run_records.replaced_file import replace_file
from kanonflow.pipelines.run_records.run_summary import read_json
from kanonflow.pipelines.run_records.verdict import NAME

LOSS = (
    "The promise of 1/k holds for one release of a row. Measured with k = 5, two releases of the same rows leave 3.2 to"
    " 3.7 candidates on average instead of 5, and 7 to 19% of the payloads with a single one: those are told whose they"
    " are. Whoever gets only one of the two is no worse off."
)
IN_CHAIN = "released_again_in_chain"
"""In run.json: of a run that goes on from one whose rows were released again, or from one that goes on from that."""
_PAGES = ("certificate.html", "restricted/report.html")


def released_again(output: str | Path) -> bool:
    """Whether the run below ``output`` released what another run had released, or another one did so with its rows or
    with those of a run that it goes on from, whose people are its own.

    As ``restricted/run.json`` says; without that file nobody knows, and the answer is no.
    """
    return told_again(read_json(Path(output) / "restricted" / "run.json"))


def told_again(record: Mapping[str, Any]) -> bool:
    """``released_again`` of a run.json."""
    return any(record.get(name) for name in ("second_release_of", "second_releases", IN_CHAIN))


def second_release_notes(output: str) -> tuple[str, ...]:
    """What an audit of a run's output has to say about other releases of its rows; nothing when there are none."""
    record = read_json(Path(output) / "restricted" / "run.json")
    notes = []
    if "second_release_of" in record:
        notes.append(f"This is a second release of rows that were released before. {LOSS}")
    if others := record.get("second_releases"):
        places = ", ".join(f"{each['directory']} (policy {each['policy_name']})" for each in others)
        notes.append(f"These rows were released again: {places}. {LOSS}")
    if record.get(IN_CHAIN):
        notes.append(f"Rows of the runs that this one goes on from were released again. {LOSS}")
    return tuple(notes)


def take_back(output: str | Path) -> None:
    """Let verdicts that are kept below ``output`` say that its rows were released again, and remove its pages, which
    did not. Raises OSError: something is there that cannot be changed."""
    root = Path(output)
    for path, private in ((root / NAME, False), (root / "restricted" / NAME, True)):
        if verdict := read_json(path):
            data = json.dumps(verdict | {"second_release": True}, indent=1).encode() + b"\n"
            replace_file(path, data, private=private)
    for name in _PAGES:
        (root / name).unlink(missing_ok=True)
