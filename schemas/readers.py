"""Readers of releases: what somebody knows of one person beside everybody's attributes, each an object with words.

A reader within the promise of ``cohort: lasting`` is ``Reader()``: he has everybody's attributes, links all rows of a
person, and knows nothing of anybody's activity. What another one knows stands in three places:

    known_windows     windows in which the person was active, or was not
    known_purchases   rows of the person: the window of each, and published fields, rounded
    known_people      others of the cohort whose rows he knows

``transforms/release/candidates_left.py`` says whom he is left with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kanonflow.schemas.errors import PolicyError

if TYPE_CHECKING:
    from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy

DOLLAR = 1.0
"""To what standard readers know an amount."""
SEVERAL = 3


@dataclass(frozen=True)
class KnownWindows:
    """Windows of the policy: days, weeks. present: with rows of the person. absent: in a row without one, between two
    with rows. Raises PolicyError: a number below 0."""

    present: int = 0
    absent: int = 0

    def __post_init__(self) -> None:
        if self.present < 0 or self.absent < 0:
            raise PolicyError(["known_windows: present and absent must be 0 or more"])


@dataclass(frozen=True)
class RoundedField:
    """A published field. step: it is known to the nearest multiple; None: as it is published. Of numbers only."""

    name: str
    step: float | None = None

    def __post_init__(self) -> None:
        if self.step is not None and not self.step > 0:
            raise PolicyError([f"known_purchases: the step of {self.name} must be above 0"])


@dataclass(frozen=True)
class KnownPurchases:
    """count: rows of the person, each with its window. fields: what else is known of each."""

    count: int = 1
    fields: tuple[RoundedField, ...] = ()

    def __post_init__(self) -> None:
        if self.count < 1:
            raise PolicyError(["known_purchases: count must be 1 or more"])


@dataclass(frozen=True)
class Reader:
    """What a reader knows of one person. ``name`` is the same on every page, in metrics and in results.

    known_people: other members of the person's cohort, each of whose rows he knows to be theirs.
    """

    known_windows: KnownWindows = field(default_factory=KnownWindows)
    known_purchases: KnownPurchases | None = None
    known_people: int = 0

    def __post_init__(self) -> None:
        if self.known_people < 0:
            raise PolicyError(["known_people must be 0 or more"])

    @property
    def name(self) -> str:
        """What he knows, in words: "1 purchase by its window and amount to 1"."""
        return ", ".join(_words(self)) or "nothing of anybody's activity"


def _words(reader: Reader) -> list[str]:
    windows, purchases = reader.known_windows, reader.known_purchases
    words = []
    if windows.present:
        words.append(f"{_counted(windows.present, 'window')} with rows")
    if windows.absent:
        words.append(f"{_counted(windows.absent, 'window')} in a row without rows")
    if purchases is not None:
        fields = [_field_words(each) for each in purchases.fields]
        its = "its" if purchases.count == 1 else "their"
        words.append(f"{_counted(purchases.count, 'row')} by {' and '.join([f'{its} window', *fields])}")
    if reader.known_people:
        whose = "other person's" if reader.known_people == 1 else "other people's"
        words.append(f"{reader.known_people} {whose} rows")
    return words


def _field_words(each: RoundedField) -> str:
    return each.name if each.step is None else f"{each.name} to {each.step:g}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


ONE_WINDOW = Reader(KnownWindows(present=1))


def one_purchase(bound: BoundPolicy) -> Reader | None:
    """Who knows one row by its window and its numbers to 1; None: the policy publishes nothing beside.

    Its numbers: payload that can have a fraction; if there is none, whole numbers; else everything, as published.
    """
    payload = _payload(bound)
    fraction = [each for each in payload if each.values.fraction]
    numbers = fraction or [each for each in payload if each.values.scale == 0]
    if numbers:
        return Reader(
            known_purchases=KnownPurchases(1, tuple(RoundedField(each.name, DOLLAR) for each in numbers))
        )
    return whole_purchase(bound)


def whole_purchase(bound: BoundPolicy) -> Reader | None:
    """Who knows one row by its window and all that is published beside the boxes; None: nothing is."""
    payload = _payload(bound)
    if not payload:
        return None
    return Reader(known_purchases=KnownPurchases(1, tuple(RoundedField(each.name) for each in payload)))


def standard_readers(bound: BoundPolicy) -> tuple[Reader, ...]:
    """Readers that pages and ``policy check`` tell of, the same under every policy but for the fields' names; and the
    one whom the policy names without a guarantee (``against``)."""
    one, whole = one_purchase(bound), whole_purchase(bound)
    readers = [ONE_WINDOW, Reader(KnownWindows(present=SEVERAL)), Reader(KnownWindows(absent=SEVERAL))]
    readers += [each for each in (one, whole if whole != one else None) if each is not None]
    if one is not None and one.known_purchases is not None:
        readers.append(Reader(known_purchases=KnownPurchases(SEVERAL, one.known_purchases.fields)))
    readers += [Reader(known_people=1), Reader(KnownWindows(present=1), known_people=1)]
    against = bound.policy.against
    own = None if against is None else against.measured
    return (*readers, *([] if own is None or own in readers else [own]))


def _payload(bound: BoundPolicy) -> list[BoundColumn]:
    return [each for each in bound.payload if each.name not in bound.policy.partition_by]
