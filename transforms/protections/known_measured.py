"""Whom the measured reader of ``against`` is left with once a release is out: the rows of it as items, counted.

Items are those of the rule that drops (``known_otherwise``): rows that came late, and a part of a split window, are
items of their own. So who knows a window alone, and not with which release its rows came, is left with no fewer.
"""

from __future__ import annotations

from collections import defaultdict

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.protections.intake import Entered, roster_state
from kanonflow.transforms.protections.known_otherwise import items_of_rows, people_of_items
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.ledger import own_ends
from kanonflow.transforms.release.stages import Before
from kanonflow.transforms.roster.items_out import Known
from kanonflow.transforms.roster.known_left import Items, KnownLeft


def counted_of(policy: Policy) -> Known | None:
    """The reader who is counted; None: there is none."""
    against = policy.against
    if against is None or (reader := against.counted) is None:
        return None
    purchases = reader.known_purchases
    count, of = (
        (0, ()) if purchases is None else (purchases.count, tuple(each.name for each in purchases.fields))
    )
    return Known(reader.known_windows.present, count, against.left(policy.k), of)


def left_before(due: Due, before: Before) -> KnownLeft | None:
    """What was counted so far; None: the policy has nothing counted. What another reader was left with begins anew."""
    reader, left = counted_of(due.policy), roster_state(before, due).left
    if reader is None or (left is not None and left.reader == reader):
        return None if reader is None else left
    return KnownLeft(reader, whole=before.roster.head.people == 0)


def left_after(due: Due, entered: Entered, before: Before) -> KnownLeft | None:
    """What is counted once these rows are out. Time: as of ``CohortLeft``, of each cohort with rows here."""
    left = left_before(due, before)
    if left is None or not entered.rows.num_rows:
        return left
    of_row, _, first = items_of_rows(due, entered, left.reader)
    people = people_of_items(entered, of_row, first.size)
    windows: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    purchases: dict[int, set[int]] = defaultdict(set)
    ends = own_ends(entered.rows, due.bound)[first].tolist()
    for cohort, end, own in zip(entered.cohort[first].tolist(), ends, people, strict=True):
        windows[cohort][end] |= own
        purchases[cohort].add(own)
    return left.followed_by(
        {
            cohort: Items(
                frozenset(own.values()) if left.reader.windows else frozenset(),
                frozenset(purchases[cohort]) if left.reader.purchases else frozenset(),
            )
            for cohort, own in windows.items()
        }
    )
