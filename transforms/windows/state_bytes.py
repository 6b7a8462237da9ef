"""How large the state of a partition is, and how large it may be before a runner can no longer keep it.

Of a partition a value each holds the rows that wait, the pool, and the event ids of a window (``warm_cells``). A
runner that cannot store a value repeats the bundle, for ever, with an error of its own about sizes of commits. So it is
refused here, in words.
"""

from __future__ import annotations

from apache_beam.metrics import Metrics

from kanonflow.transforms.release.metrics import NAMESPACE
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.windows.warm_cells import CellWrites

_DATAFLOW_MOST = 64 << 20
"""Dataflow takes values of 80 MB."""

_MOST = 1 << 30
"""Elsewhere a value goes through one message and one array, of 2 GB at most, and there are copies on the way."""


_MENDS = {
    "rows that wait": "A smaller intake or max_delay",
    "people who wait for an intake": "A smaller intake",
    "event ids of a window": "A shorter window",
}


class StateTooLargeError(Exception):
    """The state of a partition is larger than its runner keeps; the message says what of, and what to do."""

    exit_code = 3


def most_state_bytes(runner: str) -> int:
    """How large a partition's value may be. runner: its class's name."""
    return _DATAFLOW_MOST if runner.lower().startswith("dataflow") else _MOST


class StateSizes:
    """Looks at each state before it is written. most: bytes of a value. Pickled with the step."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._largest = 0

    def check(self, key: bytes, state: WarmState, writes: CellWrites) -> int:
        """Bytes of a state that is about to be written. key: of its partition. writes: what it takes.

        Gauge: ``state_bytes``, the largest that this copy has seen. Asked of a result before it goes out. Raises
        StateTooLargeError.
        """
        self._largest = max(self._largest, writes.total)
        Metrics.gauge(NAMESPACE, "state_bytes").set(self._largest)
        what, size = max(writes.sizes.items(), key=lambda each: each[1])
        if size > self._most:
            raise StateTooLargeError(_told(key, state, what, size, self._most))
        return writes.total


def _told(key: bytes, state: WarmState, what: str, size: int, most: int) -> str:
    pool = 0 if state.roster is None else state.roster.pool.people.size
    events = sum(digests.size for _, digests in state.events)
    return (
        f"the state of partition {key.hex()} would have {size:,} bytes of {what} in one value, and this runner keeps"
        f" values of {most:,}. It holds {state.waiting_rows:,} rows that wait, {pool:,} people who wait for an intake,"
        f" {events:,} event ids of the last state_ttl. {_MENDS[what]} leaves fewer in a value, and so does a field in"
        " partition_by that people keep. Nothing of the window was released; go on from the last checkpoint or"
        " savepoint, or with --resume"
    )
