"""What is asked about cohorts that outlive a run: to go on from them, and to forget people in them."""

from __future__ import annotations

import argparse
from typing import Any

from kanonflow.pipelines.options.json_flag import add_json
from kanonflow.pipelines.options.secret_flags import add_secret_flags

INDIVIDUAL_TYPES = ("string", "long", "bytes")
"""Kinds of values of an individual, as a policy's ``as`` calls them; ``long`` are whole numbers of any width."""


def add_continue(parser: argparse.ArgumentParser) -> None:
    """The flag of runs with ``cohort: lasting``."""
    parser.add_argument(
        "--continue",
        dest="continues",
        metavar="DIR",
        help="with cohort: lasting: begin with the cohorts of the run whose --output (or --restricted) DIR was, in its"
        " epoch; without it an epoch begins",
    )
    parser.add_argument(
        "--individual-type",
        choices=INDIVIDUAL_TYPES,
        help="with --continue, once: what kind of value the individual was in the run before, where an earlier build"
        " did not write it down",
    )
    parser.add_argument(
        "--people-changed",
        action="store_true",
        help="with --continue: go on though hardly anybody of the input is known, or is known in another spelling",
    )


def refuse_without_continue(arguments: argparse.Namespace) -> str | None:
    """What to say of flags that mean nothing without --continue; None: there is none."""
    if getattr(arguments, "continues", None):
        return None
    given = {
        "--individual-type": getattr(arguments, "individual_type", None),
        "--people-changed": getattr(arguments, "people_changed", False),
    }
    return next((f"{flag} goes with --continue" for flag, value in given.items() if value), None)


def add_forget(commands: Any, exit_codes: str) -> None:
    """Add the command to the parser's."""
    forget = commands.add_parser(
        "forget",
        allow_abbrev=False,
        help="delete what the cohorts of a run hold of people",
        description="Deletes the frozen values of people from the cohorts of a run. Their places stay, and so does what"
        " the boxes of their cohorts tell: docs/cohorts.md. Prints how many were found, never a name.",
        epilog=exit_codes,
    )
    forget.add_argument("output", metavar="DIR", help="the --output of the run, or its --restricted")
    forget.add_argument(
        "--individual-file",
        required=True,
        metavar="FILE",
        help="whom: values of the individual's field, one a line",
    )
    add_secret_flags(forget)
    add_json(forget)
