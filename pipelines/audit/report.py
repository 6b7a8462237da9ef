"""What the audit found: failures in words that hold no record's value, and figures."""

import json
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any

from kanonflow.pipelines.audit.followed_share import WHOLE, FollowedShare
from kanonflow.schemas.printable import printable


def _figure(label: str, default: Any = MISSING) -> Any:
    """A figure under its label in the table."""
    return field(default=default, metadata={"label": label})


@dataclass(frozen=True)
class AuditFigures:
    """What was measured; None where the audit did not get that far.

    records: rows of the input that could be read. broken: lines of text files that are no rows. rejected:
    records among the restricted ones (broken lines not counted). rows: released. pairs: candidate pairs of
    groups. components: strongly connected components of groups: records in different ones cannot be mixed
    up. unplaced: released rows that no assignment of all rows to records can place. fewest_rows_of_record,
    fewest_individuals_of_row: the two sides of k-concealment; rows_at_k, records_at_k: shares of rows and
    records that have exactly k. mean_individuals_of_row: mean over rows. classes: released rows of one box
    in one release count as a class (protect: individual). waiting: records neither released nor rejected;
    waiting_told: those of them that the job keeps, by its metrics (verify --waiting). matching_records: read;
    draws: components whose published factor was ranked; rank_p_value: the smallest chance of such ranks in an honest
    run, corrected for the number of tests (verify --matching-records). known: matches that somebody knows; known_rows,
    known_individuals: the two sides of k-concealment then; known_below_k: share of rows with fewer than k
    individuals (records, if there are none) behind them (verify --known).
    cohorts, people_known: that entered (cohort: lasting); epoch_candidates: fewest people of a cohort of anybody
    released; followed: groups, of ``classes``, of which only one set of whole cohorts can have the rows; rows_followed:
    rows in these; people_followed: people all of whose rows are; None: the secret was not given.
    counted_loosely: releases whose people are known only between two bounds. left_to: the reader of ``against`` to whom
    rows that are out leave enough people, where that was judged. left_below: people with rows out (left_counted) left
    with fewer than k to its reader who is measured, by whose the rows are; of a run that goes on at least so many.
    members_told: people whose member numbers (publish_member) were worked out again; ids_told: ids of groups
    (publish_group).
    place: of the run in its chain, 0 for the one that began its epoch; runs: of a chain, that were audited as one;
    carried_in, carried_out: rows that came from the run before, and that are left for the next.
    shards: that a plan cuts partitions into; people_unplaced: who entered in one, by values that are not in the input.
    """

    k: int = _figure("k")
    records: int = _figure("input records", 0)
    broken: int = _figure("broken input lines", 0)
    rejected: int = _figure("rejected records", 0)
    releases: int = _figure("releases", 0)
    rows: int = _figure("released rows", 0)
    individuals: int | None = _figure("individuals released", None)
    record_groups: int | None = _figure("groups of records", None)
    row_groups: int | None = _figure("groups of rows", None)
    pairs: int | None = _figure("candidate pairs of groups", None)
    unplaced: int | None = _figure("rows that fit no record", None)
    components: int | None = _figure("components", None)
    fewest_rows_of_record: int | None = _figure("fewest rows a record may be", None)
    records_at_k: float | None = _figure("records with exactly k", None)
    fewest_individuals_of_row: int | None = _figure("fewest individuals behind a row", None)
    rows_at_k: float | None = _figure("rows with exactly k", None)
    mean_individuals_of_row: float | None = _figure("mean individuals behind a row", None)
    classes: int | None = _figure("classes", None)
    waiting: int | None = _figure("records that wait", None)
    waiting_told: int | None = _figure("of them kept by the job", None)
    matching_records: int | None = _figure("matching records", None)
    draws: int | None = _figure("factors drawn (components)", None)
    rank_p_value: float | None = _figure("p-value of their ranks", None)
    known: int | None = _figure("known matches", None)
    known_rows: int | None = _figure("then fewest rows a record may be", None)
    known_individuals: int | None = _figure("then fewest individuals of a row", None)
    known_below_k: float | None = _figure("then rows with fewer than k", None)
    cohorts: int | None = _figure("cohorts that last", None)
    people_known: int | None = _figure("people in them", None)
    epoch_candidates: int | None = _figure("fewest people of a cohort", None)
    followed: int | None = _figure("groups followed", None)
    place: int | None = _figure("place in its chain", None)
    runs: int | None = _figure("runs of the chain", None)
    carried_in: int | None = _figure("rows from the run before", None)
    carried_out: int | None = _figure("rows left for the next run", None)
    rows_followed: int | None = _figure("rows in them", None)
    people_followed: int | None = _figure("people all of whose rows are", None)
    counted_loosely: int | None = _figure("releases of n to m people", None)
    left_to: str | None = _figure("people left to who also knows", None)
    left_below: int | None = _figure("left with fewer than k, measured", None)
    left_counted: int | None = _figure("of people with rows out", None)
    members_told: int | None = _figure("people told by their number", None)
    ids_told: int | None = _figure("groups told by their id", None)
    shards: int | None = _figure("shards of the plan", None)
    people_unplaced: int | None = _figure("people held against no plan", None)
    seconds_reading: float = _figure("seconds reading", 0.0)
    seconds_checking: float = _figure("seconds checking", 0.0)


