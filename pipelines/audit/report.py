"""What the audit found: failures in words that hold no record's value, and figures."""

import json
from dataclasses import asdict, dataclass, fields

from kanonflow.pipelines.audit.followed_share import WHOLE, FollowedShare
from kanonflow.schemas.printable import printable


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
    counted_loosely: releases whose people are known only between two bounds.
    place: of the run in its chain, 0 for the one that began its epoch; runs: of a chain, that were audited as one;
    carried_in, carried_out: rows that came from the run before, and that are left for the next.
    """

    k: int
    records: int = 0
    broken: int = 0
    rejected: int = 0
    releases: int = 0
    rows: int = 0
    individuals: int | None = None
    record_groups: int | None = None
    row_groups: int | None = None
    pairs: int | None = None
    unplaced: int | None = None
    components: int | None = None
    fewest_rows_of_record: int | None = None
    records_at_k: float | None = None
    fewest_individuals_of_row: int | None = None
    rows_at_k: float | None = None
    mean_individuals_of_row: float | None = None
    classes: int | None = None
    waiting: int | None = None
    waiting_told: int | None = None
    matching_records: int | None = None
    draws: int | None = None
    rank_p_value: float | None = None
    known: int | None = None
    known_rows: int | None = None
    known_individuals: int | None = None
    known_below_k: float | None = None
    cohorts: int | None = None
    people_known: int | None = None
    epoch_candidates: int | None = None
    followed: int | None = None
    place: int | None = None
    runs: int | None = None
    carried_in: int | None = None
    carried_out: int | None = None
    rows_followed: int | None = None
    people_followed: int | None = None
    counted_loosely: int | None = None
    seconds_reading: float = 0.0
    seconds_checking: float = 0.0


_LABELS = {
    "k": "k",
    "records": "input records",
    "broken": "broken input lines",
    "rejected": "rejected records",
    "releases": "releases",
    "rows": "released rows",
    "individuals": "individuals released",
    "record_groups": "groups of records",
    "row_groups": "groups of rows",
    "pairs": "candidate pairs of groups",
    "unplaced": "rows that fit no record",
    "components": "components",
    "fewest_rows_of_record": "fewest rows a record may be",
    "records_at_k": "records with exactly k",
    "fewest_individuals_of_row": "fewest individuals behind a row",
    "rows_at_k": "rows with exactly k",
    "mean_individuals_of_row": "mean individuals behind a row",
    "classes": "classes",
    "waiting": "records that wait",
    "waiting_told": "of them kept by the job",
    "matching_records": "matching records",
    "draws": "factors drawn (components)",
    "rank_p_value": "p-value of their ranks",
    "known": "known matches",
    "known_rows": "then fewest rows a record may be",
    "known_individuals": "then fewest individuals of a row",
    "known_below_k": "then rows with fewer than k",
    "cohorts": "cohorts that last",
    "people_known": "people in them",
    "epoch_candidates": "fewest people of a cohort",
    "followed": "groups followed",
    "rows_followed": "rows in them",
    "people_followed": "people all of whose rows are",
    "counted_loosely": "releases of n to m people",
    "place": "place in its chain",
    "runs": "runs of the chain",
    "carried_in": "rows from the run before",
    "carried_out": "rows left for the next run",
    "seconds_reading": "seconds reading",
    "seconds_checking": "seconds checking",
}
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
        width = max(len(label) for label in _LABELS.values())
        for figure in fields(self.figures):
            value = getattr(self.figures, figure.name)
            lines.append(f"  {_LABELS[figure.name]:<{width}}  {_shown(figure.name, value):>12}")
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


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name in _SHARES:
        return f"{value:.2%}"
    if name == "rank_p_value":
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
