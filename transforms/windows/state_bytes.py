"""How large the state of a partition is, and how large it may be before a runner can no longer keep it.

Of a partition one value holds what waits (rows, the pool) and the event ids seen lately. A runner that cannot store the
value repeats the bundle, for ever, with an error of its own about sizes of commits. So it is refused here, in words.
"""

from __future__ import annotations

from apache_beam.metrics import Metrics

from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.windows.gauges import NAMESPACE

_DATAFLOW_MOST = 64 << 20
"""Dataflow takes values of 80 MB."""

_MOST = 1 << 30
"""Elsewhere a value goes through one message and one array, of 2 GB at most, and there are copies on the way."""


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
        self._last: tuple[WarmState, bytes] | None = None

    def checked(self, key: bytes, warm: WarmState) -> bytes:
        """The bytes of a state. key: of its partition. Gauge: ``state_bytes``, the largest that this copy has seen.

        Asked of a result before it goes out, and again when its state is written, which then takes nothing. Raises
        StateTooLargeError.
        """
        if self._last is not None and self._last[0] is warm:
            _, data = self._last
            self._last = None
            return data
        data = warm.to_bytes()
        self._largest = max(self._largest, len(data))
        Metrics.gauge(NAMESPACE, "state_bytes").set(self._largest)
        if len(data) > self._most:
            raise StateTooLargeError(_told(key, warm, len(data), self._most))
        self._last = warm, data
        return data


def _told(key: bytes, warm: WarmState, size: int, most: int) -> str:
    pool = 0 if warm.roster is None else warm.roster.pool.people.size
    events = sum(digests.size for _, digests in warm.events)
    return (
        f"the state of partition {key.hex()} would have {size:,} bytes, and this runner keeps {most:,}:"
        f" {warm.waiting_rows:,} rows that wait, {pool:,} people who wait for an intake, {events:,} event ids of the"
        " last state_ttl. Of the first two a smaller intake or max_delay leaves fewer, of the last a shorter state_ttl,"
        " of all a field in partition_by that people keep. Nothing of the window was released; go on from the last"
        " checkpoint or savepoint, or with --resume"
    )
