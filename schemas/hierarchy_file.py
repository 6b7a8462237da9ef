"""Hierarchy files: a row a value, the value first, then what stands for it level by level, as ARX writes them."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from kanonflow.schemas.errors import HierarchyError
from kanonflow.schemas.hierarchy import Hierarchy, find_hierarchy_mistakes

SEPARATOR = ";"


def parse_hierarchy(text: str, source: str = "") -> Hierarchy:
    """A hierarchy from the text of its file: UTF-8 CSV with ``;``, double quotes where a label needs them, no header.

    Raises HierarchyError with all mistakes, each with its line.
    """
    rows, lines, mistakes = [], [], []
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=SEPARATOR, strict=True)
    try:
        for row in reader:
            if row:
                rows.append(tuple(label.strip() for label in row))
                lines.append(reader.line_num)
    except csv.Error as error:
        mistakes.append(f"line {reader.line_num}: is not CSV ({error})")
    mistakes += find_hierarchy_mistakes(rows, lines)
    if mistakes:
        raise HierarchyError(mistakes, source)
    return Hierarchy(tuple(rows))


def read_hierarchy(path: Path) -> Hierarchy:
    """The hierarchy of a file. Raises HierarchyError with all mistakes, also when the file cannot be read."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise HierarchyError([f"cannot be read: {error.strerror}"], str(path)) from error
    except UnicodeDecodeError as error:
        raise HierarchyError(["is not UTF-8; save it with that encoding"], str(path)) from error
    return parse_hierarchy(text, str(path))
