"""The flag of every command that prints a table."""

from __future__ import annotations

import argparse


def add_json(parser: argparse.ArgumentParser) -> None:
    """Print what the table says as JSON; everything else goes to stderr."""
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
