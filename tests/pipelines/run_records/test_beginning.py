"""How a run begins: every combination of what lies in its output and what is asked, against a table."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from kanonflow.pipelines.run_records.beginning import (
    Beginning,
    Found,
    Refusal,
    RunDirectoryError,
    StreamStart,
    beginning,
    decided,
)

# From above, the first line that fits: + it is so, - it is not, a point: no matter.
TABLE = """
recorded taken published resume stream from_state continues previous runs
.        .     +         -      .      .          .         .        .    OTHERS
+        +     .         -      .      .          .         .        .    OTHERS
+        .     .         -      +      .          .         .        .    OTHERS
.        .     +         +      +      -          .         .        .    STATELESS
+        .     .         +      +      -          .         .        .    STATELESS
.        .     +         +      +      +          .         .        +    RUNNING
+        .     .         +      +      +          .         .        +    RUNNING
-        .     +         +      +      +          .         .        -    UNRECORDED
-        .     +         +      -      .          .         .        .    UNRECORDED
+        .     .         +      +      +          .         .        -    FROM_STATE
+        .     .         +      -      .          .         .        .    RESUME
.        .     -         .      .      .          +         .        .    CONTINUE
.        .     -         .      .      .          -         +        .    NO_SECRETS
.        .     -         .      .      .          -         -        .    NEW
"""
NAMES, *LINES = (line.split() for line in TABLE.strip().splitlines())
OUTCOMES: dict[str, Beginning | Refusal] = {each.name: each for each in (*Beginning, *Refusal)}
EVERY = [Found(**dict(zip(NAMES, each, strict=True))) for each in product((False, True), repeat=len(NAMES))]


def line_of(found: Found) -> int:
    """The first line of the table that fits."""
    told = {name: "+" if getattr(found, name) else "-" for name in NAMES}
    return next(
        place
        for place, line in enumerate(LINES)
        if all(mark in (".", told[name]) for name, mark in zip(NAMES, line, strict=False))
    )


def test_every_combination_is_that_of_the_table() -> None:
    """All 512, and no line of the table is idle."""
    used = set()
    for found in EVERY:
        place = line_of(found)
        used.add(place)
        assert beginning(found) is OUTCOMES[LINES[place][-1]], (found, LINES[place])
    assert (len(EVERY), used) == (512, set(range(len(LINES))))


def test_rows_never_go_out_twice() -> None:
    """Whatever else is asked: over releases nothing begins anew or from another run, nothing goes on without --resume,
    and a stream neither without its state nor beside its own job."""
    for found in EVERY:
        begins = beginning(found)
        if not isinstance(begins, Beginning):
            continue
        if found.published or (found.recorded and (found.taken or found.stream or found.resume)):
            assert begins.used
            assert found.resume
            assert found.recorded
            assert not found.stream or (found.from_state and not found.runs)
        else:
            assert not begins.used


def stream(running: list[Any], *, from_state: bool = True) -> StreamStart:
    """A stream whose job, which runs, is asked for by ``running``."""

    def goes_on(job: Any) -> bool:
        running.append(job)
        return True

    return StreamStart("files", {}, from_state, "--from STATE", goes_on)


def test_a_job_is_asked_for_where_that_decides_only() -> None:
    """Not by a run over files, nor where the stream is refused anyway; where it runs, its name is told."""
    record = {"job": {"name": "nightly"}}
    base = dict.fromkeys(NAMES, False) | {"recorded": True, "taken": True, "published": True, "stream": True}
    asked: list[Any] = []
    with pytest.raises(RunDirectoryError, match="rows must not be published twice"):
        decided("out", Found(**base), record, stream(asked))
    with pytest.raises(RunDirectoryError, match="savepoint with --from STATE"):
        decided("out", Found(**base | {"resume": True}), record, stream(asked, from_state=False))
    assert asked == []
    with pytest.raises(RunDirectoryError, match="out: the job nightly that writes there still runs"):
        decided("out", Found(**base | {"resume": True, "from_state": True}), record, stream(asked))
    assert asked == [record["job"]]
    over_files = Found(**base | {"resume": True, "stream": False})
    assert decided("out", over_files, record, None) is Beginning.RESUME
