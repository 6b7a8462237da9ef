"""Slow, obvious twins of the kernels."""

from __future__ import annotations

import io
import itertools
import math
from datetime import date, timedelta
from fractions import Fraction

import fastavro
import numpy as np

# ---- grids (schemas/grid.py)


def auto_step(width: Fraction, least_exponent: int) -> Fraction | None:
    """The largest of 1, 2, 5 x 10^e, e >= least_exponent, not above width / 10; None if there is none."""
    best = None
    for exponent in range(least_exponent, 30):
        for coefficient in (1, 2, 5):
            step = coefficient * Fraction(10) ** exponent
            if step <= width / 10:
                best = step
    return best


def snapped_to_step(low: float, high: float, step: Fraction) -> tuple[float, float]:
    """The closest doubles of multiples of the step that contain the range, by exact arithmetic."""
    first, last = math.floor(Fraction(low) / step), math.ceil(Fraction(high) / step)
    # A double stands for the decimal it is nearest to: 0.3 is on the grid of 0.1, though a bit below 3/10.
    first += float((first + 1) * step) <= low
    last -= float((last - 1) * step) >= high
    return float(first * step), float(last * step)


def calendar_unit(day: date, unit: str) -> tuple[date, date]:
    """First and last day of the month, quarter or year that a day lies in, by walking day by day."""

    def same(other: date) -> bool:
        if unit == "year":
            return other.year == day.year
        if unit == "quarter":
            return (other.year, (other.month - 1) // 3) == (day.year, (day.month - 1) // 3)
        if unit == "month":
            return (other.year, other.month) == (day.year, day.month)
        return other == day

    first = last = day
    while first > date.min and same(first - timedelta(days=1)):
        first -= timedelta(days=1)
    while last < date.max and same(last + timedelta(days=1)):
        last += timedelta(days=1)
    return first, last


# ---- Avro (transforms/columns/avro_encoding.py)


def avro_rows(rows: list[dict], schema: dict) -> list[bytes]:
    """Each row as one Avro record, written value by value. Twin of ``avro_encoding.encode_rows``."""
    parsed = fastavro.parse_schema(schema)
    out = []
    for row in rows:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, row)
        out.append(buffer.getvalue())
    return out


# ---- boxes (transforms/publishing/boxes.py)


def hull(values: list) -> tuple[list, bool]:
    """The distinct values that are not null, sorted, and whether there is a null."""
    return sorted({value for value in values if value is not None}), None in values


# ---- audit (pipelines/audit/judge/candidate_graph.py, matching.py, concealment.py)


def complete_placements(fits: list[list[bool]]) -> list[tuple[int, ...]]:
    """Every assignment of a record to each row such that all fit; ``fits[row][record]``, square."""
    size = len(fits)
    return [
        records
        for records in itertools.permutations(range(size))
        if all(fits[row][record] for row, record in enumerate(records))
    ]


def most_placed(fits: list[list[bool]]) -> int:
    """The most rows that can have a fitting record of their own, by trying everything."""
    if not fits:
        return 0
    first, rest = fits[0], fits[1:]
    best = most_placed(rest)
    for record, fit in enumerate(first):
        if fit:
            without = [[ok and other != record for other, ok in enumerate(row)] for row in rest]
            best = max(best, 1 + most_placed(without))
    return best


def lies_in(codes: list[int], box: list[dict]) -> bool:
    """Whether a record's codes (-1: null) lie in a box; a part has "nulls" and either "range" or "set"."""
    for code, part in zip(codes, box, strict=True):
        if code < 0:
            inside = part["nulls"]
        elif "set" in part:
            inside = code in part["set"]
        else:
            inside = part["range"][0] <= code <= part["range"][1]
        if not inside:
            return False
    return True


def shared_counts(least: list[int], most: list[int], rows: int, k: int) -> bool:
    """Whether numbers of rows between the bounds sum up to ``rows`` and each positive one occurs k times."""
    choices = [range(low, high + 1) for low, high in zip(least, most, strict=True)]
    return any(
        sum(counts) == rows and all(count == 0 or counts.count(count) >= k for count in counts)
        for counts in itertools.product(*choices)
    )


# ---- losses of boxes (solvers/loss, solvers/units/neighbours.py, solvers/search)


