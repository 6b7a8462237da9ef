"""What is asked about cohorts that outlive a run: to go on from them, and to forget people in them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from datetime import UTC, datetime
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
        "--epoch",
        type=_epoch,
        metavar="HEX",
        help="with cohort: lasting: the number of the epoch that begins, 16 hex digits (default: one is drawn), so that"
        " a stream and a run over files write equal files; never one that other releases have already",
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


def add_carry(parser: argparse.ArgumentParser) -> None:
    """The flags of a run over files that another one will continue."""
    parser.add_argument(
        "--carry",
        action="store_true",
        help="with cohort: lasting: leave what waits at the end to the run that continues this one, instead of"
        " releasing it with whoever is there, or rejecting it",
    )
    parser.add_argument(
        "--until",
        type=_instant,
        metavar="TIME",
        help="with --carry: where the run ends, as 2024-03-02 or 2024-03-02T06:00+01:00 (UTC unless it says so)"
        " (default: the end of the window of the latest row)",
    )


def chain_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the flags say, as ``RunOptions`` has it. Raises ContinueError: --until without --carry."""
    carry, until = getattr(arguments, "carry", False), getattr(arguments, "until", None)
    if until is not None and not carry:
        raise _refusal(
            "--until goes with --carry: without it all rows of the input leave, and none waits for an end"
        )
    return {"carry": carry, "until": until, "epoch": getattr(arguments, "epoch", None)}


def refuse_carry_for_streams(flags: Sequence[str]) -> None:
    """Raise ContinueError if a stream's flags ask it to carry over: they are no flags of Beam's, as it would seem."""
    given = [flag for flag in flags if flag.split("=", 1)[0] in ("--carry", "--until")]
    if given:
        raise _refusal(
            f"{given[0]}: not for a stream, which keeps what waits in its state; stop it with a savepoint and go on"
            " from that"
        )


def _refusal(message: str) -> Exception:
    from kanonflow.pipelines.chains.continued_run import ContinueError

    return ContinueError(message)


def _epoch(text: str) -> int:
    if not re.fullmatch("[0-9a-fA-F]{16}", text) or not 0 < (epoch := int(text, 16)) < 1 << 63:
        raise argparse.ArgumentTypeError("expected 16 hex digits, above 0 and below 8000000000000000")
    return epoch


def _instant(text: str) -> int:
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            "expected a time such as 2024-03-02 or 2024-03-02T06:00+01:00"
        ) from None
    instant = told if told.tzinfo else told.replace(tzinfo=UTC)
    return int(instant.timestamp() * 1000)


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
