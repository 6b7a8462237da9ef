"""What values of sensitive fields are out of each cohort, over the epoch so far: counted, and nothing more.

A rule for a sensitive field may be asked of each cohort over the epoch (``per: epoch``). No release is made otherwise
for it: what is merged for one release is taken apart by whoever links several, and merging for good shows a cohort that
was seen alone before. So it is counted how many cohorts, and people of them, do not meet it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.policy_fields import Field
from kanonflow.solvers.partition_search.diversity import Counts, failing
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.transforms.columns.sort_keys import dense_ranks, sort_keys, whole
from kanonflow.transforms.files.state_parts import Content, UnreadParts
from kanonflow.transforms.rows.elements import sound_rows, to_ipc

VERSION = 1
_COHORT, _ROWS, _VALUE = "cohort", "rows", "value"


class Failing(NamedTuple):
    """cohorts: int64, those whose rows that are out do not meet a rule. counted: int64, all with rows that are out."""

    cohorts: NDArray[np.int64]
    counted: NDArray[np.int64]


@dataclass(frozen=True)
class ValuesOut:
    """of: by field, a table of each pair of a cohort and a value of it that is out, and how many rows; in their order.

    It grows with the different values of a cohort, not with its rows.
    """

    of: Mapping[str, pa.Table] = field(default_factory=dict)

    def followed_by(self, cohort: NDArray[np.int64], rows: pa.Table, fields: tuple[Field, ...]) -> ValuesOut:
        """With the rows of a release, and no other fields than these. cohort: int64 (n,), of each row's person.

        A field that was not counted before, or has another type now, begins here. O(n log n + counted).
        """
        made = {}
        for each in fields:
            values = whole(rows.column(each.name))
            # There are two zeros; they are one value.
            new = _table(cohort, np.ones(cohort.size, dtype=np.int64), form_of(values.type).plain(values))
            old = self.of.get(each.name)
            together = new if old is None or old.schema != new.schema else pa.concat_tables([old, new])
            made[each.name] = _summed(together)
        return ValuesOut(made)

    def failing(self, each: Field, rule: Sensitive) -> Failing:
        """Whose rows do not meet a rule. rule: without codes. O(counted log counted)."""
        table = self.of[each.name]
        cohorts, owner = np.unique(_numbers(table, _COHORT), return_inverse=True)
        value = dense_ranks(sort_keys(table.column(_VALUE)))
        counts = Counts(owner, value, _numbers(table, _ROWS), cohorts.size)
        return Failing(cohorts[failing(counts, rule)], cohorts)

    def numbered(self, number: NDArray[np.int64]) -> ValuesOut:
        """Those of some cohorts, under other numbers. number: int64 (c,), of each cohort; -1: it is left out."""
        made = {}
        for name, table in self.of.items():
            own = number[_numbers(table, _COHORT)]
            some = table.filter(pa.array(own >= 0))
            made[name] = _summed(_table(own[own >= 0], _numbers(some, _ROWS), whole(some.column(_VALUE))))
        return ValuesOut(made)

    def content(self) -> Content:
        """As parts of a state. Inverse of ``read_values``."""
        meta: dict[str, Any] = {"version": VERSION, "fields": list(self.of)}
        parts = {f"values_{place}": to_ipc(table) for place, table in enumerate(self.of.values())}
        return Content({"values": meta}, parts)


def read_values(parts: UnreadParts, meta: dict[str, Any]) -> ValuesOut:
    """The inverse of ``ValuesOut.content``. Raises ValueError, KeyError or TypeError: the parts are none."""
    if meta["version"] != VERSION:
        raise ValueError("the values are of another version")
    made = {}
    for place, name in enumerate(meta["fields"]):
        table = sound_rows(parts.take(f"values_{place}"))
        if table.schema.names != [_COHORT, _ROWS, _VALUE]:
            raise ValueError("the values are no counts")
        made[name] = table
    return ValuesOut(made)


def _table(cohort: NDArray[np.int64], rows: NDArray[np.int64], values: pa.Array) -> pa.Table:
    return pa.table({_COHORT: pa.array(cohort), _ROWS: pa.array(rows), _VALUE: values})


def _numbers(table: pa.Table, name: str) -> NDArray[np.int64]:
    return np.asarray(table.column(name)).astype(np.int64)


def _summed(table: pa.Table) -> pa.Table:
    """Each pair once, in the order of cohorts, then of values; so that it hangs on no order of rows."""
    pair = dense_ranks([_numbers(table, _COHORT), *sort_keys(table.column(_VALUE))])
    first = np.unique(pair, return_index=True)[1]
    sums = np.zeros(first.size, dtype=np.int64)
    np.add.at(sums, pair, _numbers(table, _ROWS))
    once = table.take(pa.array(first)).combine_chunks()
    return _table(_numbers(once, _COHORT), sums, whole(once.column(_VALUE)))
