"""What makes a policy valid: every rule that needs more than one key to judge."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from decimal import Decimal

from kanonflow.schemas.diversity_declaration import rules_of_diversity
from kanonflow.schemas.lasting_rules import rules_of_lasting
from kanonflow.schemas.policy_fields import (
    DATE_UNITS,
    PLAIN_VALUES,
    Field,
    Outside,
    Quasi,
    QuasiType,
    Role,
    decimal_value,
)
from kanonflow.schemas.policy_parts import PolicyParts
from kanonflow.schemas.text_form import TextForm, has_time, rules_of_csv, rules_of_form

RESERVED = ("release_id", "window_start", "window_end")
NAME = re.compile(r"[A-Za-z0-9_.-]+")
LEAST_PART = 10
"""``max_window_rows`` is at least this many times k: parts smaller than that would have no choice of peers."""
MOST_GRID_DIGITS = 15
"""Significant digits of a grid: a double holds every multiple of it up to 2**53 exactly."""


def find_mistakes(policy: PolicyParts, unread: Collection[str] = ()) -> list[str]:
    """All mistakes of a policy, in the order of its keys.

    unread: fields that could not be read (already reported): rules that would blame them twice, or blame
        others for what they might have been, are left out.
    """
    mistakes = list(_rules_of_the_whole(policy))
    mistakes += rules_of_lasting(policy)
    mistakes += () if policy.csv is None else rules_of_csv(policy.csv)
    mistakes += _rules_of_time(policy, unread)
    mistakes += _rules_of_roles(policy, unread)
    mistakes += _rules_of_partitions(policy, unread)
    mistakes += rules_of_diversity(policy, unread)
    for field in policy.fields:
        if field.name not in unread:
            mistakes += _rules_of_field(field)
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
    for name in policy.partition_by:
        if name in unread or (name not in fields and unread):
            continue
        if name not in fields:
            yield f"partition_by: {name} is not declared in fields"
        elif fields[name].role is not Role.INSENSITIVE:
            yield (
                f"partition_by: {name} has role: {fields[name].role}, but a partition field is published as "
                "it is: give it role: insensitive, or do not partition by it"
            )
    if len(set(policy.partition_by)) < len(policy.partition_by):
        yield "partition_by: names a field twice"


def _rules_of_field(field: Field) -> Iterator[str]:
    where = f"fields.{field.name}"
    if not field.name:
        yield "fields: a field needs a name"
    if field.name.startswith("__"):
        yield f"{where}: names that start with '__' are reserved; rename the field in the input"
    published = field.quasi is not None or field.role in (Role.SENSITIVE, Role.INSENSITIVE)
    if published and field.name in RESERVED:
        yield f"{where}: the release has a column of this name itself; rename the field in the input"
    if field.value is not None and field.value not in PLAIN_VALUES and decimal_value(field.value) is None:
        yield f"{where}.as: must be one of {', '.join(PLAIN_VALUES)} or decimal(p,s) with s <= p <= 38"
    if field.role is Role.QUASI and field.quasi is None:
        yield f"{where}.type: a quasi-identifier needs a type: numeric, date or categorical"
    if field.accept_risk is not None:
        yield from _rules_of_accepted_risk(where, field)
    yield from _rules_of_text(where, field)
    if field.quasi is not None:
        if field.role not in (Role.QUASI, Role.TIME):
            yield f"{where}: only role: quasi, or a time field with also_quasi: true, can be generalized"
        if field.role is Role.TIME and field.quasi.type is not QuasiType.DATE:
            yield f"{where}.type: a time field that is also a quasi-identifier needs type: date"
        yield from _rules_of_quasi(where, field.quasi)
        yield from _rules_of_value(where, field)


def _rules_of_text(where: str, field: Field) -> Iterator[str]:
    form = TextForm(format=field.format, timezone=field.timezone, fold=field.fold)
    kind = None if field.quasi is None else field.quasi.type
    if field.value is not None:
        days, instants = field.value == "date", field.value == "timestamp"
    elif field.role is Role.TIME:
        days, instants = False, True
    else:  # the role decides, or the column of a typed input, or the format itself
        open_ = kind is QuasiType.DATE or field.role in (Role.SENSITIVE, Role.INSENSITIVE)
        days, instants = open_ and not has_time(field.format), open_
    yield from rules_of_form(where, form, instants=instants, days=days)


def _rules_of_accepted_risk(where: str, field: Field) -> Iterator[str]:
    if field.role not in (Role.SENSITIVE, Role.INSENSITIVE):
        yield (
            f"{where}.accept_risk: belongs to fields that are published as they are (role: sensitive or insensitive); "
            f"leave it out with role: {field.role}"
        )
    elif not isinstance(field.accept_risk, str) or not field.accept_risk.strip():
        yield f"{where}.accept_risk: must be the reason, as text, why the field's risk is accepted"


def _rules_of_value(where: str, field: Field) -> Iterator[str]:
    if field.quasi is None or field.value is None:
        return
    numbers = field.value in ("int", "long", "float", "double") or decimal_value(field.value) is not None
    if field.quasi.type is QuasiType.NUMERIC and not numbers:
        yield f"{where}.as: type: numeric needs int, long, float, double or decimal(p,s)"
    if field.quasi.type is QuasiType.DATE and field.value not in ("date", "timestamp"):
        yield f"{where}.as: type: date needs date or timestamp"


def _rules_of_quasi(where: str, quasi: Quasi) -> Iterator[str]:
    yield from _rules_of_hierarchy(where, quasi)
    weight = quasi.weight
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
        yield f"{where}.weight: must be a positive, finite number"
    yield from _rules_of_domain(where, quasi)
    yield from _rules_of_grid(where, quasi)
    if quasi.outside is Outside.CODE:
        if quasi.domain is None:
            yield f"{where}.outside: code needs a domain to cut to"
        if quasi.type in (QuasiType.CATEGORICAL, QuasiType.HIERARCHY):
            yield f"{where}.outside: code works for numeric and date only; a category has no nearest one"


def _rules_of_hierarchy(where: str, quasi: Quasi) -> Iterator[str]:
    if quasi.type is not QuasiType.HIERARCHY:
        if quasi.hierarchy is not None:
            yield (
                f"{where}.hierarchy: belongs to type: hierarchy, and this is type: {quasi.type}; whole numbers may "
                "have that type too"
            )
        return
    if quasi.hierarchy is None:
        yield f"{where}.hierarchy: missing; name its file (a row a value, the value first, separated by ;)"
    if quasi.domain is not None:
        yield f"{where}.domain: the values of a hierarchy are its domain; leave it out"
    if quasi.grid != "auto":
        yield f"{where}.grid: a hierarchy has no grid; leave it out"


def _rules_of_domain(where: str, quasi: Quasi) -> Iterator[str]:
    domain = quasi.domain
    if domain is None:
        return
    if quasi.type is QuasiType.CATEGORICAL:
        if not domain or not _all(domain, str):
            yield f"{where}.domain: must list at least one value, as text (put numbers and yes/no in quotes)"
        elif len(set(domain)) < len(domain):
            yield f"{where}.domain: lists a value twice"
        elif "" in domain:
            yield f"{where}.domain: an empty text is a null, which needs no place in the domain"
    elif quasi.type is QuasiType.NUMERIC:
        if (
            len(domain) != 2
            or not _all(domain, Decimal)
            or not all(end.is_finite() for end in _decimals(domain))
        ):
            yield f"{where}.domain: must be [low, high], two numbers"
        elif not domain[0] < domain[1]:  # type: ignore[operator]
            yield f"{where}.domain: low must be below high"
    elif quasi.type is QuasiType.DATE:
        if len(domain) != 2 or isinstance(domain[0], datetime) != isinstance(domain[1], datetime):
            yield f"{where}.domain: must be [first, last], two dates or two date-times"
        elif not domain[0] < domain[1]:  # type: ignore[operator]
            yield f"{where}.domain: the first date must be before the last"


def _rules_of_grid(where: str, quasi: Quasi) -> Iterator[str]:
    grid = quasi.grid
    if quasi.type is QuasiType.CATEGORICAL:
        if grid != "auto":
            yield f"{where}.grid: a categorical field has no grid; leave it out"
    elif quasi.type is QuasiType.NUMERIC:
        if isinstance(grid, Decimal):
            if not grid.is_finite() or grid <= 0:
                yield f"{where}.grid: must be a positive number"
            elif (
                len(grid.normalize().as_tuple().digits) > MOST_GRID_DIGITS or not -30 <= grid.adjusted() <= 30
            ):
                yield f"{where}.grid: needs at most {MOST_GRID_DIGITS} digits, between 1e-30 and 1e30"
        elif grid not in ("auto", "exact"):
            yield f"{where}.grid: must be auto, exact or a positive number"
    elif quasi.type is QuasiType.DATE and grid not in ("auto", "exact", *DATE_UNITS):
        yield f"{where}.grid: must be auto, exact or one of {', '.join(DATE_UNITS)}"


def _all(values: Iterable[object], kind: type) -> bool:
    return all(isinstance(value, kind) for value in values)


def _decimals(values: Iterable[object]) -> Iterator[Decimal]:
    return (value for value in values if isinstance(value, Decimal))
