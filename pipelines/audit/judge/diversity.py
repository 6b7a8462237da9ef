"""Do the published classes show what the policy asks of sensitive fields?

Rows of one release that name one group are a class; where rows name none, those with equal boxes are. Several closed
classes may share a box; if each meets a rule, so do all of them together (shares and entropy average, distances are
convex, different values add up), so what fails here failed there. It takes the releases alone, and counts in whole
numbers. A rule that says per: epoch is measured and no promise: nothing is judged by it.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction

from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import ReleasedRows
from kanonflow.pipelines.audit.read.values import CodeBook, Unreadable
from kanonflow.schemas.policy_fields import Closeness, ClosenessDistance, Diversity, DiversityKind

# Entropies and distances come from sums of floats in the pipeline; they may miss a limit by this much.
_ROUNDING = 1e-8


def check_diversity(released: ReleasedRows, payload_books: Sequence[CodeBook], findings: Findings) -> None:
    """Note every release with a class that breaks a rule of the policy for a sensitive field.

    payload_books: of the columns of ``released.payload``. O(rows + classes x values).
    """
    with_rules = [column for column, book in enumerate(payload_books) if book.column.field.of_releases.rules]
    groups = released.groups
    named = (released.boxes if groups is None else groups.of_row[:, None]).tolist() if with_rules else []
    for column in with_rules:
        book = payload_books[column]
        asked = book.column.field.of_releases
        diversity, closeness = asked.diversity, asked.closeness
        places = _order(book)
        classes: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        whole: dict[int, Counter[int]] = defaultdict(Counter)
        cells = released.payload[:, column].tolist()
        for release, box, code in zip(released.release.tolist(), named, cells, strict=True):
            value = places[code]
            classes[(release, *box)][value] += 1
            whole[release][value] += 1
        lacking, far = Counter[int](), Counter[int]()
        for (release, *_), counts in classes.items():
            lacking[release] += diversity is not None and not _diverse(counts, diversity)
            far[release] += closeness is not None and not _close(counts, whole[release], closeness)
        for faults, rule in ((lacking, "diversity"), (far, "closeness")):
            at_fault = sorted(release for release, count in faults.items() if count)
            if at_fault:
                findings.add(
                    f"field {book.column.name}: {sum(faults.values())} classes do not have the {rule} of the policy",
                    *(released.heads[release].release_id for release in at_fault),
                )


def _order(book: CodeBook) -> dict[int, int]:
    """The place of each code in the order of values, null (-1) first; unreadable cells are reported elsewhere."""
    unreadable = {code for code, value in enumerate(book.values) if isinstance(value, Unreadable)}
    readable = [code for code in range(len(book.values)) if code not in unreadable]
    readable.sort(key=lambda code: book.values[code])  # type: ignore[arg-type, return-value]
    return {code: place for place, code in enumerate([-1, *readable, *unreadable])}


def _diverse(counts: Mapping[int, int], rule: Diversity) -> bool:
    rows = sum(counts.values())
    if rule.kind is DiversityKind.DISTINCT:
        return len(counts) >= rule.l
    if rule.kind is DiversityKind.FREQUENCY:
        return Fraction(max(counts.values()), rows) <= 1 / Fraction(rule.l)
    surprise = math.fsum(count * math.log(rows / count) for count in counts.values()) / rows
    return surprise >= math.log(rule.l) - _ROUNDING


def _close(counts: Mapping[int, int], whole: Mapping[int, int], rule: Closeness) -> bool:
    rows, every = sum(counts.values()), sum(whole.values())
    # Whole numbers: gaps times the rows of the class times those of the release.
    if rule.distance is ClosenessDistance.EQUAL:
        moved = sum(max(0, count * every - whole[value] * rows) for value, count in counts.items())
    else:
        ahead = moved = 0
        for value in sorted(whole):
            ahead += counts.get(value, 0) * every - whole[value] * rows
            moved += abs(ahead)
        rows *= max(len(whole) - 1, 1)
    return moved <= (rule.t + _ROUNDING) * rows * every
