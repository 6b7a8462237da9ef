"""The end of an audit: its verdict is kept beside what it judged, and the pages say it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.pipelines.pages.missing_extra import MissingExtraError
from kanonflow.pipelines.report.report import CERTIFICATE, REPORT, write_report
from kanonflow.pipelines.run_records.released_again import released_again
from kanonflow.pipelines.run_records.verdict import (
    NAME,
    Judged,
    VerdictError,
    judged_files,
    keep_verdict,
    verdict_of,
)
from kanonflow.schemas.policy_source import read_policy


class AuditedRun:
    """A run's directory that is about to be audited; what lies in it is looked at before and after.

    An earlier verdict is taken away, and the pages that tell it: so an audit that fails, breaks off or cannot be kept
    leaves none that passed.
    """

    def __init__(self, output: str) -> None:
        self._output = output.rstrip("/") or "/"
        self._before: Judged | None = None
        with contextlib.suppress(Exception):  # what cannot be read, the audit tells of
            self._before = judged_files(self._output)
        self._left = _withdrawn(Path(self._output))

    def conclude(self, report: AuditReport, policy: Path, checks: Mapping[str, Any], now_ms: int) -> str:
        """Keep the verdict and write the pages anew, if they can be; a line that says what came of it.

        checks: what ``audit`` was given besides. Raises nothing, of an interrupt neither: the audit's answer stands,
        whatever a page needs.
        """
        if problem := self._kept(report, policy, checks, now_ms):
            return f"the verdict was not kept{problem}{_of_before(self._left)}"
        place = f"the verdict is kept in {self._output}/{NAME}"
        again = f"kanonflow report {self._output} tries again"
        pages = _of_before([name for name in self._left if not name.endswith(NAME)])
        if self._before is not None and (special := self._before.special):
            return f"{place}; no report was written: {special} entries of what was judged are no files{pages}"
        try:
            return f"{place} and told by {write_report(self._output)[-1]}"
        except MissingExtraError:
            return f"{place}{pages}"
        except KeyboardInterrupt:
            return f"{place}; no report was written: interrupted; {again}{pages}"
        except Exception as error:  # its message may hold values, here and below
            return f"{place}; no report was written ({type(error).__name__}); {again}{pages}"

    def _kept(self, report: AuditReport, policy: Path, checks: Mapping[str, Any], now_ms: int) -> str:
        """Keep the verdict; "", or why it was not."""
        if self._before is None:
            return ": not all files can be read"
        try:
            verdict = verdict_of(
                report,
                read_policy(policy),
                self._before,
                version=version("kanonflow"),
                now_ms=now_ms,
                waiting=bool(checks.get("waiting")),
                matching_records=bool(checks.get("matching_records")),
                secret=checks.get("recipe") is not None or checks.get("people_key") is not None,
                second_release=released_again(self._output),
            )
            keep_verdict(self._output, verdict, report, self._before)
        except VerdictError as error:
            return f": {error}"
        except KeyboardInterrupt:
            return ": interrupted"
        except Exception as error:
            return f" ({type(error).__name__})"
        return ""


def _withdrawn(root: Path) -> list[str]:
    """Take away what tells an earlier verdict, where releases lie; what of it could not be taken away."""
    left: list[str] = []
    if not (root / "release").is_dir():
        return left
    for name in (NAME, CERTIFICATE, f"restricted/{NAME}", f"restricted/{REPORT}"):
        path = root / name
        try:
            path.unlink(missing_ok=True)
        except OSError:
            if os.path.lexists(path):
                left.append(name)
    return left


def _of_before(left: Sequence[str]) -> str:
    """A part of a line: what lies there of an earlier audit."""
    return f"; of an earlier audit, and not of this one: {', '.join(left)}" if left else ""
