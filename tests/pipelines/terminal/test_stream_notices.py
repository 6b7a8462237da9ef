"""A partition that is parked is said at once, and once."""

from __future__ import annotations

import io
from pathlib import Path

from kanonflow.pipelines.terminal.stream_notices import LOOK_SECONDS, StreamNotices
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.lineage.published_slots import PublishedSlots
from kanonflow.transforms.lineage.release_lineage import Slot
from tests.small_feeds import feed_policy

POLICY: Policy = feed_policy()


def park(output: Path, partition: bytes) -> None:
    """Park a partition, as a sink does."""
    slot = Slot(partition, 0, 0, f"id-{partition.hex()}", "digest", 1)
    assert PublishedSlots(str(output), POLICY).park(slot, None)


def test_a_parked_partition_is_told_when_it_is_there_and_not_again(tmp_path: Path) -> None:
    """Nothing while none is parked; one line a partition at the next look, with where to read on; no line twice."""
    terminal, now = io.StringIO(), [0.0]
    notices = StreamNotices(str(tmp_path), terminal, lambda: now[0])
    notices.look()
    assert terminal.getvalue() == ""
    park(tmp_path, b"\x01")
    notices.look()
    assert terminal.getvalue() == "", "an object store is not asked all the time"
    now[0] += LOOK_SECONDS
    notices.look()
    told = terminal.getvalue()
    assert told.count("\n") == 1
    assert "the partition 01 is parked" in told
    assert f"{tmp_path}/restricted/parked/01" in told
    park(tmp_path, b"\x02")
    for _ in range(2):
        now[0] += LOOK_SECONDS
        notices.look()
    assert terminal.getvalue().removeprefix(told).count("is parked") == 1
    assert "the partition 02 is parked" in terminal.getvalue()
