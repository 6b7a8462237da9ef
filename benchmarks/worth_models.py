"""What is a model worth that is trained on a release, asked of people who are in none?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.outcome_models import Features, Float64s, auc, floats, logistic, middle
from benchmarks.publishers import Published, Source

TABLES = 5
MOST_LEVELS = 50
"""Categories of a field that a model takes; of more it is left out."""


class Modelled(NamedTuple):
    """AUC by how the release is read: imputed, imputed by the outcome (None: not tried), and by middles."""

    imputed: float
    outcome: float | None
    middles: float


class Model:
    """outcome: a field of payload as published. happened: whether it is, of a column."""

    def __init__(
        self, source: Source, outcome: str, happened: Callable[[pa.ChunkedArray], pa.ChunkedArray]
    ) -> None:
        self.outcome, self._happened = outcome, happened
        names = {column.name: column.published_name for column in source.rows.columns}
        self._raw = source.feed.rows.select(list(names)).rename_columns(list(names.values()))
        quasis = {column.published_name: column.in_ranges for column in source.rows.quasis}
        numbers = {name: floats(self._raw, name) for name, ranged in quasis.items() if ranged}
        categories = [
            name
            for name, ranged in quasis.items()
            if not ranged and pc.count_distinct(self._raw.column(name)).as_py() <= MOST_LEVELS
        ]
        scales: Mapping[str, tuple[float, float]] = {
            name: (float(values.mean()), float(values.std())) for name, values in numbers.items()
        }
        self._features = Features(self._raw, scales, categories)

    def of(self, each: Published, outside: NDArray[np.int64], *, weighed: bool, seed: int) -> Modelled:
        """Of models that are trained on a release. outside: rows of the feed that are asked."""
        read = each.read
        test = self._raw.take(pa.array(outside))
        x, y = self._features.of(test), self._true(test)

        def chances(table: pa.Table) -> Float64s:
            for name in each.dropped:
                nothing = pa.repeat(table.column(name)[0], table.num_rows)
                table = table.set_column(table.schema.get_field_index(name), name, nothing)
            own = self._features.of(table)
            # Of what does not vary in training nothing is learnt.
            varies = np.ptp(own, axis=0) > 0
            varies[0] = True
            return 1 / (1 + np.exp(-x[:, varies] @ logistic(own[:, varies], self._true(table))))

        def imputed(outcome: str | None) -> float:
            # Rows as they are are the same in all tables.
            tables = read.impute(1 if each.k is None else TABLES, outcome=outcome, seed=seed)
            return auc(np.mean([chances(one) for one in tables], axis=0), y)

        return Modelled(
            imputed(None), imputed(self.outcome) if weighed else None, auc(chances(middle(read)), y)
        )

    def _true(self, table: pa.Table) -> Float64s:
        return np.asarray(pc.fill_null(self._happened(table.column(self.outcome)), False).cast(pa.float64()))
