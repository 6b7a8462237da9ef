"""Policies beside the one that is explained: another k, window, delay, protection, or a field less.

One thing is changed at a time, but for k and the window, which are tried together: every k of ``KS`` with every window.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.durations import format_duration, parse_duration
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.key_kinds import read_keys
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_fields import Field, Role
from kanonflow.schemas.policy_keys import HEAD
from kanonflow.schemas.promises.promise import OF_LASTING
from kanonflow.schemas.promises.promises import PROMISES, promise_of

KS = (3, 5, 10, 20)
EVALUATIONS_PER_ROW = 1000.0
"""Of the search of windows afresh and of rows, where a policy leaves it open: less than a run's, at up to 3% more loss.
Cohorts that last are searched as in a run."""
_SIZES = ("k", "cohort_size", "intake", "intake_share", "split_by")


class Group(StrEnum):
    """What is varied."""

    GRID = "k and window"
    WITHOUT = "without"
    DELAY = "max_delay"
    INTAKE = "intake"
    AGAINST = "against"
    PROTECTION = "protection"


@dataclass(frozen=True)
class Variant:
    """A policy to be tried. name: in tables. change: the keys of a policy file that make it of the one explained, {} of
    that itself; ``fields`` by name. promise: of a protection, in a line."""

    group: Group
    name: str
    change: Mapping[str, Any]
    bound: BoundPolicy
    promise: str = ""

    @property
    def policy(self) -> Policy:
        """The policy alone."""
        return self.bound.policy


@dataclass(frozen=True)
class Refused:
    """A policy that cannot be. why: what the policy's rules say."""

    group: Group
    name: str
    why: str


def variants(
    bound: BoundPolicy, windows: Sequence[int], follows: Sequence[str], needed: Sequence[str] = ()
) -> tuple[tuple[Variant, ...], tuple[Refused, ...]]:
    """All variants of a policy, and those that are none.

    windows: lengths in ms beside the policy's own. follows: quasi-identifiers that say nothing that others do not; they
    are left out one by one as any field is, and all of them together. needed: those that are never left out.
    """
    found: list[Variant] = []
    refused: list[Refused] = []
    for group, name, change, promise in _asked(bound.policy, windows, follows, needed):
        try:
            found.append(Variant(group, name, change, changed(bound, change), promise))
        except PolicyError as error:
            refused.append(Refused(group, name, "; ".join(error.mistakes)))
    return tuple(found), tuple(refused)


def _asked(
    policy: Policy, windows: Sequence[int], follows: Sequence[str], needed: Sequence[str]
) -> Iterator[tuple[Group, str, dict[str, Any], str]]:
    own = policy.window_ms
    for k in sorted({*KS, policy.k}):
        # Shorter windows lose more and are many to play: with the policy's k alone.
        lengths = [each for each in sorted({*windows, own or 0}) if k == policy.k or each >= (own or 0)]
        for window in lengths if own is not None else [None]:
            change: dict[str, Any] = {} if k == policy.k else {"k": k, **policy.promise.room_for(policy, k)}
            if window is not None and window != own:
                change["window"] = format_duration(window)
                if policy.window_offset_ms >= window:
                    change["window_offset"] = format_duration(policy.window_offset_ms % window)
            told = "" if window is None else f", window {format_duration(window)}"
            yield Group.GRID, f"k {k}{told}", change, ""
    quasis = [field.name for field in policy.fields if field.role is Role.QUASI]
    if len(quasis) > 1:
        for name in quasis:
            if name not in needed:
                yield Group.WITHOUT, name, left_out([name]), ""
        if 1 < len(follows) < len(quasis):
            yield Group.WITHOUT, " and ".join(follows), left_out(follows), ""
    if own is not None:
        for delay in sorted({0, policy.max_delay_ms, 2 * own}):
            value: str | int = format_duration(delay) if delay else 0
            yield Group.DELAY, str(value), {} if delay == policy.max_delay_ms else {"max_delay": value}, ""
    for name, intake in policy.promise.intakes(policy).items():
        yield Group.INTAKE, name, dict(intake), ""
    for name, clause in policy.promise.clauses(policy).items():
        yield Group.AGAINST, name, dict(clause), ""
    for promise in PROMISES:
        for each in promise.alternatives(policy):
            yield Group.PROTECTION, each.name, dict(each.change), each.told


def left_out(names: Sequence[str]) -> dict[str, Any]:
    """The change that leaves fields out of a release."""
    return {"fields": {name: {"role": "identifier"} for name in names}}


def changed(bound: BoundPolicy, change: Mapping[str, Any]) -> BoundPolicy:
    """The bound policy under a change of its file, to be tried. Raises PolicyError: no policy, or no solver for it."""
    from kanonflow.transforms.solver_check import check_solver

    policy = bound.policy
    # What the policy left open is open still.
    parts = {**policy.promise.left_open(policy), **{key: change[key] for key in _SIZES if key in change}}
    parts |= _lengths(policy, change)
    if "against" in change:
        parts["against"] = read_keys(HEAD, {"against": change["against"]}, []).get("against")
    if "protect" in change or "cohort" in change:
        parts |= {key: change.get(key) for key in ("protect", "cohort")}
        other = promise_of(change.get("protect") or "individual", change.get("cohort"))
        parts |= {key: None for key in OF_LASTING if key not in other.members}
    keys = change.get("fields", {})
    parts["fields"] = tuple(_field(field, keys.get(field.name, {})) for field in policy.fields)
    made = dataclasses.replace(policy, **parts)
    if not made.promise.epochs and made.solver.evaluations_per_row is None:
        solver = dataclasses.replace(made.solver, evaluations_per_row=EVALUATIONS_PER_ROW)
        made = dataclasses.replace(made, solver=solver)
    check_solver(made)
    columns = tuple(
        dataclasses.replace(column, field=_field(column.field, keys.get(column.name, {})))
        for column in bound.columns
        if "role" not in keys.get(column.name, {})
    )
    return dataclasses.replace(bound, policy=made, columns=columns)


def _field(field: Field, keys: Mapping[str, Any]) -> Field:
    """A field that is left out (``role: identifier``, in the place of all its keys), or has another ``weight``."""
    if "role" in keys:
        return dataclasses.replace(field, role=Role.IDENTIFIER, quasi=None)
    if "weight" in keys and field.quasi is not None:
        return dataclasses.replace(field, quasi=dataclasses.replace(field.quasi, weight=keys["weight"]))
    return field


def _lengths(policy: Policy, change: Mapping[str, Any]) -> dict[str, Any]:
    lengths = {
        key: parse_duration(change[key]) for key in ("window", "window_offset", "max_delay") if key in change
    }
    return {f"{key}_ms": length for key, length in lengths.items()} | ({"state_ttl_ms": 0} if lengths else {})
