"""The verdict of an audit in words, and the first thing that a page says."""

from __future__ import annotations

from kanonflow.pipelines.pages.pages import Status
from kanonflow.pipelines.run_records.verdict import Verdict
from kanonflow.pipelines.terminal.table import Cell, Table, count, rows_of

DIGEST_COMMAND = "find release metrics -type f | LC_ALL=C sort | xargs sha256sum | sha256sum"


def status(verdict: Verdict | None, *, stands: bool, public: bool = False) -> Status:
    """Of a run's directory as it is now. public: of its public files alone, whatever became of the others."""
    if verdict is None:
        return Status("open", "Not audited yet: kanonflow verify does that.")
    when = f"{_moment(verdict.judged_at)}, by kanonflow {verdict.kanonflow}"
    if not stands:
        return Status(
            "bad",
            f"Not audited as it is now: files were changed, added or taken away since the audit of {when}.",
        )
    if not verdict.passed:
        return Status("bad", f"The audit FAILED on {when}.")
    so_far = ", over what was released so far" if verdict.waiting else ""
    judged = " The public files are those that it judged." if public else ""
    if verdict.in_full:
        return Status("good", f"The audit passed in full on {when}{so_far}.{judged}")
    return Status("open", f"The audit passed in part on {when}{so_far}: {verdict.followed.told()}.{judged}")


def verdict_table(verdict: Verdict | None, *, stands: bool) -> tuple[Table, ...]:
    """What the verdict is of, and how anybody finds out whether the files are still the same; nothing without one."""
    if verdict is None:
        return ()
    rows: list[tuple[Cell, ...]] = [
        ("verdict", _word(verdict) + ("" if stands else ", of other files")),
        ("when", _moment(verdict.judged_at)),
        ("by kanonflow", verdict.kanonflow),
        *(() if verdict.place is None else (("runs of its chain before it", count(verdict.place)),)),
        ("releases read", count(verdict.releases)),
        ("rows read in them", count(verdict.rows)),
        ("matching records", "read" if verdict.matching_records else "not given"),
        ("secret", "given" if verdict.secret else "not given"),
        (
            "another release of its rows",
            "known: the promise is lost" if verdict.second_release else "none known",
        ),
        ("public files judged", count(verdict.files)),
        ("digest of their list", verdict.digest),
        ("how to work it out", DIGEST_COMMAND),
    ]
    return (Table("verdict", "What the audit judged", ("", "of the audit"), rows_of(rows)),)


def _word(verdict: Verdict) -> str:
    if not verdict.passed:
        return "FAILED"
    return "passed in full" if verdict.in_full else "passed in part"


def _moment(iso: str) -> str:
    return iso.replace("T", " ").replace("+00:00", " UTC")
