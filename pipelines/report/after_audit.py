"""The end of an audit: its verdict is kept beside what it judged, and the pages say it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.pipelines.pages.missing_extra import MissingExtraError
from kanonflow.pipelines.report.report import write_report
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
    """A run's directory that is about to be audited; what lies in it is looked at before and after."""

    def __init__(self, output: str) -> None:
        self._output = output.rstrip("/") or "/"
        self._before: Judged | None = None
        with contextlib.suppress(OSError):  # what cannot be read, the audit tells of
            self._before = judged_files(self._output)

    def conclude(self, report: AuditReport, policy: Path, checks: Mapping[str, Any], now_ms: int) -> str:
        """Keep the verdict and write the pages anew, if they can be; a line that says what came of it.

        checks: what ``audit`` was given besides. Raises nothing: the audit's answer stands, whatever a page needs.
        """
        if self._before is None:
            return "the verdict was not kept: not all files can be read"
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
            return f"the verdict was not kept: {error}"
        except Exception as error:  # its message may hold values, here and below
            return f"the verdict was not kept ({type(error).__name__})"
        kept = f"the verdict is kept in {self._output}/{NAME}"
        try:
            return f"{kept} and told by {write_report(self._output)[-1]}"
        except MissingExtraError:
            return kept
        except Exception as error:
            return f"{kept}; its page was not written ({type(error).__name__})"
