"""The flags of ``kanonflow report``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

_Adds = Callable[[argparse.ArgumentParser], None]


def add_report(commands: Any, add_delimiter: _Adds, add_input_format: _Adds, exit_codes: str) -> None:
    """Add the command to the parser's."""
    report = commands.add_parser(
        "report",
        allow_abbrev=False,
        help="write a run's pages: a report for inside, a certificate for whoever has the releases",
        description="Writes DIR/restricted/report.html, with exact numbers, and DIR/certificate.html, made of what is"
        " public and the verdict of the last verify alone. One file each, without scripts, readable offline"
        " (docs/report.md). Needs the extra: pip install 'kanonflow[report]'.",
        epilog=exit_codes,
    )
    report.add_argument(
        "directory",
        metavar="DIR",
        help="the --output of a run, finished or not, or of a stream into a topic its --restricted: the directory"
        " that holds restricted/, and never restricted/ itself",
    )
    report.add_argument(
        "--policy", metavar="FILE", help="the run's policy, for settings that a stream does not keep"
    )
    report.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="GLOB",
        help="the run's input: 200 random range queries are asked of it and of the releases (with --policy)",
    )
    add_delimiter(report)
    add_input_format(report)
