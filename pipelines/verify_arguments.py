"""What ``kanonflow verify`` can be asked to check, and the flags that say where the secret is."""

from __future__ import annotations

import argparse


def add_secret(parser: argparse.ArgumentParser) -> None:
    """The flags that say where the secret is; never its value."""
    secret = parser.add_mutually_exclusive_group()
    secret.add_argument("--secret-file", metavar="FILE", help="file with at least 32 random bytes")
    secret.add_argument("--secret-env", metavar="NAME", help="environment variable that holds the secret")
    secret.add_argument(
        "--secret-manager",
        metavar="VERSION",
        help="projects/PROJECT/secrets/SECRET/versions/NUMBER in Google Cloud's Secret Manager",
    )


def add_checks(verify: argparse.ArgumentParser) -> None:
    """How the audit answers, and what it looks at besides the releases."""
    verify.add_argument("--json", action="store_true", help="print the report as JSON")
    verify.add_argument(
        "--waiting",
        action="store_true",
        help="the run goes on: rows whose time is not over may be in no release yet",
    )
    verify.add_argument(
        "--certificates",
        action="store_true",
        help="also check the certificates of the run; with the secret, that each matching is the one it draws",
    )
    add_secret(verify)
    verify.add_argument(
        "--known",
        type=int,
        default=0,
        metavar="C",
        help="also tell what hides the others when somebody knows C matches (default: 0); not with --waiting",
    )
