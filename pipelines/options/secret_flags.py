"""Flags about secrets, and about releasing rows a second time under another one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def add_secret_flags(parser: argparse.ArgumentParser) -> None:
    """Where the secret is, and those that the run used before."""
    secret = parser.add_mutually_exclusive_group()
    secret.add_argument("--secret-file", metavar="FILE", help="file with at least 32 random bytes")
    secret.add_argument("--secret-env", metavar="NAME", help="environment variable that holds the secret")
    secret.add_argument(
        "--secret-manager",
        metavar="VERSION",
        help="projects/PROJECT/secrets/SECRET/versions/NUMBER in Google Cloud's Secret Manager",
    )
    parser.add_argument(
        "--previous-secret",
        metavar="KIND:NAME",
        action="append",
        default=[],
        help="with --resume: a secret that the run used before this one (file:PATH, env:NAME, manager:VERSION)",
    )


def add_second_release(parser: argparse.ArgumentParser) -> None:
    """The flag of runs over files that allows what is refused without it."""
    parser.add_argument(
        "--second-release",
        action="store_true",
        help="release rows that --output has released already once more, under another policy or secret, into"
        " OUT/second-N; says what that costs",
    )


def refuse_for_streams(flags: Sequence[str]) -> None:
    """Raise SecretError if a stream's flags ask for a second release: it is no flag of Beam's, as it would seem."""
    if "--second-release" in flags:
        from kanonflow.transforms.secret.seeds import SecretError

        raise SecretError(
            "--second-release: not for a stream, whose windows would go out twice as long as it runs; a new policy or"
            " secret begins with the first window that was not released"
        )
