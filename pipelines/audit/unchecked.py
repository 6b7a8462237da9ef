"""What an audit did not look at, each with its reason, so that "passed" is not read for more than it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kanonflow.schemas.policy import Policy, Protection


@dataclass(frozen=True)
class Seen:
    """What an audit was given, and how far it came. metrics: there are any; structure: the graph was judged."""

    matching_records: bool
    secret: bool
    metrics: bool
    waiting: bool
    structure: bool


def not_checked(policy: Policy, seen: Seen) -> tuple[str, ...]:
    """One line a thing that was not checked: its name, a colon, and why. No line holds a record's value."""
    return tuple(f"{name}: {reason}" for name, reason in _unchecked(policy, seen))


def _unchecked(policy: Policy, seen: Seen) -> Iterator[tuple[str, str]]:
    if not seen.structure:
        yield "how many may stand behind a row", "the audit ended before, see the failures"
    if not seen.matching_records:
        yield "which member a row belongs to", "no matching records given (--certificates)"
        yield "uniformity of the permutation", "no matching records given (--certificates)"
        if not policy.closed or policy.protect is not Protection.INDIVIDUAL:
            yield (
                "payloads that changed places between boxes that hold both records",
                "no matching records given (--certificates)",
            )
    elif not seen.secret:
        yield (
            "that each matching is the one the secret draws",
            "no secret given (--secret-file); the ranks of all draws together were tested",
        )
    if not policy.closed:
        yield (
            "boxes as tight as their own members",
            "members are not published; boxes were held against all records that lie in them",
        )
    if policy.by_levels:
        yield "labels as low as their members allow", "the policy publishes whole fields at one level"
    if not seen.metrics:
        yield "metrics", "there are none in restricted/metrics"
    else:
        yield (
            "losses, bounds, effort and times in the metrics",
            "only counts, windows and k follow from the releases",
        )
    if seen.waiting:
        yield "rows that wait", "the run goes on (--waiting)"
    yield "why a readable row was rejected", "only faulty values can be told from the input"
    yield "that the payload had no say in who is grouped with whom", "only the pipeline's own tests show it"
    yield (
        "second releases in other directories or topics, or under another policy",
        "only one directory is read",
    )
    yield "who has read the files", "modes are compared, not accounts, copies or times"
    yield (
        "which of several spellings the same bytes have",
        "how rows fall into blocks, and how these are compressed",
    )
