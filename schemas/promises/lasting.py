"""Cohorts that last: people are put together once, when they enter, and are released in groups of whole cohorts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from kanonflow.schemas.against import rules_of_against
from kanonflow.schemas.diversity_declaration import words_of_values
from kanonflow.schemas.policy_fields import PAYLOAD, RULES_OF_VALUES, Per, Role
from kanonflow.schemas.policy_parts import PolicyParts
from kanonflow.schemas.policy_rules import RESERVED
from kanonflow.schemas.promises.promise import OF_LASTING, Alternative, Promise
from kanonflow.schemas.published_group import rules_of_group
from kanonflow.schemas.published_member import rules_of_member
from kanonflow.schemas.readers import KnownWindows, Reader

LARGEST_COHORT = 255
"""People a cohort at most: the largest classes that the solvers make."""
ONE_CLASS = "pass-through"
"""The method that puts everybody into one class, to measure what solving costs."""
INTAKE_TIMES_K = 200
"""So many times k newcomers wait for each other where rows may wait, unless the policy says otherwise."""
INTAKE_SHARE = 0.05
"""So large a share of the people who have entered, too: of 100,000, days of 1,000 entering together lost 39% more."""
MAX_OUTDATED = 0.02
"""Share of a window's rows outside their frozen box above which a run says that a renewal is due."""
_NEVER_SO_MANY = 1_000_000
_TRIED = ((1, 0, 1), (3, 0, 1), (3, 1, 1), (3, 0, 2))
"""Readers whom rows would be dropped for: known windows, known people, and how many times as large cohorts."""
_OTHERWISE = "or say cohort: window"


