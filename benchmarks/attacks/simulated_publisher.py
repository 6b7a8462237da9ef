"""An attacker who knows the graph and the publisher's code runs it himself, and learns which matches go together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

LEAST_FITTING = 30
_SMOOTHING = 0.5

Publisher = Callable[[int], NDArray[np.int32]]
"""From a number (of a secret, a seed) to the factors that it would publish one of: int32 (k, n)."""


class Simulation:
    """What so many publications of a graph have in common.

    members: int32 (n, k). factors: int32 (f, n), each a matching that might have been published, with equal odds.
    """

    def __init__(self, members: NDArray[np.int32], factors: NDArray[np.int32]) -> None:
        n, k = members.shape
        self.members = members
        self.factors = factors
        self._slot_of_edge = np.repeat(np.arange(n), k)
        self._record_of_edge = members.ravel().astype(np.int64)
        self._edge = np.full((n, n), -1, dtype=np.int64)
        self._edge[self._slot_of_edge, self._record_of_edge] = np.arange(n * k)
        chosen = np.zeros((factors.shape[0], n * k), dtype=np.float32)
        edges = self._edge[np.arange(n)[None, :], factors]
        np.put_along_axis(chosen, edges, 1.0, axis=1)
        self._together = chosen.T @ chosen

    def guess(self, record: int, slots: NDArray[np.int64], records: NDArray[np.int64]) -> int:
        """The likeliest slot of a record when it is known that ``records`` stand on ``slots``.

        Of the simulated publications those that agree with all known matches are counted, if there are enough; else
        the known matches count as independent hints (naive Bayes). Slots are left out that no perfect matching with
        the known matches gives to the record.
        """
        possible = self._possible(record, slots, records)
        if possible.size == 1:
            return int(possible[0])
        fits = (self.factors[:, slots] == records).all(axis=1)
        if fits.sum() >= LEAST_FITTING:
            counts = (self.factors[np.ix_(fits, possible)] == record).sum(axis=0)
            return int(possible[counts.argmax()])
        candidates, known = self._edge[possible, record], self._edge[slots, records]
        alone = np.diag(self._together)[candidates] + _SMOOTHING
        joint = self._together[np.ix_(candidates, known)] + _SMOOTHING / self.members.shape[1]
        score = np.log(alone) + np.log(joint / alone[:, None]).sum(axis=1)
        return int(possible[score.argmax()])

    def _possible(
        self, record: int, slots: NDArray[np.int64], records: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Slots that a perfect matching with the known matches may give to a record.

        Any perfect matching decides: an edge lies in one iff it is in this one, or joins two nodes of one strongly
        connected component of the graph that it orients.
        """
        n = self.members.shape[0]
        free_slot = np.ones(n, dtype=bool)
        free_slot[slots] = False
        free_record = np.ones(n, dtype=bool)
        free_record[records] = False
        matching = self._any_matching(slots, records)
        slot_of = np.empty(n, dtype=np.int64)
        slot_of[matching] = np.arange(n)
        keep = free_slot[self._slot_of_edge] & free_record[self._record_of_edge]
        # Slot s -> the slot of each of its members: a cycle is an exchange of payloads along it.
        tail, head = self._slot_of_edge[keep], slot_of[self._record_of_edge[keep]]
        exchange = csr_array((np.ones(tail.size, dtype=np.int8), (tail, head)), shape=(n, n))
        _, component = connected_components(exchange, connection="strong")
        own = self._slot_of_edge[(self._record_of_edge == record) & keep]
        return own[component[own] == component[slot_of[record]]]

    def _any_matching(self, slots: NDArray[np.int64], records: NDArray[np.int64]) -> NDArray[np.int64]:
        """A perfect matching with the known matches, int64 (n,), record of each slot."""
        fits = np.flatnonzero((self.factors[:, slots] == records).all(axis=1))
        if fits.size:
            return self.factors[fits[0]].astype(np.int64)
        n = self.members.shape[0]
        keep = ~np.isin(self._slot_of_edge, slots) & ~np.isin(self._record_of_edge, records)
        tail = np.concatenate([self._slot_of_edge[keep], slots])
        head = np.concatenate([self._record_of_edge[keep], records])
        graph = csr_array((np.ones(tail.size, dtype=np.int8), (tail, head)), shape=(n, n))
        return maximum_bipartite_matching(graph, perm_type="column").astype(np.int64)
