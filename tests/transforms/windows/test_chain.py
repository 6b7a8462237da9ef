"""What a feed leaves of each partition when it ends: on a runner that has a watermark, and as bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import apache_beam.testing.test_stream as stepped
import pytest
from apache_beam.utils.timestamp import Timestamp

from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.files.state_versions import StateError
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.roster import RosterHead
from kanonflow.transforms.sinks.sinks import WriteCarried
from kanonflow.transforms.windows.chain import (
    CarriedState,
    Chain,
    carried_from_bytes,
    refuse_other_roster,
)
from kanonflow.transforms.windows.partition_clock import PartitionClock
from tests.runners import streaming_pipeline
from tests.small_feeds import HOUR, SECRET, START, Row, feed_policy, hourly, row

pytestmark = pytest.mark.thorough

POLICY = feed_policy(towns=True, max_delay="2h", cohort="lasting", intake=20, events=True)


def left_by(folder: Path, chain: Chain) -> list[CarriedState]:
    """What a stream of three hours in two towns, with somebody who is alone in a third, leaves when it is drained."""
    rows: list[Row] = [
        {**each, "event": each["reference"]} for each in hourly(3, 40, 25, seed=4, towns=("Bonn", "Kiel"))
    ]
    rows.append({**row(900, 70, 2.5, town="Ulm"), "event": "900"})
    stream = stepped.TestStream()
    for hour in range(3):
        end = START // 1000 + (hour + 1) * 3600
        stream.add_elements(rows[40 * hour : 40 * hour + 40], event_timestamp=Timestamp(end - 1))
        stream.advance_watermark_to(Timestamp(end + 1))
    stream.add_elements(rows[-1:], event_timestamp=Timestamp(START // 1000 + 3 * 3600))
    with streaming_pipeline() as pipeline:
        released = pipeline | stream.advance_watermark_to_infinity() | KAnonymize(POLICY, SECRET, chain=chain)
        _ = released.carried | WriteCarried(str(folder))
    return [
        carried_from_bytes(path.read_bytes()) for path in sorted(folder.glob("restricted/carried/*.state"))
    ]


def test_a_stream_that_ends_leaves_the_pool_of_each_partition(tmp_path: Path) -> None:
    """One state a partition, also of one where nobody entered; no clock and no rows: all of them have left."""
    states = left_by(tmp_path, Chain())
    assert len(states) == 3
    assert [(state.clock, state.rows) for state in states] == [(None, 0)] * 3
    pools = sorted(0 if state.warm.roster is None else state.warm.roster.pool.people.size for state in states)
    assert pools[-1] >= 1
    assert sum(bool(state.warm.events) for state in states) == 2


def test_with_carry_it_leaves_what_waits_and_the_clock(tmp_path: Path) -> None:
    """The row of who is alone is in its window still: later than the end, it is neither released nor rejected."""
    states = left_by(tmp_path, Chain(3, carry=True, until=START + 2 * HOUR))
    assert len(states) == 3
    assert all(state.clock is not None and not state.clock.kept and state.place == 3 for state in states)
    assert sum(state.rows for state in states) >= 41


def test_carried_state_is_read_or_refused() -> None:
    """Of another layout, cut off, or of other cohorts."""
    clock = replace(PartitionClock(), last_end=HOUR, pending=(3,))
    state = CarriedState(b"key", 7, 2, (HOUR, 0, 2 * HOUR), clock, WarmState())
    data = state.to_bytes()
    read = carried_from_bytes(data)
    assert (read.partition, read.epoch, read.place, read.windows) == (b"key", 7, 2, (HOUR, 0, 2 * HOUR))
    assert read.clock == clock
    assert carried_from_bytes(data).to_bytes() == data
    for length in range(0, len(data), 7):
        with pytest.raises(StateError):
            carried_from_bytes(data[:length])
    with pytest.raises(StateError, match="layout 2"):
        carried_from_bytes(data[:4] + (2).to_bytes(4, "little") + data[8:])
    refuse_other_roster(state, b"key", RosterHead(7))
    for key, head in (
        (b"other", RosterHead(7)),
        (b"key", RosterHead(8)),
        (b"key", RosterHead(7, "ab", 1, 3, 1)),
    ):
        with pytest.raises(StateError, match="other cohorts"):
            refuse_other_roster(state, key, head)
