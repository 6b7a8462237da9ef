"""What a person at the terminal reads of cohorts that last: who is known, who waits for what, what boxes are worth."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.roster.first_partitions import divided_words

Record = Mapping[str, Any]
_SLACK = 1e-9
"""Of a share that was written: 1 - .99 is no number of binary digits."""
SMALL_INTAKE = 10
"""Times cohort_size: of fewer people at once few are alike."""


class AgainstCount(NamedTuple):
    """Over the epoch so far. below: people left with fewer than k, of ``people`` with rows out. at_least: there may be
    more."""

    reader: str
    below: int
    people: int
    at_least: bool

    def misses(self, wanted: float) -> bool:
        """Whether fewer than that share are left with k."""
        return self.below > (1.0 - wanted) * self.people + _SLACK

    @property
    def words(self) -> str:
        """98.6% of 1,000 people released are left with k: never rounded up to a share that was missed."""
        share = math.floor(1000 * (self.people - self.below) / self.people) / 10
        most = "at most " if self.at_least else ""
        return (
            f"{most}{share:.1f}% of {self.people:,} people released are left with k or more by who knows any"
            f" {self.reader}"
        )


class LastingFigures(NamedTuple):
    """Of all partitions after their last steps, and of all releases.

    known, cohorts: people and cohorts. pool: people who wait for an intake, by the window end with which they must
    enter at the latest; None: that time is over, or not known.
    merged, kept, groups: of the releases. candidates: smallest cohort of anybody released.
    intakes: people of each. newcomers_loss: mean over them of the GCP of newcomers' rows, by people; None: nobody.
    outdated: by field, share of released rows outside of their frozen box in the release where it is largest.
    mended: loss of the groups before they were merged further for such rules, and after, by rows; None: all met them.
    failing: by rule for sensitive values, people in cohorts whose rows that are out do not meet it, and all released.
    against: of the reader of ``against`` who is measured; None: there is none, or nothing is out.
    """

    known: int
    cohorts: int
    pool: tuple[tuple[dt.datetime | None, int], ...]
    merged: int
    kept: int
    groups: int
    candidates: int | None
    intakes: tuple[int, ...]
    newcomers_loss: float | None
    outdated: Mapping[str, float]
    mended: tuple[float, float] | None
    failing: Mapping[str, tuple[int, int]]
    against: AgainstCount | None = None


def lasting_figures(records: Iterable[Record], waiting_ms: int | None = None) -> LastingFigures | None:
    """The figures of metrics records; None where none is of ``cohort: lasting``.

    waiting_ms: how long a row may wait under the policy; None: not known.
    """
    steps = sorted((each for each in records if each.get("epoch") is not None), key=turn)
    if not steps:
        return None
    last: dict[str, Record] = {}
    begun: dict[str, dt.datetime | None] = {}
    for each in steps:
        partition, end = each["partition"], each["window_end"]
        if each["people_entered"] or not each["pool"]:
            begun.pop(partition, None)
        if each["pool"]:
            begun.setdefault(partition, _time(end))
        last[partition] = each
    pool: dict[dt.datetime | None, int] = {}
    for partition, each in last.items():
        if each["pool"]:
            must = _deadline(begun[partition], _time(each["window_end"]), waiting_ms)
            pool[must] = pool.get(must, 0) + each["pool"]
    released = [each for each in steps if each["released"]]
    smallest = [each["epoch_candidates"]["minimum"] for each in released if each["epoch_candidates"]]
    entered = [each for each in released if each["gcp_newcomers"] is not None]
    people = sum(each["people_entered"] or 0 for each in entered)
    outdated: dict[str, float] = {}
    for each in released:
        for field, rows in each["outdated_values"].items():
            outdated[field] = max(outdated.get(field, 0.0), rows / max(each["rows_released"], 1))
    return LastingFigures(
        sum(each["people_known"] or 0 for each in last.values()),
        sum(each["cohorts"] or 0 for each in last.values()),
        tuple(sorted(pool.items(), key=lambda item: (item[0] is None, item[0] or dt.datetime.min))),
        sum(each["groups_merged"] or 0 for each in released),
        sum(each["groups_kept"] or 0 for each in released),
        sum(each["classes"] or 0 for each in released),
        min(smallest, default=None),
        tuple(each["people_entered"] or 0 for each in entered),
        sum(each["gcp_newcomers"] * (each["people_entered"] or 0) for each in entered) / people
        if people
        else None,
        outdated,
        _mended(released),
        _failing(last.values()),
        _against(last.values()),
    )


def _mended(released: Sequence[Record]) -> tuple[float, float] | None:
    before = [each.get("loss_without_rules") for each in released]
    if all(loss is None for loss in before):
        return None
    rows = sum(each["rows_released"] for each in released)
    after = [each["loss_end"] for each in released]
    before = [end if plain is None else plain for plain, end in zip(before, after, strict=True)]
    weights = [each["rows_released"] for each in released]
    sums = [sum(map(operator.mul, losses, weights)) for losses in (before, after)]
    return sums[0] / rows, sums[1] / rows


def _failing(records: Iterable[Record]) -> dict[str, tuple[int, int]]:
    """Summed over partitions. records: the last of each."""
    sums: dict[str, tuple[int, int]] = {}
    for record in records:
        for rule, count in record.get("epoch_diversity", {}).items():
            people, counted = sums.get(rule, (0, 0))
            sums[rule] = (people + count["people"], counted + count["people_counted"])
    return sums


def _against(records: Iterable[Record]) -> AgainstCount | None:
    """As of ``_failing``."""
    counts = [each for record in records if (each := record.get("epoch_against")) and each["people"]]
    if not counts:
        return None
    below, people = (sum(each[name] for each in counts) for name in ("below_k", "people"))
    return AgainstCount(counts[-1]["reader"], below, people, any(each["at_least"] for each in counts))


def failing_lines(figures: LastingFigures | None, policy: Policy | None) -> tuple[str, ...]:
    """Why a run is a failure whose cohorts show too few values over the epoch (``max_failing``), or that leaves too few
    people with k to a reader who is measured (``wanted``); none of others."""
    if figures is None or policy is None:
        return ()
    lines = []
    wanted = None if policy.against is None else policy.against.wanted
    if wanted is not None and figures.against is not None and figures.against.misses(wanted):
        lines.append(
            f"against: wanted {_percent(wanted)}, and {figures.against.words}. What was released stays. Larger cohorts"
            " (cohort_size), longer windows or a coarser payload leave more; drop: true promises it; or ask for less in"
            " against"
        )
    for field in policy.counted:
        for rule in field.rules:
            people, counted = figures.failing.get(f"{field.name}.{rule.name}", (0, 0))
            if rule.max_failing is not None and people > rule.max_failing * counted:
                lines.append(
                    f"{people:,} of {counted:,} people released ({people / counted:.1%}) are in cohorts whose rows over"
                    f" the epoch do not meet {rule.words} of {field.name}, and max_failing is {rule.max_failing:g}."
                    " What was released stays. Larger cohorts (cohort_size) or a coarser field show more; or raise"
                    " max_failing"
                )
    return tuple(lines)


def lasting_lines(figures: LastingFigures, policy: Policy | None = None, divided: int = 0) -> tuple[str, ...]:
    """Some lines: the cohorts, who is in several partitions, groups, small intakes, who waits for what, what rules
    for values cost, whom they and ``against`` leave over the epoch, what is outdated.

    divided: people with rows in more than one partition. Where there are any, no candidates over the epoch are told:
    each partition counts its own cohort of theirs only.

    policy: says what those who wait are waiting for, and above which share values are outdated; None: that is left out.
    """
    least = (
        ""
        if figures.candidates is None or divided
        else f", candidates over the epoch {figures.candidates:,} or more"
    )
    lines = [f"{figures.known:,} people known in {figures.cohorts:,} cohorts{least}"]
    if divided:
        lines.append(
            f"{divided_words(divided)}: they are in two cohorts, and the promise over releases is not made"
        )
    if figures.groups:
        loss = "" if figures.newcomers_loss is None else f"; newcomers lose {figures.newcomers_loss:.4f}"
        lines.append(
            f"groups: {figures.groups:,}, of which {figures.merged:,} merged cohorts and {figures.kept:,} were kept"
            f" from the release before{loss}"
        )
    if policy is not None:
        lines += small_intakes(figures.intakes, policy)
    lines += [waiting_line(people, must, policy, figures.known) for must, people in figures.pool]
    if figures.mended is not None:
        lines.append(
            "rules for sensitive values: groups were merged further for them in some releases, and lose"
            f" {figures.mended[1]:.4f} in place of {figures.mended[0]:.4f}"
        )
    lines += _epoch_lines(figures.failing, figures.against, policy)
    if policy is not None and policy.max_outdated is not None:
        above = {name: share for name, share in figures.outdated.items() if share > policy.max_outdated}
        if above:
            named = ", ".join(f"{name} ({share:.1%})" for name, share in sorted(above.items()))
            lines.append(
                f"values outside of their boxes in more than {policy.max_outdated:.1%} of a release's rows"
                f" (max_outdated): {named}; new values are due (people:, --continue, --renew)"
            )
    return tuple(lines)


def told_of_the_epoch(records: Iterable[Record]) -> list[str]:
    """What metrics tell of the epoch so far that is measured and promised to nobody: a line each."""
    last = {each["partition"]: each for each in sorted(records, key=turn)}.values()
    return _epoch_lines(_failing(last), _against(last))


def _epoch_lines(
    failing: Mapping[str, tuple[int, int]], against: AgainstCount | None, policy: Policy | None = None
) -> list[str]:
    """policy: says what was wanted; None: that is left out."""
    lines = [
        f"values over the epoch: {people:,} of {counted:,} people released ({people / counted:.1%}) are in cohorts that"
        f" do not meet {rule}; measured, not promised"
        for rule, (people, counted) in failing.items()
    ]
    if against is not None:
        wanted = None if policy is None or policy.against is None else policy.against.wanted
        limit = "" if wanted is None else f"; wanted {_percent(wanted)}"
        lines.append(f"against, over the epoch: {against.words}{limit}; measured, not promised")
    return lines


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def usual_intake(intakes: Sequence[int]) -> int:
    """The largest size of an intake such that half of the people enter with as many or more."""
    sizes = np.sort(np.array(intakes))[::-1]
    return int(sizes[np.searchsorted(np.cumsum(sizes), sizes.sum() / 2)])


def small_intakes(intakes: Sequence[int], policy: Policy) -> list[str]:
    """A line where half of the people enter with few others, though there are more; [] elsewhere."""
    usual, size = usual_intake(intakes) if intakes else 0, policy.cohort_size or policy.k
    if not intakes or usual >= SMALL_INTAKE * size or sum(intakes) < 2 * usual:
        return []
    return [
        f"half of the people entered in intakes of {usual:,} or fewer: of so few hardly {size} are alike, and the"
        " boxes of their cohorts stay wide. A longer max_delay lets more people enter together"
    ]


def waiting_line(people: int, must: dt.datetime | None, policy: Policy | None, entered: int) -> str:
    """Who waits for the next intake, and for what. entered: people who are in cohorts."""
    waits = "1 person waits" if people == 1 else f"{people:,} people wait"
    line = f"{waits} for the {'next' if entered else 'first'} intake"
    if policy is None or policy.intake is None:
        return line
    intake, share = f"{policy.intake:,} people", policy.intake_share or 0
    if share * entered > policy.intake:
        intake += f" and {share:.0%} of those who have entered"
    if must is None:
        return f"{line}: {intake}, or a row that must leave while {policy.cohort_size} or more wait"
    return f"{line}: {intake}, or until {must.day} {must:%b %H:%M}"


def turn(record: Record) -> tuple[float, int, bool]:
    """When a step was, among those of its partition; of a release that was withheld once, the published one last."""
    end = record["window_end"]
    seconds = end.timestamp() if hasattr(end, "timestamp") else float(end or 0)
    return seconds, record["release_no"], record["released"]


def _time(end: Any) -> dt.datetime | None:
    """The end of a window as an instant; a number is milliseconds since 1970."""
    if end is None or isinstance(end, dt.datetime):
        return end
    return dt.datetime.fromtimestamp(float(end) / 1000.0, dt.UTC)


def _deadline(
    begun: dt.datetime | None, now: dt.datetime | None, waiting_ms: int | None
) -> dt.datetime | None:
    """When the first row of a pool must leave; None when that is over."""
    if begun is None or now is None or waiting_ms is None:
        return None
    must = begun + dt.timedelta(milliseconds=waiting_ms)
    return must if must > now else None
