"""What an audit has read: records and rows as codes, in which window of which partition each may be."""

from dataclasses import dataclass

import numpy as np

from kanonflow.pipelines.audit.read.boxes import BoxBook
from kanonflow.pipelines.audit.read.carried_state import Carried
from kanonflow.pipelines.audit.read.equal_rows import group_rows
from kanonflow.pipelines.audit.read.read_cohorts import EnteredSegment
from kanonflow.pipelines.audit.read.read_releases import ReleasedRows, ReleaseHead
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy

# No window has this number: a record whose time is unknown fits no release.
NO_WINDOW = -(2**62)
NOTHING = Carried({}, None)


@dataclass(frozen=True)
class Evidence:
    """What was read: the records not rejected and the released rows, both as codes. ``every``: all records, of which
    ``stays``, bool, are ``records``. ``waiting``: whether some of these may wait for their
    release; ``metrics``: whether there are any. ``segments``: who entered, with cohorts that last; None: it cannot be
    judged. ``carried``: what other runs of the chain have to do with it.
    ``seen``, bool: which of all records came into a window. ``runs``: whether several runs are audited as one."""

    bound: BoundPolicy
    books: tuple[CodeBook, ...]
    box_books: tuple[BoxBook, ...]
    records: np.ndarray
    released: ReleasedRows
    every: np.ndarray
    stays: np.ndarray
    waiting: bool
    metrics: bool
    segments: tuple[EnteredSegment, ...] | None
    carried: Carried
    seen: np.ndarray
    runs: bool

    def place_of(self, name: str) -> int:
        """The column of a field in ``records``."""
        return self.bound.place(name)

    def columns(self, records: np.ndarray, names: list[str]) -> np.ndarray:
        """Those of some fields, int32 (n, f)."""
        return records[:, [self.place_of(name) for name in names]]


def partitions_of(evidence: Evidence) -> tuple[np.ndarray, list[int]]:
    """The number int32 (n,) of each record's partition, and that of each release's: -1 for one no record has."""
    own = evidence.columns(evidence.records, list(evidence.bound.policy.partition_by))
    first, partition, _ = group_rows(own)
    number_of = {tuple(own[row].tolist()): number for number, row in enumerate(first)}
    return partition, [number_of.get(head.partition, -1) for head in evidence.released.heads]


def windows_of(evidence: Evidence, records: np.ndarray) -> np.ndarray:
    """Window number int64 (n,) of every record: floor((time - offset) / size); 0 without windows."""
    policy = evidence.bound.policy
    if policy.time is None:
        return np.zeros(len(records), np.int64)
    column = evidence.place_of(policy.time.name)
    numbers = [window_number(value, policy) for value in evidence.books[column].values]
    return np.array([*numbers, NO_WINDOW], np.int64)[records[:, column]]


def window_number(instant: object, policy: Policy) -> int:
    """The number of the window that holds an instant, in milliseconds since 1970 UTC."""
    if not isinstance(instant, int) or policy.window_ms is None:
        return NO_WINDOW
    return (instant - policy.window_offset_ms) // policy.window_ms


def window_range(head: ReleaseHead, policy: Policy) -> tuple[int, int]:
    """First and last window whose records may be in the release.

    The release says that its oldest record is of the window at its start, and the policy that no record waits
    longer than max_delay after its own window's end; those of a closing release did before its run began. A release
    of unknown windows holds nothing.
    """
    if policy.window_ms is None:
        return 0, 0
    if head.start is None or head.end is None:
        return 1, 0
    first, last = window_number(head.start, policy), window_number(head.end, policy) - 1
    if head.closing:
        return first, last
    # Rounded up: only a window that ends at head.end - max_delay or later may have waited for this release.
    return max(first, window_number(head.end - policy.max_delay_ms - 1, policy)), last
