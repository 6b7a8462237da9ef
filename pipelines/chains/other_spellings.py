"""Whether an id that nobody knows is known when it is written in another way.

    leading zeros    7919 and 00007919
    a fraction       123 and 123.0, also 1.23E2
    case             aB and AB
    blanks           around the id
    hyphens          of a UUID, and braces around it

People are known by digests only, so each way of writing is tried.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from kanonflow.transforms.release.cohorts import person_digests

MOST_TRIED = 20_000
"""Ids that are tried at most: about 20 digests each."""

_WIDEST = 20
_NUMBER = re.compile(r"[+-]?\d{1,20}(\.0*)?")
_POWER = re.compile(r"[+-]?\d(\.\d{1,20})?[eE]\+?\d{1,2}")
_UUID = re.compile(
    r"\{?([0-9a-fA-F]{8})-?([0-9a-fA-F]{4})-?([0-9a-fA-F]{4})-?([0-9a-fA-F]{4})-?([0-9a-fA-F]{12})\}?"
)


def spellings(text: str) -> Iterator[tuple[str, str]]:
    """Other ways to write an id, each with the name of the difference; the id itself may be among them."""
    bare = text.strip()
    yield "blanks", bare
    if _NUMBER.fullmatch(bare):
        whole = bare.split(".")[0].removeprefix("+")
        sign, digits = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
        yield "a fraction", whole
        yield "a fraction", f"{whole}.0"
        core = digits.lstrip("0") or "0"
        for width in range(len(core), _WIDEST + 1):
            yield "leading zeros", sign + core.zfill(width)
    elif _POWER.fullmatch(bare):
        value = Decimal(bare)
        if value == value.to_integral_value():
            yield "a fraction", str(int(value))
    elif match := _UUID.fullmatch(bare):
        for form in ("-".join(match.groups()), "".join(match.groups())):
            yield "hyphens or case", form.lower()
            yield "hyphens or case", form.upper()
    else:
        yield "case", bare.lower()
        yield "case", bare.upper()


def known_otherwise(names: Sequence[str], known: NDArray[np.uint64], key: bytes) -> Counter[str]:
    """How many of the ids are known in another spelling, by the difference.

    names: ids that are not known. known: uint64, digests, sorted. O(20 digests an id).
    """
    found: Counter[str] = Counter()
    tried = [
        (number, *each) for number, name in enumerate(names) for each in spellings(name) if each[1] != name
    ]
    digests = person_digests([text for _, _, text in tried], key)
    if not known.size:
        return found
    at = np.minimum(np.searchsorted(known, digests), known.size - 1)
    counted: set[int] = set()
    for place in np.flatnonzero(known[at] == digests):
        number, difference, _ = tried[place]
        if number not in counted:
            counted.add(number)
            found[difference] += 1
    return found
