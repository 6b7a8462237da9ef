"""The end of a run over files: its closing table is kept and its pages are written, whatever comes of that."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kanonflow.pipelines.pages.missing_extra import MissingExtraError
from kanonflow.pipelines.report.report import write_report
from kanonflow.pipelines.run_records.run_summary import write_summary
from kanonflow.schemas.policy import Policy


def report_run(output: str, policy: Policy, table: Mapping[str, Any], now_ms: int) -> str:
    """Write ``restricted/summary.json`` and the pages; a line that says what came of it, "" for a remote output.

    Raises nothing but an interrupt: the releases are out, and a page that cannot be drawn is no fault of theirs.
    """
    if "://" in output:
        return ""
    try:
        write_summary(output, policy, table, now_ms)
        return f"report: {', '.join(write_report(output, policy))}"
    except MissingExtraError as error:
        return f"no report was written: {error}"
    except Exception as error:
        # Its message may hold values.
        logging.getLogger(__name__).warning("no report was written: %s", type(error).__name__)
        return f"no report was written ({type(error).__name__}); kanonflow report {output} tries again"
