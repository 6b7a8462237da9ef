"""What a policy asks of the values of a sensitive field: reading ``diversity`` and ``closeness``, and their rules."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa

from kanonflow.schemas.policy_fields import (
    Closeness,
    ClosenessDistance,
    Diversity,
    DiversityKind,
    Field,
    Role,
)
from kanonflow.schemas.policy_keys import read_choice, read_number, unknown_keys

DIVERSITY_KEYS = ("diversity", "closeness")


class GatedPolicy(Protocol):
    """The attributes of a policy that the rules read."""

    @property
    def k(self) -> int: ...
    @property
    def fields(self) -> tuple[Field, ...]: ...
    @property
    def protect(self) -> str: ...
    @property
    def shape(self) -> str | None: ...
    @property
    def cohort(self) -> str: ...


def read_diversity(given: object, mistakes: list[str], where: str) -> Diversity | None:
    """The l-diversity of ``{kind: frequency, l: 3}``; None when it is absent or wrong."""
    parts = _parts(given, ("kind", "l"), "{kind: frequency, l: 3}", mistakes, f"{where}diversity")
    if parts is None:
        return None
    kind = read_choice(parts, "kind", DiversityKind, mistakes, f"{where}diversity.")
    least = read_number(parts["l"])
    if least is None:
        mistakes.append(f"{where}diversity.l: must be a number")
    return None if kind is None or least is None else Diversity(kind, float(least))


def read_closeness(given: object, mistakes: list[str], where: str) -> Closeness | None:
    """The t-closeness of ``{distance: equal, t: 0.2}``; None when it is absent or wrong."""
    parts = _parts(given, ("distance", "t"), "{distance: equal, t: 0.2}", mistakes, f"{where}closeness")
    if parts is None:
        return None
    distance = read_choice(parts, "distance", ClosenessDistance, mistakes, f"{where}closeness.")
    most = read_number(parts["t"])
    if most is None:
        mistakes.append(f"{where}closeness.t: must be a number")
    return None if distance is None or most is None else Closeness(distance, float(most))


def _parts(
    given: object, keys: tuple[str, str], example: str, mistakes: list[str], where: str
) -> Mapping[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or any(given.get(key) is None for key in keys):
        mistakes.append(f"{where}: must be a mapping such as {example}")
        return None
    mistakes += unknown_keys(given, keys, f"{where}.")
    return given


def diversity_mapping(field: Field) -> dict[str, Any]:
    """The keys of a field's rules as a policy file would hold them; empty without any."""
    mapping: dict[str, Any] = {}
    if field.diversity is not None:
        least = field.diversity.l
        mapping["diversity"] = {
            "kind": str(field.diversity.kind),
            "l": int(least) if least == int(least) else least,
        }
    if field.closeness is not None:
        mapping["closeness"] = {"distance": str(field.closeness.distance), "t": field.closeness.t}
    return mapping


def rules_of_diversity(policy: GatedPolicy, unread: Collection[str]) -> Iterator[str]:
    """Mistakes in the rules for sensitive values, and in what else such a policy says."""
    gated = [field for field in policy.fields if field.diversity or field.closeness]
    for field in gated:
        where = f"fields.{field.name}."
        key = "diversity" if field.diversity else "closeness"
        if field.role is not Role.SENSITIVE and field.name not in unread:
            yield f"{where}{key}: only a field with role: sensitive has it, and this is role: {field.role}"
        yield from _rules_of_limits(field, policy.k, where)
    if not gated:
        return
    if policy.protect == "row" and any(field.role is Role.INDIVIDUAL for field in policy.fields):
        yield (
            "protect: row cannot be had together with diversity or closeness and an individual: its graphs meet "
            "such rules only on average; say protect: individual"
        )
    if policy.cohort == "strict":
        yield (
            "cohort: strict cannot be had together with diversity or closeness: its classes are kept as they are, and "
            "taken out after the rules were met; say cohort: free or keep"
        )
    if policy.shape == "graph":
        yield (
            "shape: graph cannot be had together with diversity or closeness: a graph meets such rules only on "
            "average; say shape: classes"
        )


def _rules_of_limits(field: Field, k: int, where: str) -> Iterator[str]:
    if field.diversity is not None:
        kind, least = field.diversity.kind, field.diversity.l
        if kind is DiversityKind.ENTROPY and not least > 1:
            yield f"{where}diversity.l: must be above 1 (every class has an entropy l of 1)"
        elif kind is not DiversityKind.ENTROPY and (least != int(least) or least < 2):
            yield f"{where}diversity.l: must be a whole number of at least 2 for kind: {kind}"
        elif isinstance(k, int) and least > k:
            yield f"{where}diversity.l: must be at most k = {k}; a class of k rows shows no more values"
    if field.closeness is not None and not 0 < field.closeness.t < 1:
        yield f"{where}closeness.t: must be above 0 and below 1, the largest distance there is"


def no_order(field: Field, canonical: pa.DataType) -> Iterator[str]:
    """A mistake when a field's values have no order but the policy asks for the distance that needs one."""
    ordered = field.closeness is not None and field.closeness.distance is ClosenessDistance.ORDERED
    types = pa.types
    if ordered and not (
        types.is_integer(canonical)
        or types.is_floating(canonical)
        or types.is_decimal(canonical)
        or types.is_temporal(canonical)
    ):
        yield (
            f"fields.{field.name}.closeness.distance: ordered needs numbers, dates or instants, and the field is "
            f"{canonical}; say equal, or give its type (as: ...)"
        )
