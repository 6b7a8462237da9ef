"""Which field of a sample says whom a row belongs to, if any.

A field is a candidate where its values come back, more than k of them. It must look like a person: what everybody has
one of (sex, birth) is the same in all rows of a value, and does not vary within as it does between. Of a card and its
holder the coarser is the person, as long as it keeps the same. What the data cannot tell apart is asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from kanonflow.pipelines.fit.sampled_column import FEW_CATEGORIES, NEAR_UNIQUE, SampledColumn
from kanonflow.pipelines.fit.value_looks import CONTACT, PERSONAL, Look
from kanonflow.transforms.columns.column_facts import rows_of_several
from kanonflow.transforms.risks.within_people import KEPT

VARIES = 0.5
_LEAST_REPEATING = 0.5
_MOST_OF_ONE = 0.25
_ROWS_OF_GROUPS = 6
_ONE = 0.98
_LESS = 0.03
OF_PEOPLE = re.compile(
    r"customer|client|account|user|person|people|patient|member|card|cc_?num|holder|subject|employee|student|visitor|cookie|"
    r"subscriber|insured|passenger|rider|citizen|resident|party|(^|_)who$|kunde|mitglied|versichert|klient|z[aá]kazn[ií]k|"
    r"abonn[eé]|usager|utente|paziente|socio|manager|supervisor|parent|sponsor|referr|chef|leader",
    re.IGNORECASE,
)
_NO_KEY = frozenset(Look) - (CONTACT - {Look.ADDRESS, Look.FREE_TEXT, Look.URL})
_WEAK = frozenset({Look.NAME, Look.IP})


@dataclass(frozen=True)
class Person:
    """column: the field; None: each row counts as somebody of its own. rivals: fields that could be it as well, and
    that the data cannot tell from it. evidence: what speaks for it, in words. weak: it may be a group of people, whose
    rows are one of each: no row has a time, nothing that everybody has one of is kept, and its name does not say it."""

    column: SampledColumn | None
    rivals: tuple[SampledColumn, ...] = ()
    evidence: str = ""
    weak: bool = False


@dataclass
class _Candidate:
    """keeps: how well its values keep other fields, by name. against: names of those that everybody has one of, and
    that vary within."""

    column: SampledColumn
    named: bool
    keeps: dict[str, float] = field(default_factory=dict)
    personal: set[str] = field(default_factory=set)
    against: set[str] = field(default_factory=set)

    @property
    def plain(self) -> bool:
        """Whether it is a number that somebody gave, and not an address or a name."""
        return self.column.look.look not in CONTACT and not self.column.like_names

    @property
    def rank(self) -> tuple[int, bool, bool, int]:
        return len(self.personal), self.named, self.column.look.look not in _WEAK, len(self.keeps)


def person_of(columns: Sequence[SampledColumn], k: int) -> Person:
    """The field that says whom a row belongs to. O(candidates x columns x n log n).

    Where it could be a group as well, and one of a few rows, as households are, each row counts as somebody of its own.
    """
    candidates = [_measured(column, columns) for column in columns if _can_be(column, k)]
    refused = [each for each in candidates if each.against]
    viable = [each for each in candidates if not each.against and (each.keeps or each.named)]
    if any(each.personal for each in viable):
        viable = [each for each in viable if each.personal]
    if not viable:
        evidence = [_against(each) for each in refused]
        evidence += [
            f"{each.column.name} comes back, and nothing is kept within it"
            for each in candidates[:3]
            if not each.against
        ]
        return Person(None, evidence="; ".join(evidence))
    chosen = sorted(_coarsest(_without_equals(viable)), key=lambda each: each.rank, reverse=True)
    best = chosen[0]
    facts, timed = best.column.facts, any(each.days and each.facts.distinct > 1 for each in columns)
    weak = not (best.personal or best.named or timed)
    if weak and facts.of_rows > 1 / _ROWS_OF_GROUPS:
        return Person(None, evidence=f"{best.column.name} comes back a few times, as a household does")
    rivals = tuple(each.column for each in chosen[1:] if each.rank[:2] == best.rank[:2])
    return Person(best.column, rivals, _for(best), weak)


def _can_be(column: SampledColumn, k: int) -> bool:
    facts = column.facts
    if not column.label or column.look.look in _NO_KEY or facts.distinct <= max(2, k):
        return False
    named = bool(OF_PEOPLE.search(column.name))
    if facts.of_rows >= NEAR_UNIQUE or (facts.distinct <= FEW_CATEGORIES and not named):
        return False
    codes = column.codes[column.speaks]
    # Nobody has a quarter of all rows.
    if np.bincount(codes).max() > _MOST_OF_ONE * codes.size:
        return False
    return rows_of_several(codes) >= _LEAST_REPEATING


def _measured(column: SampledColumn, columns: Sequence[SampledColumn]) -> _Candidate:
    candidate = _Candidate(column, bool(OF_PEOPLE.search(column.name)))
    for other in columns:
        if other.name == column.name or other.facts.distinct < 2 or other.near_unique:
            continue
        keeping = other.within(column)
        if not keeping.tells:
            continue
        if other.look.look in PERSONAL and keeping.constancy < VARIES:
            candidate.against.add(other.name)
        elif keeping.constancy >= KEPT or (keeping.steady >= KEPT and keeping.constancy >= VARIES):
            candidate.keeps[other.name] = keeping.constancy
            if other.look.look in PERSONAL:
                candidate.personal.add(other.name)
    return candidate


def _without_equals(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """One of those that name the same people: a number rather than an address."""
    chosen: list[_Candidate] = []
    for each in sorted(candidates, key=lambda each: (each.named, each.plain, each.rank), reverse=True):
        if not any(_one(each, other) and _one(other, each) for other in chosen):
            chosen.append(each)
    return chosen


def _coarsest(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Of a card and its holder the holder, of a holder and its town the holder; both where the data cannot tell."""
    dropped: set[str] = set()
    names = {each.column.name for each in candidates}
    for fine in candidates:
        for coarse in candidates:
            if fine is coarse or not _one(coarse, fine) or _one(fine, coarse):
                continue
            own = fine.keeps.keys() - names
            if fine.plain and not coarse.plain:  # Two people of one name, or behind one address.
                less = coarse
            elif fine.personal:
                less = fine if all(map(partial(_as_well, coarse, fine), fine.personal)) else coarse
            elif fine.named != coarse.named:
                less = coarse if fine.named else fine
            elif own and own <= coarse.keeps.keys():
                less = fine
            elif own and len(own & coarse.keeps.keys()) < VARIES * len(own):
                less = coarse
            else:
                continue
            dropped.add(less.column.name)
    return [each for each in candidates if each.column.name not in dropped]


def _as_well(coarse: _Candidate, fine: _Candidate, name: str) -> bool:
    """Whether a field is kept as well: two people of one income have two days of birth."""
    return coarse.keeps.get(name, 0.0) >= fine.keeps[name] - _LESS


def _one(of: _Candidate, within: _Candidate) -> bool:
    """Whether each value of one has a single value of the other."""
    return of.column.within(within.column).steady >= _ONE


def _for(candidate: _Candidate) -> str:
    facts = candidate.column.facts
    keeps = f", and {_listed(set(candidate.keeps))} the same in all rows of one" if candidate.keeps else ""
    return f"{facts.distinct:,} values in {facts.rows - facts.nulls:,} rows{keeps}"


def _against(candidate: _Candidate) -> str:
    return (
        f"{candidate.column.name} is no person: {_listed(candidate.against)} as different within its values as"
        " between them"
    )


def _listed(names: set[str]) -> str:
    """At most three names."""
    shown = sorted(names)[:3]
    more = len(names) - len(shown)
    verb = "is" if len(names) == 1 else "are"
    return f"{', '.join(shown)}{f' and {more} more' if more else ''} {verb}"
