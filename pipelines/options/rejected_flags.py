"""What is asked about the rows that a run rejected."""

from __future__ import annotations

from typing import Any

from kanonflow.pipelines.options.json_flag import add_json


def add_rejected(commands: Any, exit_codes: str) -> None:
    """Add the command to the parser's."""
    rejected = commands.add_parser(
        "rejected",
        allow_abbrev=False,
        help="say which rows a run rejected, and write them out to be mended",
        description="Counts the rejected rows of a run by reason and field, and says where the first of each stand."
        " Prints no value. --to writes the rows themselves as they came, for their owner only.",
        epilog=exit_codes,
    )
    rejected.add_argument("output", metavar="DIR", help="the --output of the run, or its --restricted")
    rejected.add_argument(
        "--to",
        metavar="FILE",
        help="write the rows as they came: FILE.csv with the header of their file (several headers: FILE-1.csv,"
        " FILE-2.csv, ...), or FILE.jsonl for JSON messages",
    )
    rejected.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="GLOB",
        help="the run's input, to look up rows there that were rejected once they were in a window",
    )
    rejected.add_argument(
        "--policy",
        metavar="FILE",
        help="the run's policy, where its csv says how the files are written: --to writes the rows like them",
    )
    add_json(rejected)
