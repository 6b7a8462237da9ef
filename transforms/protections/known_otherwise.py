"""Which rows of a window go out against a reader who knows some of a person's items (``against``, with ``drop``).

The rule is ``roster/items_out``; here rows become its items: by cohort, own window, and of purchases the published
fields and how many such rows the person has here. Rows that came late, and a part of a split window, are items of
their own. What is decided counts only when the release goes out: what is held was not decided.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.text_values import render_text
from kanonflow.transforms.columns.sort_keys import dense_ranks, sort_keys, whole
from kanonflow.transforms.protections.intake import Entered, roster_state
from kanonflow.transforms.release.canonical_order import blind_order
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.ledger import own_ends
from kanonflow.transforms.release.stages import Before
from kanonflow.transforms.roster.items_out import CohortItems, Dropped, ItemsOut, Known
from kanonflow.transforms.roster.roster import Roster

Numbers = NDArray[np.int64]


class GoesOut(NamedTuple):
    """goes: bool (n,), the rows that go out. after: what is out then; None: the policy drops nothing."""

    goes: NDArray[np.bool_]
    after: ItemsOut | None


def known_of(policy: Policy) -> Known | None:
    """What the policy drops rows for; None: for nobody."""
    against = policy.against
    if against is None or not against.drops:
        return None
    return Known(against.windows, against.purchases, against.left(policy.k), against.of)


def items_before(due: Due, before: Before) -> ItemsOut | None:
    """What of items is out; None: the policy drops nothing.

    Raises PolicyError: people are in cohorts of which it was not counted, or for another reader.
    """
    reader, out = known_of(due.policy), roster_state(before, due).items
    if reader is None or (out is not None and out.reader == reader):
        return None if reader is None else out
    if out is None and before.roster.head.people == 0:
        return ItemsOut(reader)
    raise PolicyError(
        [
            "against: the cohorts here were begun without it, or with another; what is out already was not counted for"
            " it. Put back what the policy said then, or begin an epoch (without --continue, or with a new output)"
        ]
    )


def going_out(due: Due, entered: Entered, before: Before) -> GoesOut:
    """Which rows of a release go out. Raises PolicyError as of ``items_before``.

    Time: near linear in rows and people, and for each item what ``CohortItems`` takes.
    """
    out = items_before(due, before)
    if out is None or not entered.rows.num_rows:
        return GoesOut(np.ones(entered.rows.num_rows, dtype=np.bool_), out)
    of_row, number, first = items_of_rows(due, entered, out.reader)
    again = number[first] > 0
    people = people_of_items(entered, of_row, first.size)
    names = _names(due, entered, of_row, first, out.reader)
    cohorts, ends = entered.cohort[first], own_ends(entered.rows, due.bound)[first]
    gone = set(zip(out.dropped.cohort.tolist(), out.dropped.item.tolist(), strict=True))
    named = zip(cohorts.tolist(), names.tolist(), strict=True)
    may = np.array([each not in gone for each in named], dtype=np.bool_)
    goes = may.copy()
    touched: dict[int, CohortItems] = {}
    begins = np.flatnonzero(np.append(True, (np.diff(cohorts) != 0) | (np.diff(ends) != 0)))
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), first.size], strict=True):
        own = begin + np.flatnonzero(goes[begin:end])
        cohort = int(cohorts[begin])
        if cohort not in touched:
            touched[cohort] = out.of(cohort)
        goes[own] = touched[cohort].window([people[place] for place in own.tolist()], again[own].tolist())
    new = may & ~goes
    after = out.followed_by(touched, Dropped(cohorts[new], names[new]))
    return GoesOut(goes[of_row], after)


def items_of_rows(due: Due, entered: Entered, reader: Known) -> tuple[Numbers, Numbers, Numbers]:
    """The item of each row, by cohort, window, fields and number, and that number: of the rows of one person that are
    alike, which this is; int64 (n,) both. And of each item a row."""
    rows, number = entered.rows, np.zeros(entered.rows.num_rows, dtype=np.int64)
    keys = [entered.cohort, own_ends(rows, due.bound)]
    if reader.purchases:
        keys += [key for name in reader.of for key in sort_keys(rows.column(name))]
        alike = dense_ranks([*keys, entered.person])
        # Which of a person's rows is the first hangs on nothing that is a person's.
        order = blind_order(rows, due.bound, due.secret)
        turn = np.empty(order.size, dtype=np.int64)
        turn[order] = np.arange(order.size)
        order = np.lexsort((turn, alike))
        begins = np.searchsorted(alike[order], alike[order])
        # Of more than are known the reader cannot tell one from another.
        number[order] = np.minimum(np.arange(order.size) - begins, reader.purchases - 1)
        keys.append(number)
    of_row = dense_ranks(keys)
    return of_row, number, np.unique(of_row, return_index=True)[1]


def people_of_items(entered: Entered, of_row: Numbers, count: int) -> list[int]:
    """The people of each item, a bit each by the place among those of the cohort. of_row: the item of each row."""
    bit = _places(entered.out.roster)[_places_of(entered)]
    width = int(bit.max()) + 1
    people = [0] * count
    for pair in np.unique(of_row * width + bit).tolist():
        people[pair // width] |= 1 << pair % width
    return people


def _places(roster: Roster) -> Numbers:
    """The place of everybody among the people of the own cohort, by their digests, int64 (p,)."""
    order = np.argsort(roster.cohort, kind="stable")
    begins = np.cumsum(roster.members) - roster.members
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size) - begins[roster.cohort[order]]
    return place


def _places_of(entered: Entered) -> Numbers:
    """The place of each row's person in the roster."""
    return np.searchsorted(entered.out.roster.people, entered.digests[entered.person])


def _names(due: Due, entered: Entered, of_row: Numbers, first: Numbers, reader: Known) -> NDArray[np.uint64]:
    """A keyed digest of each item but for its cohort, whose number may change. first: a row of each."""
    one = entered.rows.take(pa.array(first))
    ends = own_ends(one, due.bound).tolist()
    cells = [render_text(whole(one.column(name))).to_pylist() for name in reader.of if reader.purchases]
    texts = [" ".join([str(end), *map(repr, own)]) for end, *own in zip(ends, *cells, strict=True)]
    return person_digests(texts, due.secret.lasting.derive("partition", "items"))