def ncp(table, records: list[int]) -> list[float]:
    """NCP of the box of some records in each attribute, numeric ones first (S0, eq. 1-4)."""
    losses = []
    for j in range(table.numeric.shape[1]):
        values = [float(table.numeric[record, j]) for record in records]
        known = [value for value in values if not math.isnan(value)]
        heights = table.heights[j] if table.heights else None
        if not known:
            losses.append(0.0)
        elif len(known) < len(values):
            losses.append(1.0)
        elif heights is not None:
            low, high = (round(end * len(heights)) for end in (min(known), max(known)))
            losses.append(max(heights[low:high], default=0.0))
        else:
            losses.append(max(known) - min(known))
    for j in range(table.categorical.shape[1]):
        distinct = {int(table.categorical[record, j]) for record in records}
        size = int(table.cardinality[j])
        losses.append((len(distinct) - 1) / (size - 1) if size > 1 else 0.0)
    return losses


def tree_ncp(paths: list[str], leaves: list[int]) -> float:
    """NCP of the lowest common ancestor by walking up; a path names a leaf's nodes from the root, a letter each."""
    node = paths[leaves[0]]
    while not all(paths[leaf].startswith(node) for leaf in leaves):
        node = node[:-1]
    below = sum(path.startswith(node) for path in paths)
    return below / len(paths) if below > 1 else 0.0


def box_loss(table, records: list[int]) -> float:
    """Weighted mean of the attributes' NCP."""
    weights = table.weights.tolist()
    return sum(w * x for w, x in zip(weights, ncp(table, records), strict=True)) / sum(weights)


def sil(table, groups: list[list[int]]) -> float:
    """Mean over every record of every group of its distance to the group's average (S0, eq. 5-7), per attribute."""
    distances = []
    for group in groups:
        for record in group:
            squares, misses = 0.0, 0
            for column in table.numeric.T:
                known = [float(x) for x in column if not math.isnan(x)]
                middle = sum(known) / len(known) if known else 0.0
                sigma = math.sqrt(sum((x - middle) ** 2 for x in known) / len(known)) if known else 0.0
                there = [float(column[other]) for other in group if not math.isnan(column[other])]
                if sigma == 0 or not there:
                    continue
                gap = 1.0 if math.isnan(column[record]) else float(column[record]) - sum(there) / len(there)
                squares += (gap / sigma) ** 2
            for column in table.categorical.T:
                codes = [int(column[other]) for other in group]
                mode = min(set(codes), key=lambda code, codes=codes: (-codes.count(code), code))
                misses += int(column[record]) != mode
            distances.append((math.sqrt(squares) + misses) / table.attributes)
    return sum(distances) / len(distances) if distances else 0.0


# ---- graph search (solvers/search/slots.py, two_opt.py, solvers/bounds)


def may_stand_together(units, slot: list[int]) -> bool:
    """Whether a slot names each individual, or each group of equal rows, no more often than it may."""
    who = [int(units.individual[unit]) for unit in slot]
    return all(who.count(own) <= units.limit[unit] for own, unit in zip(who, slot, strict=True))


def is_legal_graph(units, members: np.ndarray, k: int) -> bool:
    """Every unit has k places a row and every slot may hold its members."""
    places = members.ravel().tolist()
    full = all(places.count(unit) == k * weight for unit, weight in enumerate(units.weight.tolist()))
    return full and all(may_stand_together(units, slot) for slot in members.tolist())


def replaced(slot: list[int], position: int, unit: int) -> list[int]:
    """The slot with another unit at a position."""
    return [unit if at == position else held for at, held in enumerate(slot)]


def best_swap(units, members: np.ndarray, loss, near: list[list[int]], shard: list[int], b: int) -> float:
    """The largest gain of a legal swap of slot b with another slot of its shard, 0 if none is positive.

    What comes in is a listed neighbour of a member, or another place of a member itself, and lowers b's own loss.
    loss: of a list of units.
    """
    slots = members.tolist()
    nearby = {c for unit in slots[b] for c in ([unit] if units.limit[unit] > 1 else []) + near[unit]}
    best = 0.0
    for p, a in enumerate(slots[b]):
        for d, other in enumerate(slots):
            for q, c in enumerate(other):
                if d == b or shard[d] != shard[b] or c not in nearby or c == a:
                    continue
                here, there = replaced(slots[b], p, c), replaced(other, q, a)
                if not (may_stand_together(units, here) and may_stand_together(units, there)):
                    continue
                gain = loss(slots[b]) - loss(here)
                if gain > 1e-9:
                    best = max(best, gain + loss(other) - loss(there))
    return best if best > 1e-9 else 0.0


