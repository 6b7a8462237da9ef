"""Slow, obvious twin of S0's local search: every loss from its definition, every move tried, nothing kept."""

from __future__ import annotations

import math
from collections.abc import Callable

from tests import naive

Loss = Callable[[int, list[int]], float]
EPSILON = 1e-12
_MASK = 2**64 - 1


class Draws:
    """splitmix64 with exact integers. Twin of ``bits.next_random``."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def below(self, bound: int) -> int:
        """A number of ``0 .. bound-1``."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
        z ^= z >> 31
        return (z >> 32) * bound >> 32


def slot_loss(table, loss: str) -> Loss:
    """Loss of slot i when it holds some records, by the loss's name."""
    if loss == "ncp":
        return lambda slot, records: naive.box_loss(table, records)
    if loss == "sil":
        return lambda slot, records: sum(distance(table, i, records) for i in records) / len(records)
    return lambda slot, records: distance(table, slot, records)


def distance(table, record: int, group: list[int]) -> float:
    """How far a record is from the average of a group, over d (S0, eq. 5-7); nulls as in naive.sil."""
    squares, misses = 0.0, 0
    for column in table.numeric.T.tolist():
        known = [x for x in column if not math.isnan(x)]
        there = [column[other] for other in group if not math.isnan(column[other])]
        middle = sum(known) / len(known) if known else 0.0
        variance = sum((x - middle) ** 2 for x in known) / len(known) if known else 0.0
        null = math.isnan(column[record])
        if len(set(known)) < 2 or (null and not there):
            continue
        gap = 1.0 if null or not there else column[record] - sum(there) / len(there)
        squares += gap**2 / variance
    for column in table.categorical.T.tolist():
        codes = [column[other] for other in group]
        misses += column[record] != min(set(codes), key=lambda code, codes=codes: (-codes.count(code), code))
    return (math.sqrt(squares) + misses) / table.attributes


def legal(who: list[int], slots: list[list[int]], b: int, p: int, d: int, q: int, strict: bool) -> bool:
    """Whether the members at (b, p) and (d, q) may change places."""
    a, c = slots[b][p], slots[d][q]
    if b == d or a == c or (strict and len({a, b, c, d}) < 4):
        return False
    after = naive.replaced(slots[b], p, c), naive.replaced(slots[d], q, a)
    return all(len({who[record] for record in slot}) == len(slot) for slot in after)


def move_of(who, slots, loss: Loss, b: int, *, first: bool, strict: bool) -> tuple[int, int, int] | None:
    """The best (first) improving move of slot b: its position, the other slot, the position there."""
    n, k = len(slots), len(slots[0])
    best, found = 0.0, None
    for d in [(b + step) % n for step in range(1, n)]:
        for p in range(k):
            for q in range(k):
                if not legal(who, slots, b, p, d, q, strict):
                    continue
                before = loss(b, slots[b]) + loss(d, slots[d])
                came, went = (
                    naive.replaced(slots[b], p, slots[d][q]),
                    naive.replaced(slots[d], q, slots[b][p]),
                )
                gain = before - loss(b, came) - loss(d, went)
                if gain > best + EPSILON:
                    best, found = gain, (p, d, q)
                    if first:
                        return found
    return found


def local_search(
    who, slots, loss: Loss, listed: list[int], draws: Draws, *, first: bool, strict: bool
) -> list[tuple[int, ...]]:
    """Algorithm 2 in place; returns the moves (b, p, d, q) one after the other."""
    moves = []
    while listed:
        chosen = draws.below(len(listed))
        b = listed[chosen]
        listed[chosen] = listed[-1]
        listed.pop()
        move = move_of(who, slots, loss, b, first=first, strict=strict)
        if move is None:
            continue
        p, d, q = move
        slots[b][p], slots[d][q] = slots[d][q], slots[b][p]
        moves.append((b, p, d, q))
        listed += [slot for slot in (b, d) if slot not in listed]
    return moves


def perturb(who, slots, listed: list[int], draws: Draws, swaps: int, tries: int, *, strict: bool) -> None:
    """Random legal moves; every swap takes all of its tries, so that draws do not depend on luck."""
    n, k = len(slots), len(slots[0])
    for _ in range(swaps):
        moved = False
        for _ in range(tries):
            b, p, d, q = draws.below(n), draws.below(k), draws.below(n), draws.below(k)
            if not moved and legal(who, slots, b, p, d, q, strict):
                slots[b][p], slots[d][q] = slots[d][q], slots[b][p]
                listed += [slot for slot in (b, d) if slot not in listed]
                moved = True


def iterated(
    who, slots, loss: Loss, seed: int, *, restarts: int, swaps: int, tries: int, first: bool, strict: bool
) -> tuple[list[list[int]], list[float]]:
    """Algorithm 1 with so many perturbations: the best slots, and the best loss after each step."""

    def total() -> float:
        return sum(loss(slot, records) for slot, records in enumerate(slots)) / len(slots)

    draws = Draws(seed)
    local_search(who, slots, loss, list(range(len(slots))), draws, first=first, strict=strict)
    best, losses = [list(slot) for slot in slots], [total()]
    for _ in range(restarts):
        listed: list[int] = []
        perturb(who, slots, listed, draws, swaps, tries, strict=strict)
        local_search(who, slots, loss, listed, draws, first=first, strict=strict)
        if total() < losses[-1] - EPSILON:
            best = [list(slot) for slot in slots]
        else:
            slots[:] = [list(slot) for slot in best]
        losses.append(min(losses[-1], total()))
    return best, losses