class Lasting(Promise):
    """``protect: individual`` with ``cohort: lasting``."""

    protect, cohort = "individual", "lasting"
    epochs = True
    members = OF_LASTING
    group_columns = ("class_id",)
    per = Per.RELEASE
    candidates = "By person: people of its cohort, over all releases of the epoch"
    evidence = (
        "a proof that a machine checks (proofs/), of a model of the step and from these premises. That"
        " the program is that model is tested, not proved; so is every measure of risk and of readers."
    )
    over_releases = "over the epoch"

    def said(self, k: int) -> str:
        """As of ``Promise``."""
        return (
            f"People enter in cohorts of {k} or more, for good. All rows of a person over all releases of this epoch,"
            f" linked or not, are a given person's with probability at most 1/{k}: for a reader who has the"
            " attributes of everybody at hand, knows the method to the letter, knows in which release each person"
            " entered, and recognizes every row of a person in every release."
        )

    def limits(self, k: int) -> tuple[str, ...]:
        """As of ``Promise``."""
        return (
            "It is not for a reader who knows anything of when or how often somebody was active: one purchase with its"
            " day, a holiday, a stay in hospital. Who knows one purchase by its day and amount finds, as a rule, all"
            " rows of the person. Row counts are not hidden, nor is who was there.",
            "Candidates are accounts, people who have left among them. Attributes are those at entry, if none of them"
            " changed between a person's first row and then.",
            "It is the promise of one epoch: lost state, a run that does not go on from the cohorts of the one before,"
            " or a second policy over the same people each begin another, and what two epochs tell together is not"
            " covered.",
        )

    def covered(self, policy: PolicyParts) -> tuple[str, ...]:
        """As of ``Promise``."""
        return (
            *(each.words for each in policy.followed_by.values()),
            "cohort: lasting. All rows of a person, linked over all releases of an epoch, belong to a given individual"
            " with a probability of at most 1/k, for a reader who knows everybody's attributes as of entry, the method,"
            " and in which release each person entered.",
            "It does not cover a reader who knows anything about when or how often somebody was active (a purchase with"
            " its day, a holiday, a closed account), payload that hints at the person over many rows, nor several"
            " epochs, policies or outputs over the same people. What all people of a cohort share is certain."
            " docs/guarantees.md has the rest.",
            *(() if policy.against is None else policy.against.words(policy.k)),
            *words_of_values(policy.fields),
        )

    def waits(self, policy: PolicyParts) -> tuple[str, ...]:
        """As of ``Promise``."""
        if self.waiting_ms(policy) == 0:
            return (
                "No row waits as long as a window: newcomers enter with the release of their first window if there are"
                f" {policy.cohort_size} of them, else their rows are rejected.",
            )
        share = policy.intake_share
        among = f" and {share:.2g} of those who have entered" if share else ""
        return (
            f"Newcomers wait until there are {policy.intake:,} of them{among}, or until a row of one has waited for"
            f" max_delay; then all enter in cohorts of {policy.cohort_size} or more. Larger intakes lose less.",
        )

    def waiting_ms(self, policy: PolicyParts) -> int:
        """As many whole windows of max_delay as there are.

        Why: rows leave at the ends of windows only, and an intake that was due between two of them would be a release
        in no window.
        """
        window = policy.window_ms
        return policy.max_delay_ms // window * window if window else policy.max_delay_ms

    def defaults(self, policy: PolicyParts) -> Mapping[str, Any]:
        """As of ``Promise``."""
        size = _least(policy, policy.k) if policy.cohort_size is None else policy.cohort_size
        intake: object = size
        if policy.max_delay_ms > 0 and isinstance(size, int) and isinstance(policy.k, int):
            intake = max(INTAKE_TIMES_K * policy.k, size)
        share = INTAKE_SHARE if policy.intake in (None, intake) and policy.max_delay_ms > 0 else 0.0
        return {"cohort_size": size, "intake": intake, "intake_share": share, "max_outdated": MAX_OUTDATED}

    def rules(self, policy: PolicyParts) -> Iterator[str]:
        """As of ``Promise``."""
        if policy.protect != self.protect:  # The rule of cohort says it.
            return
        if policy.window_ms is None:
            yield (
                "cohort: lasting needs a window, for it promises something over many releases, and without a window"
                " there is one; give a window such as 1d, or say cohort: window"
            )
        yield from _rules_of_sizes(policy)
        yield from _rules_of_search(policy)
        yield from _rules_of_fields(policy)
        if policy.against is not None:
            payload = [field.name for field in policy.fields if field.role in PAYLOAD]
            parts = (*policy.partition_by, *policy.split_by)
            yield from rules_of_against(policy.against, policy.k, policy.cohort_size, payload, parts)
        names = [field.name for field in policy.fields]
        reserved: tuple[str, ...] = (*RESERVED, *self.group_columns)
        if policy.publish_group is not None:
            yield from rules_of_group(policy.publish_group, names, reserved)
            reserved = (*reserved, *policy.publish_group.columns)
        if policy.publish_member is not None:
            yield from rules_of_member(policy.publish_member, names, reserved, policy.against)

    def left_open(self, policy: PolicyParts) -> Mapping[str, None]:
        """As of ``Promise``."""
        sizes = ("cohort_size",) * (policy.cohort_size == _least(policy, policy.k))
        intake = ("intake",) * self._has_default_intake(policy)
        share = ("intake_share",) * (policy.intake_share == self.defaults(policy)["intake_share"])
        return dict.fromkeys(sizes + intake + share)

    def room_for(self, policy: PolicyParts, people: int) -> Mapping[str, Any]:
        """As of ``Promise``."""
        size, intake, least = policy.cohort_size or 0, policy.intake or 0, _least(policy, people)
        change: dict[str, Any] = {"cohort_size": least} if _least(policy, policy.k) < size < least else {}
        if intake < people and not self._has_default_intake(policy):
            change["intake"] = None
        return change

    def intakes(self, policy: PolicyParts) -> Mapping[str, Mapping[str, Any]]:
        """As of ``Promise``: none waits, as the policy has it, all wait as long as they may."""
        if self.waiting_ms(policy) == 0:
            return {}
        own, size = policy.intake or 0, policy.cohort_size or 0
        tried = {"at once": {"intake": size}} if own > size else {}
        return {**tried, f"{own:,}": {}, "when a row must leave": {"intake": _NEVER_SO_MANY}}

    def clauses(self, policy: PolicyParts) -> Mapping[str, Mapping[str, Any]]:
        """As of ``Promise``: nobody, the policy's, who knows windows, with a person, of larger cohorts."""
        if policy.window_ms is None:
            return {}
        own, size = policy.against, policy.cohort_size or policy.k
        tried: dict[str, Mapping[str, Any]] = {
            "nobody who knows more": {} if own is None else {"against": None}
        }
        if own is not None:
            tried["who the policy says"] = {}
        for windows, people, cohorts in _TRIED:
            name = Reader(KnownWindows(windows), known_people=people).name
            change: dict[str, Any] = {"against": {"known_windows": {"count": windows, "drop": True}}}
            if people:
                change["against"] |= {"known_people": people}
            least = max(size * cohorts, policy.k + people)
            if cohorts > 1 or size < least:
                change |= {**self.room_for(policy, least), "cohort_size": least}
            tried[name if cohorts == 1 else f"{name}, cohorts of {least}"] = change
        return tried

    def alternatives(self, policy: PolicyParts) -> Iterator[Alternative]:
        """Cohorts of the policy's size, and of twice that; of policies with a window, and people."""
        if policy.window_ms is None or not policy.owner:
            return
        own = policy.promise is self
        size = policy.cohort_size or policy.k
        if own and policy.split_by:
            yield Alternative(
                "not split", {"split_by": None}, "the same, with one release a window: no split_by"
            )
        for people in (size, 2 * size):
            change: dict[str, Any] = {} if own else {"protect": None, "cohort": self.cohort}
            if people != size:
                change |= {**policy.promise.room_for(policy, people), "cohort_size": people}
            yield Alternative(
                f"cohorts of {people}",
                change,
                f"lasting: all rows of a person, over all releases, are one of {people} people's or more; not to"
                " who knows when somebody was active",
            )

    def _has_default_intake(self, policy: PolicyParts) -> bool:
        """Whether the intake is the one that a policy has which says none."""
        return policy.intake == self.defaults(policy)["intake"]


def _least(policy: PolicyParts, k: int) -> int:
    """People a cohort at least, for k."""
    return k if policy.against is None or not isinstance(k, int) else policy.against.left(k)


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
    if not _share(policy.intake_share):
        yield "intake_share: must be a share of who has entered, at least 0 and below 1; leave it out for the default"
    if not _share(outdated):
        yield "max_outdated: must be a share of a window's rows, at least 0 and below 1; leave it out for 0.02"


def _share(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value < 1


def _rules_of_search(policy: PolicyParts) -> Iterator[str]:
    choice = policy.solver
    if choice.deadline_ms is not None:
        yield (
            f"solver.deadline: {choice.deadline_ms}ms would make groups that last depend on the machine; give "
            f"evaluations_per_row in its place, {_OTHERWISE}"
        )
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
        for key in RULES_OF_VALUES:
            rule = getattr(field, key)
            if rule is not None and rule.per is None:
                yield (
                    f"fields.{field.name}.{key}: cohort: lasting has two forms of it, neither a promise over the epoch;"
                    f" add per: release (in each release groups are merged until their values meet it, a floor "
                    f"for readers who do not link releases) or per: epoch (counted for each cohort, measured only), "
                    f"leave it out, {_OTHERWISE}"
                )


def _whole(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and not isinstance(number, bool)
