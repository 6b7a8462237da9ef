"""What a run did, as a small table, and whether every row is accounted for."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kanonflow.pipelines.terminal.lasting_lines import failing_lines, lasting_figures, lasting_lines, turn
from kanonflow.pipelines.terminal.lost_input import dropped_lines, lost_lines, lost_rows
from kanonflow.pipelines.terminal.table import labelled
from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.release.rejected import MESSAGES
from kanonflow.transforms.risks.idle_boxes import idle_boxes
from kanonflow.transforms.rows.unfit import unfit_of_counters

_REASON = "rows_rejected_"


@dataclass(frozen=True)
class RunSummary:
    """The ledger, the loss and the time of a run: rows read and carried in are released, rejected or waiting.

    rows_carried_in: what the run that it continues had left waiting. rows_carried_out: what waits for the next one.
    releases: files published (or found published).     gcp, lower_bound: means over the released rows of
    windows that have both numbers; None without one.     *_seconds: wall clock; solve and publish as the
    windows measured them.     lasting: lines about cohorts that last; none of other policies.
    lost: lines about what does not fit, or is dropped for a reader who knows more, above what the policy lets pass
    (``lost_input``).
    asked: what is asked of boxes that hide next to nothing (``idle_boxes``).
    """

    releases: int
    conflicts: int
    rows_read: int
    rows_released: int
    rows_waiting: int
    rejected: Mapping[str, int]
    gcp: float | None
    lower_bound: float | None
    total_seconds: float
    read_seconds: float
    solve_seconds: float
    publish_seconds: float
    lasting: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    rows_carried_in: int = 0
    write_seconds: float = 0.0
    rows_carried_out: int = 0
    asked: str | None = None

    @property
    def rows_rejected(self) -> int:
        """Rejected rows, for whatever reason."""
        return sum(self.rejected.values())

    @property
    def rows_at_hand(self) -> int:
        """Rows that were read, and those that the run before left."""
        return self.rows_read + self.rows_carried_in

    @property
    def rows_missing(self) -> int:
        """Rows that came and are neither released nor rejected nor waiting: 0, or the run is wrong."""
        return self.rows_at_hand - self.rows_released - self.rows_rejected - self.rows_waiting

    def problems(self) -> tuple[str, ...]:
        """Why the run must not count as done; empty when it may."""
        problems = []
        if self.rows_missing:
            problems.append(
                f"the ledger does not add up: {self.rows_read} rows read"
                f"{f' and {self.rows_carried_in} carried in' if self.rows_carried_in else ''}, but"
                f" {self.rows_released} released,"
                f" {self.rows_rejected} rejected and {self.rows_waiting} waiting"
            )
        if self.conflicts:
            problems.append(
                f"{self.conflicts} release(s) exist already with other rows, or do not go on from what is published,"
                " and were left as they are; their new rows are in restricted/rejected (release_conflict)"
            )
        if refused := self.rejected.get("gate_refused", 0):
            problems.append(
                f"the gate refused {refused} rows: the release that was made of them would have broken the promise,"
                " which is a fault of this software; please report it"
            )
        problems += self.lost
        # A first night may carry all of its rows over.
        if self.rows_read and not (self.rows_released or self.rows_carried_out or problems):
            problems.append(
                f"none of the {self.rows_read:,} rows read was released: {self._where_they_are()}"
            )
        return tuple(problems)

    def notes(self) -> tuple[str, ...]:
        """What must not go unread of a run that may count as done."""
        if self.rows_read:
            return () if self.asked is None else (self.asked,)
        return ("the input holds no rows, so nothing was released; that is no failure",)

    def _where_they_are(self) -> str:
        """Rows that were not released, by reason, most first, and why of the first reason."""
        waiting = {"waiting": self.rows_waiting} if self.rows_waiting else {}
        reasons = sorted(({**self.rejected} | waiting).items(), key=lambda each: (-each[1], each[0]))
        counts = ", ".join(f"{reason} {count:,}" for reason, count in reasons if count)
        why = MESSAGES.get(reasons[0][0], "") if reasons else ""
        return counts + (f" ({why})" if why else "")

    def render(self) -> str:
        """The table as plain text, a line each."""
        lines = [
            ("releases", f"{self.releases:,}"),
            ("rows read", f"{self.rows_read:,}"),
            *([("rows carried in", f"{self.rows_carried_in:,}")] if self.rows_carried_in else []),
            ("rows released", f"{self.rows_released:,}{_share(self.rows_released, self.rows_at_hand)}"),
            ("rows waiting", f"{self.rows_waiting:,}"),
            ("rows rejected", f"{self.rows_rejected:,}{_share(self.rows_rejected, self.rows_at_hand)}"),
        ]
        lines += [(f"  {reason}", f"{count:,}") for reason, count in sorted(self.rejected.items()) if count]
        if self.gcp is not None:
            lines.append(("mean GCP", f"{self.gcp:.4f}"))
        if self.lower_bound and (least := f"{self.lower_bound:.4f}") != f"{0:.4f}":
            lines.append(("  never below", least))
        lines.append(("time", f"{self.total_seconds:.1f} s"))
        lines += self._times()
        return "\n".join([*labelled(lines), *self.lasting])

    def to_json(self, output: str) -> str:
        """The table as a JSON object, with problems and notes. output: where the releases are."""
        table = {name: value for name, value in asdict(self).items() if name not in ("lost", "asked")}
        ledger = {"rows_rejected": self.rows_rejected, "rows_missing": self.rows_missing}
        said = {"problems": list(self.problems()), "notes": list(self.notes()), "output": output}
        return json.dumps(table | ledger | said, indent=1)

    def _times(self) -> list[tuple[str, str]]:
        """What took the time: parts that add up to it, and what none of them measures.

        Several workers together take longer than the clock says, and windows of a run that resumes were measured when
        they were made: then there is no share of the run, and no rest.
        """
        parts = [
            ("read", self.read_seconds),
            ("solve", self.solve_seconds),
            ("publish", self.publish_seconds),
            ("write", self.write_seconds),
        ]
        rest = self.total_seconds - sum(seconds for _, seconds in parts)
        if rest < 0:
            return [
                (f"  {name}", f"{seconds:.1f} s (of all workers, and of earlier runs)")
                for name, seconds in parts
            ]
        parts.append(("rest", rest))
        return [
            (f"  {name}", f"{seconds:.1f} s{_share(seconds, self.total_seconds)}") for name, seconds in parts
        ]


def summarize(
    counters: Mapping[str, int],
    metrics: Iterable[Mapping[str, Any]],
    total_seconds: float,
    policy: Policy | None = None,
    columns: Sequence[BoundColumn] = (),
    proposed: Mapping[str, str] | None = None,
    divided: int = 0,
) -> RunSummary:
    """The summary of a run.

    counters: the pipeline's counters by name.     metrics: its records as ``metrics.avsc``, in any order.
    policy: that of the run, for what ``cohort: lasting`` waits for, and how much may be lost.
    columns: that of the run, bound to its input, for what was expected of it.
    proposed: by field, what of the policy would read its values.
    divided: people with rows in more than one partition, of cohorts that last.
    """
    records, read = list(metrics), counters.get("rows_read", 0)
    released = [record for record in records if record["released"]]
    unfit, limit = unfit_of_counters(counters), 1.0 if policy is None else policy.rejected_limit
    lost = lost_rows(unfit, read, limit, columns, proposed)
    gcp = mean_of(released, "gcp")
    figures = lasting_figures(records, None if policy is None else policy.waiting_ms)
    return RunSummary(
        releases=counters.get("releases", 0),
        conflicts=counters.get("release_conflict", 0),
        rows_read=read,
        rows_released=counters.get("rows_released", 0),
        rows_waiting=counters.get("rows_carried_out", _still_waiting(records)),
        rejected={
            name.removeprefix(_REASON): count for name, count in counters.items() if name.startswith(_REASON)
        },
        gcp=gcp,
        lower_bound=mean_of(released, "lower_bound"),
        total_seconds=total_seconds,
        read_seconds=counters.get("read_microseconds", 0) / 1e6,
        solve_seconds=sum(record["solve_ms"] for record in records) / 1e3,
        publish_seconds=sum(record["publish_ms"] for record in records) / 1e3,
        write_seconds=counters.get("write_microseconds", 0) / 1e6,
        lasting=() if figures is None else lasting_lines(figures, policy, divided),
        lost=(
            *lost_lines(lost, sum(unfit.values()), read, limit),
            *dropped_lines(
                counters.get(f"{_REASON}known_otherwise", 0), read, None if policy is None else policy.against
            ),
            *failing_lines(figures, policy),
        ),
        rows_carried_in=counters.get("rows_carried_in", 0),
        rows_carried_out=counters.get("rows_carried_out", 0),
        asked=None if policy is None else idle_boxes(gcp, policy),
    )


def told_of_cohorts(
    records: Iterable[Mapping[str, Any]], policy: Policy | None, divided: int = 0
) -> tuple[str, ...]:
    """Lines about cohorts that last; none where the records tell of no such. divided: as of ``summarize``."""
    figures = lasting_figures(records, None if policy is None else policy.waiting_ms)
    return () if figures is None else lasting_lines(figures, policy, divided)


def _still_waiting(records: Iterable[Mapping[str, Any]]) -> int:
    """Rows waiting after the last step of each partition; of a release that was withheld once, as it was published."""
    last: dict[str, Mapping[str, Any]] = {}
    for record in records:
        before = last.get(record["partition"])
        if before is None or turn(before) < turn(record):
            last[record["partition"]] = record
    return sum(record["rows_waiting"] for record in last.values())


def mean_of(records: Iterable[Mapping[str, Any]], name: str) -> float | None:
    """Mean of a number over released rows, of the records that have it."""
    pairs = [(record[name], record["rows_released"]) for record in records if record.get(name) is not None]
    if len(pairs) == 1:
        return pairs[0][0]  # to its last digit
    rows = sum(count for _, count in pairs)
    return sum(value * count for value, count in pairs) / rows if rows else None


def _share(part: float, whole: float) -> str:
    return f" ({part / whole:.1%})" if whole else ""
