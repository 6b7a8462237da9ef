"""How a value of an option is read from its text; what it must be is the error's text."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kanonflow.schemas.text_form import NAMED_DELIMITERS, is_sign


def positive(kind: type) -> Callable[[str], Any]:
    """A number above 0 that ends."""

    def number(text: str) -> Any:
        value = kind(text)
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError("must be a number above 0")
        return value

    number.__name__ = kind.__name__
    return number


def natural(text: str) -> int:
    """A whole number from 0."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value


def named(text: str) -> tuple[str, str]:
    """A name and what it stands for, with = between them."""
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise argparse.ArgumentTypeError("must be a field, =, and its file, as in job=jobs.csv")
    return name, value


def several(kind: type) -> Callable[[str], list[Any]]:
    """Values between commas."""

    def read(text: str) -> list[Any]:
        try:
            values = [kind(part.strip()) for part in text.split(",") if part.strip()]
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"expected {kind.__name__}s separated by commas") from error
        if not values:
            raise argparse.ArgumentTypeError("expected at least one value")
        return values

    return read


def delimiter(text: str) -> str:
    """One sign, by itself or by its name."""
    sign = NAMED_DELIMITERS.get(text, text)
    if not is_sign(sign):
        raise argparse.ArgumentTypeError("expected one sign, such as , ; | or tab")
    return sign


def epoch(text: str) -> int:
    """The number of an epoch."""
    if not re.fullmatch("[0-9a-fA-F]{16}", text) or not 0 < (number := int(text, 16)) < 1 << 63:
        raise argparse.ArgumentTypeError("expected 16 hex digits, above 0 and below 8000000000000000")
    return number


def instant(text: str) -> int:
    """Milliseconds since 1970, of a time in UTC unless it says so."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            "expected a time such as 2024-03-02 or 2024-03-02T06:00+01:00"
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def place(text: str) -> str:
    """A directory here, or a prefix that Beam writes to, such as gs:// or s3://; file:// is one here."""
    scheme, found, path = text.partition("://")
    if not found or os.path.exists(text):
        return text
    if scheme == "file":
        if not path.startswith("/"):
            raise argparse.ArgumentTypeError(
                "file:// goes before a whole path, as in file:///data/out; or leave it out"
            )
        return path
    # Beam takes a second to load, and most places are here.
    from apache_beam.io.filesystem import FileSystem
    from apache_beam.io.filesystems import FileSystems

    if FileSystems.get_scheme(text) not in {each.scheme() for each in FileSystem.get_all_subclasses()}:
        raise argparse.ArgumentTypeError(
            f"nothing here reads and writes {scheme}://; give a directory, or a prefix such as gs:// or s3://"
        )
    return text


def place_or_topic(text: str) -> str:
    """A place, or a topic of Kafka; who takes none says so."""
    return text if text.startswith("kafka://") else place(text)
