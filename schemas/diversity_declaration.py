"""What a policy asks of the values of a sensitive field: the rules of ``diversity`` and ``closeness``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

import pyarrow as pa

from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.policy_fields import (
    RULES_OF_VALUES,
    ClosenessDistance,
    DiversityKind,
    Field,
    Per,
    Role,
)


class RuledPolicy(Protocol):
    """The attributes of a policy that the rules read."""

    @property
    def k(self) -> int: ...
    @property
    def fields(self) -> tuple[Field, ...]: ...
    @property
    def protect(self) -> str: ...


def rules_of_diversity(policy: RuledPolicy, unread: Collection[str]) -> Iterator[str]:
    """Mistakes in the rules for sensitive values, and in what else such a policy says."""
    ruled = [field for field in policy.fields if field.diversity or field.closeness]
    for field in ruled:
        where = f"fields.{field.name}."
        key = "diversity" if field.diversity else "closeness"
        if field.role is not Role.SENSITIVE and field.name not in unread:
            yield f"{where}{key}: only a field with role: sensitive has it, and this is role: {field.role}"
        yield from _rules_of_limits(field, policy.k, where)
    if not ruled:
        return
    if policy.protect == "row" and any(field.role is Role.INDIVIDUAL for field in policy.fields):
        yield (
            "protect: row cannot be had together with diversity or closeness and an individual: its graphs meet "
            "such rules only on average; say protect: individual"
        )


def words_of_values(fields: Iterable[Field]) -> Iterator[str]:
    """What rules for sensitive values are with cohorts that last, a line a form. fields: those with rules."""
    asked: dict[Per, list[str]] = {Per.RELEASE: [], Per.EPOCH: []}
    for field in fields:
        for rule in field.rules:
            if rule.per is not None:
                asked[rule.per].append(f"{rule.words} of {field.name}")
    if of_releases := ", ".join(asked[Per.RELEASE]):
        yield (
            f"values, per release: {of_releases}. A floor for readers who do not link releases: the rows of every group"
            " of a release meet it, for which cohorts are merged further in that release. It is no promise over the"
            " epoch: who links releases takes the groups apart again and has the values of a cohort alone."
        )
    if of_epoch := ", ".join(asked[Per.EPOCH]):
        yield (
            f"values, per epoch, measured only: {of_epoch}. Nothing is done for it; the restricted metrics"
            " (epoch_diversity) count the cohorts and people whose released rows do not meet it."
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
    for key, rule in zip(RULES_OF_VALUES, (field.diversity, field.closeness), strict=True):
        if rule is not None and rule.max_failing is not None and rule.per is not Per.EPOCH:
            yield f"{where}{key}.max_failing: belongs to per: epoch; say that, or leave it out"
    if field.closeness is not None and not 0 < field.closeness.t < 1:
        yield f"{where}closeness.t: must be above 0 and below 1, the largest distance there is"


def no_order(field: Field, canonical: pa.DataType) -> Iterator[str]:
    """A mistake when a field's values have no order but the policy asks for the distance that needs one."""
    ordered = field.closeness is not None and field.closeness.distance is ClosenessDistance.ORDERED
    if ordered and not form_of(canonical).ordered:
        yield (
            f"fields.{field.name}.closeness.distance: ordered needs numbers, dates or instants, and the field is "
            f"{canonical}; say equal, or give its type (as: ...)"
        )
