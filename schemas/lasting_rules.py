"""What a policy of ``cohort: lasting`` must say, and what no policy says without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from kanonflow.schemas.policy_fields import Role
from kanonflow.schemas.policy_parts import PolicyParts

LARGEST_COHORT = 255
"""People a cohort at most: the largest classes that the solvers make."""
ONE_CLASS = "pass-through"
"""The method that puts everybody into one class, to measure what solving costs."""
_OF_LASTING = ("cohort_size", "intake", "max_outdated")
_OTHERWISE = "or say cohort: window"


def rules_of_lasting(policy: PolicyParts) -> Iterator[str]:
    """Mistakes in what a policy says of cohorts that last."""
    if policy.cohort != "lasting":
        for key in _OF_LASTING:
            if getattr(policy, key) is not None:
                yield f"{key}: belongs to cohort: lasting; leave it out, or say cohort: lasting"
        return
    if policy.protect == "row":  # The rule of cohort says it.
        return
    if policy.window_ms is None:
        yield (
            "cohort: lasting needs a window, for it promises something over many releases, and without a window there "
            "is one; give a window such as 1d, or say cohort: window"
        )
    yield from _rules_of_sizes(policy)
    yield from _rules_of_search(policy)
    yield from _rules_of_fields(policy)


def _rules_of_sizes(policy: PolicyParts) -> Iterator[str]:
    size, intake, outdated = policy.cohort_size, policy.intake, policy.max_outdated
    sizes = {"k": policy.k} if _whole(policy.k) else {}
    if not _whole(size):
        yield "cohort_size: must be a whole number; leave it out for k"
    elif size > LARGEST_COHORT:
        yield f"cohort_size: must be at most {LARGEST_COHORT}, and is {size}; lower it (without it, it is k)"
    elif sizes and size < policy.k:
        yield f"cohort_size: must be at least k = {policy.k}, and is {size}; raise it, or leave it out for k"
    else:
        sizes["cohort_size"] = size
    least = max(sizes, key=lambda name: sizes[name], default="")
    if not _whole(intake):
        yield "intake: must be a whole number of newcomers; leave it out for the default"
    elif least and intake < sizes[least]:
        yield f"intake: must be at least {least} = {sizes[least]}, and is {intake}; raise it, or leave it out"
    if isinstance(outdated, bool) or not isinstance(outdated, int | float) or not 0 <= outdated < 1:
        yield "max_outdated: must be a share of a window's rows, at least 0 and below 1; leave it out for 0.02"


def _rules_of_search(policy: PolicyParts) -> Iterator[str]:
    choice = policy.solver
    if choice.deadline_ms is not None:
        yield (
            f"solver.deadline: {choice.deadline_ms}ms would make groups that last depend on the machine; give "
            f"evaluations_per_row in its place, {_OTHERWISE}"
        )
    if choice.loss == "sil":
        yield f"solver.loss: cohort: lasting lowers ncp, not sil; leave it out, {_OTHERWISE}"
    if policy.by_levels:
        yield (
            f"solver.method: {choice.method} publishes levels of hierarchies, and cohort: lasting needs a solver that "
            f"makes classes; leave it out, {_OTHERWISE}"
        )
    elif choice.method == ONE_CLASS:
        yield (
            f"solver.method: {choice.method} puts everybody into one class, and cohort: lasting needs a solver that "
            f"makes cohorts; leave it out, {_OTHERWISE}"
        )


def _rules_of_fields(policy: PolicyParts) -> Iterator[str]:
    for field in policy.fields:
        if field.role is Role.TIME and field.quasi is not None:
            yield (
                f"fields.{field.name}.also_quasi: a time differs from row to row, and cohort: lasting publishes boxes "
                f"of what is a person's; leave it out, {_OTHERWISE}"
            )
        for key in ("diversity", "closeness"):
            if getattr(field, key) is not None:
                yield (
                    f"fields.{field.name}.{key}: cohort: lasting would have to count it over all releases of a person, "
                    f"which comes with a later version; leave it out, {_OTHERWISE}"
                )


def _whole(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and not isinstance(number, bool)