_SHARES = ("records_at_k", "rows_at_k", "known_below_k")


@dataclass(frozen=True)
class AuditReport:
    """The audit's answer. ``failures`` is empty exactly when it passed; messages name fields and releases
    only. ``not_checked``: what it did not look at, or cannot see, each with the reason. ``checked``: what was held
    against each other of cohorts that last. ``followed``: how much of the run was followed to its people."""

    failures: tuple[str, ...]
    figures: AuditFigures
    not_checked: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    followed: FollowedShare = WHOLE

    @property
    def passed(self) -> bool:
        """Whether the releases, over this input, are k-concealing and complete."""
        return not self.failures

    @property
    def in_full(self) -> bool:
        """Whether it passed and nothing was left out."""
        return self.passed and self.followed.whole

    @property
    def verdict(self) -> str:
        """Passed in full, passed in part, or failed."""
        return ("passed in full" if self.in_full else "passed in part") if self.passed else "failed"

    def render(self) -> str:
        """The report as text: the verdict, every failure, the figures, what was not checked."""
        verdict = self.verdict if self.passed else f"FAILED ({len(self.failures)})"
        part = f": {self.followed.told()}" if self.passed and not self.in_full else ""
        lines = [f"audit {verdict}{part}", *(f"  - {printable(failure)}" for failure in self.failures), ""]
        labels = {each.name: each.metadata["label"] for each in fields(self.figures)}
        width = max(map(len, labels.values()))
        for name, label in labels.items():
            lines.append(f"  {label:<{width}}  {_shown(name, getattr(self.figures, name)):>12}")
        if self.checked:
            lines += ["", "checked of cohorts that last:", *(f"  - {each}" for each in self.checked)]
        if self.not_checked:
            lines += ["", "not checked:", *(f"  - {each}" for each in self.not_checked)]
        return "\n".join(lines)

    def to_json(self) -> str:
        """The report as a JSON object with ``passed``, ``verdict``, ``failures``, ``figures``, ``followed`` (shares in
        tenths of a percent), ``not_checked`` and ``checked``."""
        told = {
            "passed": self.passed,
            "verdict": self.verdict,
            "failures": list(self.failures),
            "figures": asdict(self.figures),
            "followed": asdict(self.followed),
            "not_checked": list(self.not_checked),
            "checked": list(self.checked),
        }
        return json.dumps(told, indent=1)


def _shown(name: str, value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or "-"
    if name in _SHARES:
        return f"{value:.2%}"
    if name == "rank_p_value":
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
