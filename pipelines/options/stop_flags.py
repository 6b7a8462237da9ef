"""The arguments of ``kanonflow stop``."""

from __future__ import annotations

import argparse
from typing import Any

from kanonflow.pipelines.options.json_flag import add_json


def add_stop(commands: Any, exit_codes: str) -> None:
    """Add the command to the parser's."""
    stop = commands.add_parser(
        "stop",
        allow_abbrev=False,
        help="end a running stream in order",
        description="Ends the feed of a running stream with what it holds now. Every window is then closed, what cannot"
        " be released is rejected, nothing is left waiting. Returns when all of it is written.",
        epilog=exit_codes,
    )
    stop.add_argument(
        "output",
        metavar="DIR",
        help="the --output of the stream; its --restricted when releases are in a topic",
    )
    stop.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="give up waiting after so long (default: never)"
    )
    stop.add_argument("--quiet", action="store_true", help="no table")
    add_json(stop)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("must be a number above 0")
    return value


_seconds.__name__ = "number"
