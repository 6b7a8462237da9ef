"""What ``kanonflow verify`` can be asked to check."""

from __future__ import annotations

import argparse

from kanonflow.pipelines.options.secret_flags import add_secret_flags


def add_outputs(verify: argparse.ArgumentParser) -> None:
    """What is judged."""
    verify.add_argument("directories", nargs="*", metavar="OUT", help="as --release")
    verify.add_argument(
        "--release",
        nargs="+",
        default=[],
        metavar="DIR|kafka://...",
        help="the --output of the run; --input may be a topic too. Of several runs that continue each other: all of"
        " them, which are judged as a whole over the input of all",
    )


def add_checks(verify: argparse.ArgumentParser) -> None:
    """How the audit answers, and what it looks at besides the releases."""
    verify.add_argument("--json", action="store_true", help="print the report as JSON")
    verify.add_argument(
        "--strict",
        action="store_true",
        help="an audit that passed in part ends with exit code 1, as one that failed",
    )
    verify.add_argument(
        "--waiting",
        action="store_true",
        help="the run goes on: rows whose time is not over may be in no release yet",
    )
    verify.add_argument(
        "--allow-empty",
        action="store_true",
        help="a run that released nothing passes too, as of a night without rows",
    )
    verify.add_argument(
        "--matching-records",
        action="store_true",
        help="also check the matching records of the run; with the secret, that each matching is the one it draws."
        " With cohort: lasting the secret also says who of the input stands in which cohort; a secret that the run drew"
        " itself is found",
    )
    add_secret_flags(verify)
    verify.add_argument(
        "--known",
        type=int,
        default=0,
        metavar="C",
        help="also tell what hides the others when somebody knows C matches (default: 0); not with --waiting",
    )
