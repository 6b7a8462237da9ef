"""Against which reader a policy wants k people left (``against``), beside the one of its promise.

    known_people      of the person's cohort, whose rows he knows                    guaranteed: by cohort_size
    known_windows     in which the person has rows                                   guaranteed with drop, else measured
    known_purchases   rows of the person, by window and published fields             guaranteed with drop, else measured
    known_absences    windows in a row in which the person has none                  measured

All that is said together is one reader, who knows all of it. What drops, drops rows by
``transforms/roster/items_out.py``. Of rows that were dropped nothing is promised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from kanonflow.schemas.readers import KnownPurchases, KnownWindows, Reader, RoundedField

MAX_DROPPED = 0.05
"""Share of the rows read that may be dropped for a reader who knows more, unless the policy says otherwise."""
MOST_KNOWN = 4
"""Windows and purchases together that rows are dropped for: what is compared grows with the power of them."""


@dataclass(frozen=True)
class KnownItems:
    """count: windows or purchases that are known. of: of purchases, which published fields. drop: whether rows go out
    only if enough people are left. wanted: without drop, share of the people who should be left with k over the epoch,
    below which a run has failed; None: it is told, and nothing else."""

    count: int = 1
    of: tuple[str, ...] = ()
    drop: bool = False
    wanted: float | None = None


@dataclass(frozen=True)
class Against:
    """max_dropped: share of the rows read above which a run has lost too much (None: 0.05)."""

    known_people: int = 0
    known_windows: KnownItems | None = None
    known_purchases: KnownItems | None = None
    known_absences: KnownItems | None = None
    max_dropped: float | None = None

    @property
    def windows(self) -> int:
        """How many known windows rows are dropped for."""
        return _dropped(self.known_windows)

    @property
    def purchases(self) -> int:
        """How many known purchases rows are dropped for."""
        return _dropped(self.known_purchases)

    @property
    def of(self) -> tuple[str, ...]:
        """The fields of the purchases that rows are dropped for."""
        return self.known_purchases.of if self.known_purchases is not None and self.purchases else ()

    @property
    def bought(self) -> tuple[str, ...]:
        """The fields of known purchases, dropped for or not."""
        return () if self.known_purchases is None else self.known_purchases.of

    @property
    def drops(self) -> bool:
        """Whether rows are dropped at all."""
        return self.windows + self.purchases > 0

    @property
    def dropped_limit(self) -> float:
        """``max_dropped``, the default in the place of None."""
        return MAX_DROPPED if self.max_dropped is None else self.max_dropped

    @property
    def guaranteed(self) -> Reader:
        """The reader against whom k is guaranteed."""
        purchases = _purchases(self.known_purchases) if self.purchases else None
        return Reader(KnownWindows(self.windows), purchases, self.known_people)

    @property
    def measured(self) -> Reader | None:
        """The reader who is measured only; None: all is guaranteed."""
        asked = sum(each is not None for each in (self.known_windows, self.known_purchases))
        if asked == (self.windows > 0) + (self.purchases > 0) and self.known_absences is None:
            return None
        counts = (0 if each is None else each.count for each in (self.known_windows, self.known_absences))
        return Reader(KnownWindows(*counts), _purchases(self.known_purchases), self.known_people)

    @property
    def active(self) -> Reader:
        """The reader of all clauses, dropped for or not, but for absences: of what a person does."""
        count = 0 if self.known_windows is None else self.known_windows.count
        return Reader(KnownWindows(count), _purchases(self.known_purchases), self.known_people)

    @property
    def counted(self) -> Reader | None:
        """The measured reader as he is counted over an epoch; None: there is none. Absences are not counted so."""
        clauses = (self.known_windows, self.known_purchases)
        return self.active if any(each is not None and not each.drop for each in clauses) else None

    @property
    def wanted(self) -> float | None:
        """Share of the people who should be left with k to the reader who is counted; None: nobody said."""
        said = (each.wanted for each in (self.known_windows, self.known_purchases) if each is not None)
        return max((share for share in said if share is not None), default=None)

    def left(self, k: int) -> int:
        """How many bundles must fit what he knows, so that k are left once he takes away those of known people."""
        return k + self.known_people

    def in_a_line(self, k: int) -> str:
        """The words in one line, as releases and metrics have them."""
        return " ".join(self.words(k))

    def words(self, k: int) -> tuple[str, ...]:
        """What is promised against whom, a line for each class."""
        lines = []
        if self.drops or self.known_people:
            lines.append(
                f"against, guaranteed: who also knows {self.guaranteed.name} is left with {k} people or more"
                f" (1/{k} each)."
            )
        if self.drops:
            lines[-1] += (
                " That is of rows that are out: rows that would leave fewer are rejected for good (known_otherwise),"
                " and of what somebody knows of those nothing is promised."
            )
        if self.measured is not None:
            lines.append(
                f"against, measured only: who also knows {self.measured.name}. Nothing is done for it; the metrics"
                " (activity_candidates, purchase_candidates) and policy check --input say how many people are left."
            )
        if self.counted is not None and self.wanted is not None:
            lines[-1] += (
                f" Wanted: {self.wanted:.4g} of the people are left with {k} or more to who knows any"
                f" {self.counted.name}, counted over the epoch (epoch_against)."
            )
        return tuple(lines)


def _dropped(items: KnownItems | None) -> int:
    return items.count if items is not None and items.drop else 0


def _purchases(items: KnownItems | None) -> KnownPurchases | None:
    return (
        None if items is None else KnownPurchases(items.count, tuple(RoundedField(name) for name in items.of))
    )


def rules_of_against(
    against: Against, k: object, cohort_size: object, payload: Collection[str], parts: Collection[str]
) -> Iterator[str]:
    """What is wrong with it, and how to mend that. payload: names of published fields; parts: those of partitions."""
    if against.known_people and isinstance(k, int) and isinstance(cohort_size, int):
        least = against.left(k)
        if cohort_size < least:
            yield (
                f"cohort_size: must be at least k + against.known_people = {least}, and is {cohort_size}; raise it, or"
                " lower known_people"
            )
    clauses = (against.known_windows, against.known_purchases, against.known_absences)
    if not against.known_people and not any(clauses):
        yield (
            "against: names no reader; say known_people, known_windows, known_purchases or known_absences, or leave it"
            " out"
        )
    if against.windows + against.purchases > MOST_KNOWN:
        yield (
            f"against: drop goes up to {MOST_KNOWN} known windows and purchases together, and here are"
            f" {against.windows + against.purchases}; lower a count, or leave one drop out"
        )
    if against.max_dropped is not None and not against.drops:
        yield "against.max_dropped: nothing is dropped; give a clause drop: true, or leave it out"
    if against.known_windows is not None and against.known_windows.of:
        yield "against.known_windows.of: belongs to known_purchases; leave it out"
    for key in ("known_windows", "known_purchases"):
        items = getattr(against, key)
        if items is not None and items.drop and items.wanted is not None:
            yield (
                f"against.{key}.wanted: belongs to a clause that is measured, and with drop everybody is left with k;"
                " leave one of the two out"
            )
    if against.known_absences is not None and replace(against.known_absences, count=1) != KnownItems():
        yield (
            "against.known_absences: takes a count alone (no of, drop or wanted), for no row that is dropped hides that"
            " there is none, and what it leaves is measured by policy check --input"
        )
    if against.known_purchases is not None:
        named = against.known_purchases.of
        if not named:
            yield (
                "against.known_purchases.of: missing; name the published fields that are known of a purchase, such as"
                " [amount]"
            )
        for name in named:
            if name not in payload:
                yield (
                    f"against.known_purchases.of: {name} is not published as it is; name fields with role: sensitive or"
                    " insensitive"
                )
            elif name in parts:
                yield f"against.known_purchases.of: {name} is in partition_by and known of every row; leave it out"
