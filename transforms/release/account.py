"""What a window comes to: the last stage, and the books of all of them.

account(due, before, gathered, unreleased, left, publication) -> WindowResult
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from kanonflow.transforms.release.candidates import without_rejected
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.ledger import Unreleased
from kanonflow.transforms.release.metrics import release_metrics, window_metrics
from kanonflow.transforms.release.stages import Before, Gathered, Left, Publication
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.roster import Roster
from kanonflow.transforms.rows.elements import MatchingRecord, Release


class WindowResult(NamedTuple):
    """release: None when nothing went out. rejected: records of rejected.avsc. metrics: a record of metrics.avsc.

    matching_record: of the release, where one was asked for. roster, segment: as of ``Left``.
    """

    release: Release | None
    warm: WarmState
    rejected: list[dict[str, Any]]
    metrics: dict[str, Any]
    matching_record: MatchingRecord | None = None
    roster: Roster | None = None
    segment: bytes | None = None


def account(
    due: Due,
    before: Before,
    gathered: Gathered,
    unreleased: Unreleased,
    left: Left,
    publication: Publication | None = None,
) -> WindowResult:
    """What a window comes to. unreleased: all of its rows that did not go out. left: what its protection leaves of it.

    Postcondition: rows new + waited = released + rejected + waiting, in the metrics and in what is returned.
    """
    rejected = list(unreleased.rejected)
    state = replace(
        left.warm,
        waiting=unreleased.waiting_rows,
        waiting_reason=unreleased.reasons,
        events=without_rejected(due, gathered.events, rejected),
    )
    metrics = window_metrics(due, gathered, state, rejected)
    record = None
    if publication is not None:
        metrics |= release_metrics(
            due.bound, publication, before.warm.cohorts, state.cohorts, metrics["rows_rejected"]
        )
        record = publication.matching_record
    return WindowResult(
        left.release, state, rejected, metrics | dict(left.told), record, left.roster, left.segment
    )
