"""CASTLE and FADS as their papers tell them: lists of rows, boxes worked out anew at every question.

Each published row as (its fellows' positions, when, how): the rows whose hull it was published with; none when it
was suppressed. Source of the choices that the papers leave open: ``benchmarks/rivals``.
"""

from __future__ import annotations

from benchmarks.rivals.stream_rows import OWN, REUSED, SUPPRESSED
from tests.naive import box_loss

Published = tuple[frozenset[int], int, int]


def pair(table, a: int, b: int) -> float:
    """NCP of the hull of two rows."""
    return box_loss(table, [a, b])


def people(table, rows) -> int:
    """How many people rows belong to."""
    return len({int(table.individuals[row]) for row in rows})


def holds(table, members, row: int) -> bool:
    """Whether a row lies in the hull of others: putting it in costs nothing and adds no value."""
    return all(
        inside
        for inside in (
            *(
                _in_range(table.numeric[sorted(members), j], table.numeric[row, j])
                for j in range(table.numeric.shape[1])
            ),
            *(
                table.categorical[row, j] in set(table.categorical[sorted(members), j].tolist())
                for j in range(table.categorical.shape[1])
            ),
        )
    )


def _in_range(values, value) -> bool:
    known = [each for each in values.tolist() if each == each]
    if len(known) < len(values):
        return bool(known) or value != value
    return min(known) <= value <= max(known)


def fads(table, k: int, delta: int, reuse: int) -> list[Published]:
    """Guo and Zhang (2013)."""
    n = table.records
    out: dict[int, Published] = {}
    made: list[tuple[int, frozenset[int]]] = []
    for row in range(n):
        now = min(row + delta, n - 1)
        if row in out:
            continue
        old = [members for at, members in made if now - at <= reuse and holds(table, members, row)]
        old.sort(key=lambda members: box_loss(table, sorted(members)))
        waiting = [other for other in range(row + 1, now + 1) if other not in out]
        near: dict[int, int] = {}
        for other in sorted(waiting, key=lambda other: (pair(table, row, other), other)):
            near.setdefault(int(table.individuals[other]), other)
        near.pop(int(table.individuals[row]), None)
        chosen = frozenset([row, *list(near.values())[: k - 1]])
        if old and (len(chosen) < k or box_loss(table, sorted(old[0])) < box_loss(table, sorted(chosen))):
            out[row] = (old[0], now, REUSED)
        elif len(chosen) < k:
            out[row] = (frozenset(), now, SUPPRESSED)
        else:
            made.append((now, chosen))
            out |= dict.fromkeys(chosen, (chosen, now, OWN))
    return [out[row] for row in range(n)]


class Castle:
    """Cao, Carminati, Ferrari, Tan (2011), algorithms 1-5."""

    def __init__(self, table, k: int, delta: int, beta: int, mu: int) -> None:
        self.table, self.k, self.delta, self.beta, self.mu = table, k, delta, beta, mu
        self.places: list[list[int]] = [[] for _ in range(beta)]
        self.finished: list[frozenset[int]] = []
        self.losses: list[float] = []
        self.out: dict[int, Published] = {}

    def run(self) -> list[Published]:
        """What becomes of every row."""
        n = self.table.records
        for now in range(n):
            self.arrive(now)
            if now >= self.delta and now - self.delta not in self.out:
                self.expire(now - self.delta, now)
        for row in range(max(0, n - self.delta), n):
            if row not in self.out:
                self.expire(row, n - 1)
        return [self.out[row] for row in range(n)]

    def tau(self) -> float:
        """Mean loss of the last mu finished clusters."""
        recent = self.losses[-self.mu :]
        return sum(recent) / len(recent) if recent else 0.0

    def loss(self, rows) -> float:
        """NCP of a hull."""
        return box_loss(self.table, sorted(rows))

    def arrive(self, row: int) -> None:
        """Best selection."""
        growths = [self.loss([*place, row]) - self.loss(place) if place else None for place in self.places]
        opened = [index for index, growth in enumerate(growths) if growth is not None]
        least = min((growths[index] for index in opened), default=None)
        best = [index for index in opened if growths[index] == least]
        best.sort(key=lambda index: people(self.table, self.places[index]))
        fitting = [index for index in best if self.loss([*self.places[index], row]) <= self.tau() + 1e-12]
        free = [index for index, place in enumerate(self.places) if not place]
        self.places[(fitting or free[:1] or best)[0]].append(row)

    def expire(self, row: int, now: int) -> None:
        """The delay constraint."""
        mine = next(place for place in self.places if row in place)
        size = people(self.table, mine)
        if size >= self.k:
            self.release(mine, now)
            return
        old = [members for members in self.finished if holds(self.table, members, row)]
        opened = [place for place in self.places if place]
        larger = sum(people(self.table, place) > size for place in opened)
        waiting = [other for place in opened for other in place]
        if old:
            self.out[row] = (min(old, key=self.loss), now, REUSED)
            mine.remove(row)
        elif 2 * larger > len(opened) or people(self.table, waiting) < self.k:
            self.out[row] = (frozenset(), now, SUPPRESSED)
            mine.remove(row)
        else:
            while people(self.table, mine) < self.k:
                others = [place for place in self.places if place and place is not mine]
                other = min(others, key=lambda place: self.loss([*mine, *place]))
                mine += other
                other.clear()
            self.release(mine, now)

    def release(self, members: list[int], now: int) -> None:
        """Output cluster."""
        parts = [sorted(members)] if people(self.table, members) < 2 * self.k else self.split(sorted(members))
        members.clear()
        for part in parts:
            self.out |= dict.fromkeys(part, (frozenset(part), now, OWN))
            self.losses.append(self.loss(part))
            if self.losses[-1] <= self.tau() + 1e-12:
                self.finished.append(frozenset(part))

    def split(self, rows: list[int]) -> list[list[int]]:
        """Parts of k people or more."""
        who = self.table.individuals
        left, parts = list(rows), []
        while people(self.table, left) >= self.k:
            oldest = {int(who[row]): row for row in reversed(left)}
            seed = left[0]
            others = [row for row in oldest.values() if row != seed and who[row] != who[seed]]
            others.sort(key=lambda row: (pair(self.table, seed, row), row))
            parts.append([seed, *others[: self.k - 1]])
            left = [row for row in left if row not in parts[-1]]
        while left:
            first = left[0]
            part = min(parts, key=lambda part: self.loss([*part, first]) - self.loss(part))
            part += [row for row in left if who[row] == who[first]]
            left = [row for row in left if who[row] != who[first]]
        return parts
