"""What makes a policy valid: every rule that needs more than one key to judge."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator

import pyarrow as pa

from kanonflow.schemas.canonical_types import type_named
from kanonflow.schemas.diversity_declaration import rules_of_diversity
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.kinds.kinds import KINDS
from kanonflow.schemas.payload_grids import rules_of_grids
from kanonflow.schemas.policy_fields import (
    PAYLOAD,
    PLAIN_VALUES,
    Field,
    PartOfTime,
    Quasi,
    Role,
    decimal_value,
)
from kanonflow.schemas.policy_parts import PolicyParts
from kanonflow.schemas.text_form import TextForm, has_time, rules_of_csv, rules_of_form

RESERVED = ("release_id", "window_start", "window_end")
NAME = re.compile(r"[A-Za-z0-9_.-]+")
LEAST_PART = 10
"""``max_window_rows`` is at least this many times k: parts smaller than that would have no choice of peers."""


def find_mistakes(policy: PolicyParts, unread: Collection[str] = ()) -> list[str]:
    """All mistakes of a policy, in the order of its keys.

    unread: fields that could not be read (already reported): rules that would blame them twice, or blame
        others for what they might have been, are left out.
    """
    mistakes = list(_rules_of_the_whole(policy))
    mistakes += policy.promise.rules(policy)
    mistakes += () if policy.csv is None else rules_of_csv(policy.csv)
    mistakes += _rules_of_time(policy, unread)
    mistakes += _rules_of_roles(policy, unread)
    mistakes += _rules_of_partitions(policy, unread)
    mistakes += rules_of_diversity(policy, unread)
    for field in policy.fields:
        if field.name not in unread:
            mistakes += _rules_of_field(field)
            mistakes += rules_of_grids(
                f"fields.{field.name}", field, (*policy.partition_by, *policy.split_by)
            )
            mistakes += _rules_of_source(field, policy, unread)
    return mistakes


def _rules_of_the_whole(policy: PolicyParts) -> Iterator[str]:
    if policy.version != 1:
        yield "version: this version of kanonflow reads policies of version 1"
    if not NAME.fullmatch(policy.name):
        yield "name: use letters, digits, '_', '.' and '-' only (it becomes part of keys and metrics)"
    if isinstance(policy.k, bool) or not isinstance(policy.k, int) or policy.k < 2:
        yield "k: must be a whole number of at least 2"
    else:
        yield from _rules_of_parts(policy)
    share = policy.max_rejected
    if share is not None and (
        isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1
    ):
        yield "max_rejected: must be a share of the rows, from 0 to 1; leave it out for 0.05"
    if policy.cohort is not None and policy.protect == "row":
        yield "cohort: belongs to protect: individual (a field with role: individual); leave it out with protect: row"


def _rules_of_parts(policy: PolicyParts) -> Iterator[str]:
    rows, least = policy.max_window_rows, LEAST_PART * policy.k
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < least:
        yield (
            f"max_window_rows: must be a whole number of at least {least} ({LEAST_PART} * k), or the parts of a "
            "window would leave no choice of peers"
        )


def _rules_of_time(policy: PolicyParts, unread: Collection[str]) -> Iterator[str]:
    has_time = any(field.role is Role.TIME for field in policy.fields)
    if policy.window_ms is not None:
        if not has_time and not unread:
            yield "window: needs a field with role: time (or leave window out: the whole input is one window)"
        if policy.window_ms <= 0:
            yield "window: must be longer than 0"
        elif not 0 <= policy.window_offset_ms < policy.window_ms:
            yield "window_offset: must be at least 0 and shorter than the window"
        elif policy.state_ttl_ms < policy.window_ms + policy.max_delay_ms:
            yield "state_ttl: must be at least window + max_delay, or waiting rows would be forgotten"
    else:
        if has_time:
            yield "window: missing, but a field has role: time; give a window such as 1d"
        for key in ("window_offset", "max_delay", "out_of_orderness"):
            if getattr(policy, f"{key}_ms") > 0:
                yield f"{key}: has no meaning without a window; give a window or leave it out"
        if policy.max_ahead_ms is not None:
            yield "max_ahead: has no meaning without a window; give a window or leave it out"
    for key in ("max_delay", "out_of_orderness", "max_ahead"):
        if (getattr(policy, f"{key}_ms") or 0) < 0:
            yield f"{key}: must not be negative"
    if policy.state_ttl_ms <= 0:
        yield "state_ttl: must be longer than 0"


def _rules_of_roles(policy: PolicyParts, unread: Collection[str]) -> Iterator[str]:
    for name, count in Counter(field.name for field in policy.fields).items():
        if count > 1:
            yield f"fields: {name} is declared {count} times"
    for role in (Role.INDIVIDUAL, Role.TIME, Role.EVENT_ID):
        names = [field.name for field in policy.fields if field.role is role]
        if len(names) > 1:
            yield f"fields: at most one field may have role: {role}; found {', '.join(names)}"
    if not unread and not any(field.quasi is not None for field in policy.fields):
        yield "fields: at least one field needs role: quasi; without one there is nothing to protect"
    has_individual = any(field.role is Role.INDIVIDUAL for field in policy.fields)
    if policy.protect == "individual" and not has_individual and not unread:
        yield "protect: individual needs a field with role: individual"


def _rules_of_partitions(policy: PolicyParts, unread: Collection[str]) -> Iterator[str]:
    fields = {field.name: field for field in policy.fields}
    both = (("partition_by", "partition", policy.partition_by), ("split_by", "split", policy.split_by))
    for key, verb, names in both:
        for name in names:
            if name in unread or (name not in fields and unread):
                continue
            if name not in fields:
                yield f"{key}: {name} is not declared in fields"
            elif fields[name].role is not Role.INSENSITIVE:
                yield (
                    f"{key}: {name} has role: {fields[name].role}, but a {verb} field is published as "
                    f"it is: give it role: insensitive, or do not {verb} by it"
                )
        if len(set(names)) < len(names):
            yield f"{key}: names a field twice"
    for name in dict.fromkeys(policy.split_by):
        if name in policy.partition_by:
            yield f"split_by: {name} is in partition_by, which parts the feed already; leave it out of one of them"


def _rules_of_source(field: Field, policy: PolicyParts, unread: Collection[str]) -> Iterator[str]:
    if field.source is None:
        return
    where = f"fields.{field.name}"
    if field.role not in PAYLOAD or field.part_of_time is None:
        yield f"{where}.from: belongs to role: sensitive or insensitive with as: {', '.join(PartOfTime)}"
    if not unread and field.source not in [each.name for each in policy.fields if each.role is Role.TIME]:
        yield f"{where}.from: {field.source} is not the field with role: time; other columns have fields of their own"
    for key in ("format", "fold"):
        if getattr(field, key) is not None:
            yield f"{where}.{key}: the cells are those of {field.source}; say it there"


def _rules_of_field(field: Field) -> Iterator[str]:
    where = f"fields.{field.name}"
    if not field.name:
        yield "fields: a field needs a name"
    if field.name.startswith("__"):
        yield f"{where}: names that start with '__' are reserved; rename the field in the input"
    published = field.quasi is not None or field.role in PAYLOAD
    if published and field.name in RESERVED:
        yield f"{where}: the release has a column of this name itself; rename the field in the input"
    values = (*PLAIN_VALUES, *PartOfTime)
    if field.value is not None and field.value not in values and decimal_value(field.value) is None:
        yield f"{where}.as: must be one of {', '.join(values)} or decimal(p,s) with s <= p <= 38"
    if field.role is Role.QUASI and field.quasi is None:
        yield f"{where}.type: a quasi-identifier needs a type: numeric, date or categorical"
    if field.accept_risk is not None:
        yield from _rules_of_accepted_risk(where, field)
    yield from _rules_of_text(where, field)
    if field.quasi is not None:
        if field.role not in (Role.QUASI, Role.TIME):
            yield f"{where}: only role: quasi, or a time field with also_quasi: true, can be generalized"
        kind = KINDS[field.quasi.type]
        if field.role is Role.TIME and not kind.dated:
            yield f"{where}.type: a time field that is also a quasi-identifier needs type: date"
        yield from _rules_of_quasi(where, field.quasi)
        yield from _rules_of_value(where, field)


def _rules_of_text(where: str, field: Field) -> Iterator[str]:
    form = TextForm(format=field.format, timezone=field.timezone, fold=field.fold)
    if field.value is not None:
        named = type_named(field.value)
        per_day = None if named is None else form_of(named).per_day
        days, instants = per_day == 1, per_day not in (None, 1)
    elif field.role is Role.TIME:
        days, instants = False, True
    else:  # the role decides, or the column of a typed input, or the format itself
        dated = field.quasi is not None and KINDS[field.quasi.type].dated
        open_ = dated or field.role in PAYLOAD
        days, instants = open_ and not has_time(field.format), open_
    yield from rules_of_form(where, form, instants=instants, days=days)


def _rules_of_accepted_risk(where: str, field: Field) -> Iterator[str]:
    if field.role not in PAYLOAD:
        yield (
            f"{where}.accept_risk: belongs to fields that are published as they are (role: sensitive or insensitive); "
            f"leave it out with role: {field.role}"
        )
    elif not isinstance(field.accept_risk, str) or not field.accept_risk.strip():
        yield f"{where}.accept_risk: must be the reason, as text, why the field's risk is accepted"


def _rules_of_value(where: str, field: Field) -> Iterator[str]:
    if field.quasi is not None and field.value is not None:
        yield from KINDS[field.quasi.type].rules_of_value(
            where, form_of(type_named(field.value) or pa.null())
        )


def _rules_of_quasi(where: str, quasi: Quasi) -> Iterator[str]:
    kind = KINDS[quasi.type]
    yield from kind.rules_of_tree(where, quasi)
    weight = quasi.weight
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
        yield f"{where}.weight: must be a positive, finite number"
    yield from () if quasi.domain is None else kind.rules_of_domain(where, quasi.domain)
    yield from kind.rules_of_grid(where, quasi.grid)
    yield from kind.rules_of_outside(where, quasi)
    yield from kind.rules_of_scale(where, quasi)