def least_graph_loss(table, k: int) -> float:
    """GCP of the best k-regular graph, by trying every multiset of slots."""
    n = len(table.numeric)
    who = list(range(n)) if table.individuals is None else table.individuals.tolist()
    boxes = [box for box in itertools.combinations(range(n), k) if len({who[r] for r in box}) == k]
    losses = [box_loss(table, list(box)) for box in boxes]
    best = math.inf

    def extend(first: int, places: list[int], left: int, loss: float) -> None:
        nonlocal best
        if loss >= best:
            return
        if left == 0:
            best = loss
            return
        for number in range(first, len(boxes)):
            if all(places[record] > 0 for record in boxes[number]):
                fewer = [free - (record in boxes[number]) for record, free in enumerate(places)]
                extend(number, fewer, left - 1, loss + losses[number])

    extend(0, [k] * n, n, 0.0)
    return best / n


# ---- row counts (solvers/units/trimming.py, solvers/partition_search)


def row_limit(counts: list[int], k: int) -> int:
    """The largest m with sum of min(count, m) >= k m."""
    return max(m for m in range(sum(counts) + 1) if sum(min(count, m) for count in counts) >= k * m)


def kept_rows(individuals: list[int], limits: list[int], priority: list[int]) -> list[bool]:
    """Row by row: kept if fewer rows of its individual than the limit come before it."""
    rows = list(zip(individuals, priority, range(len(individuals)), strict=True))
    return [
        sum(other[0] == row[0] and other[1:] < row[1:] for other in rows) < limits[row[0]] for row in rows
    ]


def rows_kept(counts: list[int], k: int) -> int:
    """The most rows that can be kept, at least one of each count, so that each number kept occurs k times."""
    best = 0
    for kept in itertools.product(*(sorted({c for c in counts if c <= count}) for count in counts)):
        if all(kept.count(number) >= k for number in kept):
            best = max(best, sum(kept))
    return best


def class_loss(table, members: list[int], k: int, waiting: float = 1.0) -> float:
    """Loss of a closed class in rows: of each as many as the least has cost the NCP of all rows' box, others wait."""
    records = [row for row, who in enumerate(table.individuals.tolist()) if who in members]
    counts = [table.individuals.tolist().count(who) for who in members]
    kept = len(members) * min(counts) if members and len(members) >= k else 0
    return (kept * box_loss(table, records) if kept else 0.0) + (len(records) - kept) * waiting


def sil_waiting(table) -> float:
    """What a row that waits adds to SIL: it is a domain's width from the others in every attribute that varies."""
    squares = 0.0
    for column in table.numeric.T:
        known = [float(x) for x in column if not math.isnan(x)]
        if len(set(known)) > 1:
            middle = sum(known) / len(known)
            squares += len(known) / sum((x - middle) ** 2 for x in known)
    return (math.sqrt(squares) + table.categorical.shape[1]) / table.attributes


def class_sil(table, members: list[int], k: int, priority: list[int], waiting: float) -> float:
    """SIL of a closed class in rows: of each the first by priority, as many as the least has, others wait."""
    own = [
        sorted(
            (row for row, who in enumerate(table.individuals.tolist()) if who == member),
            key=priority.__getitem__,
        )
        for member in members
    ]
    least = min((len(rows) for rows in own), default=0) if len(members) >= k else 0
    kept = [row for rows in own for row in rows[:least]]
    return sil(table, [kept]) * len(kept) + (sum(map(len, own)) - len(kept)) * waiting


def guaranteed_candidates(windows: list[dict[int, int]]) -> tuple[int, float]:
    """windows: person -> class, oldest first. The smallest and the mean number of people who share the class of
    somebody released last in every window in which that person was released."""
    counts = []
    for person in windows[-1]:
        common = set(windows[-1])
        for window in windows:
            if person in window:
                common &= {other for other in window if window[other] == window[person]}
        counts.append(len(common))
    return min(counts), sum(counts) / len(counts)


def peer_retention(before: dict[int, int], after: dict[int, int]) -> float | None:
    """Share of the pairs with one class before, both of whom are here after, that have one class again."""
    here = sorted(before.keys() & after.keys())
    pairs = [(one, other) for one in here for other in here if one < other and before[one] == before[other]]
    return sum(after[one] == after[other] for one, other in pairs) / len(pairs) if pairs else None


def linked_candidates(members: list[list[int]], factor: list[int], individuals: list[int]) -> list[int]:
    """For each individual: how many individuals are members of every slot that carries one of its rows."""
    counts = []
    for who in sorted(set(individuals)):
        slots = [slot for slot, record in enumerate(factor) if individuals[record] == who]
        counts.append(len(set.intersection(*({individuals[m] for m in members[slot]} for slot in slots))))
    return counts
