"""``kanonflow report DIR``: two pages of a run, and what ``anonymize`` and ``verify`` make of them.

    DIR/restricted/report.html   exact numbers, for its owner only      restricted_page, of run_facts
    DIR/certificate.html         what may go with the releases          certificate, of public_facts

Both are written anew each time, and nothing is read back from them. A directory without ``restricted/``, as somebody
has it who was given the releases, gets the certificate alone, the same that was given with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kanonflow.pipelines.pages.missing_extra import templates
from kanonflow.pipelines.pages.pages import render_page
from kanonflow.pipelines.report.certificate import certificate
from kanonflow.pipelines.report.public_facts import public_facts
from kanonflow.pipelines.report.restricted_page import restricted_page
from kanonflow.pipelines.report.run_facts import run_facts
from kanonflow.pipelines.report.utility import compared_with_input
from kanonflow.pipelines.run_records.replaced_file import replace_file
from kanonflow.pipelines.run_records.verdict import judged_again
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy import Policy

REPORT, CERTIFICATE = "report.html", "certificate.html"


class ReportInput(NamedTuple):
    """The input of a run, for errors of queries and for what is drawn of it. patterns: globs of its files."""

    patterns: Sequence[str]
    delimiter: str | None = None
    input_format: str | None = None


def write_report(
    output: str, policy: Policy | None = None, rows: ReportInput | None = None
) -> tuple[str, ...]:
    """Write the pages of the run in ``output``; their paths.

    policy: the run's, for settings that it did not write down; needed with ``rows``.
    Raises MissingExtraError: the extra is not installed. InputError: nothing of a run is there, or it is damaged, or
    the pages cannot be written. PolicyError: policy and input do not fit.
    """
    templates()
    root = Path(output)
    if "://" in output or not any((root / name).is_dir() for name in ("release", "restricted", "metrics")):
        raise InputError(f"{output}: holds nothing of a run; give its --output on this machine")
    if not (root / "restricted").is_dir() and (
        root.resolve().name == "restricted" or (root / "run.json").exists()
    ):
        raise InputError(f"{output}: is the restricted part of a run; give the directory that holds it")
    written = []
    try:
        judged = judged_again(root)
        if (root / "restricted").is_dir():
            compared = None
            if rows is not None and policy is not None:
                compared = compared_with_input(
                    output, policy, rows.patterns, rows.delimiter, rows.input_format
                )
            html = render_page(restricted_page(run_facts(root, judged, policy, compared)))
            replace_file(root / "restricted" / REPORT, html.encode(), private=True)
            written.append(str(root / "restricted" / REPORT))
        html = render_page(certificate(public_facts(root, judged)))
        replace_file(root / CERTIFICATE, html.encode(), private=False)
    except OSError as error:
        raise InputError(f"{output}: its pages cannot be written ({error.strerror})") from None
    return (*written, str(root / CERTIFICATE))
