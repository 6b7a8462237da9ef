"""The hierarchies that a policy declares: the name of a file beside it, how to build it, or the rows themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kanonflow.schemas.built_hierarchies import build_hierarchy
from kanonflow.schemas.errors import HierarchyError
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.hierarchy_file import read_hierarchy

_KEY = "hierarchy"
FOLDER_KEY = "hierarchy_folder"
"""At the top of a policy file: the folder of its hierarchy files, relative to the policy's own (the default)."""


def with_hierarchy_rows(mapping: Mapping[str, Any], folder: Path | None) -> Mapping[str, Any]:
    """The mapping of a policy with the rows of its hierarchies in the place of files' names.

    folder: the policy's, None for a policy that is not a file. A file that cannot be used leaves its HierarchyError in
    the place of the rows. So does one that is not below the policy's folder, links followed, or below the folder that
    the policy names instead: messages repeat labels, and whoever writes a policy is not always who may read all files.
    """
    fields = mapping.get("fields")
    allowed = folder
    if FOLDER_KEY in mapping and folder is not None:
        allowed = folder / str(mapping[FOLDER_KEY])
    mapping = {key: value for key, value in mapping.items() if key != FOLDER_KEY}
    if not isinstance(fields, Mapping):
        return mapping
    read = {}
    for name, entry in fields.items():
        if not isinstance(entry, Mapping) or not isinstance(entry.get(_KEY), str):
            continue
        rows: object
        if folder is None or allowed is None:
            rows = HierarchyError(["only a policy file can name a file; write the rows here as lists"])
        else:
            try:
                rows = read_hierarchy(_below(allowed, folder / entry[_KEY])).rows
            except HierarchyError as error:
                rows = HierarchyError([f"{entry[_KEY]}: {mistake}" for mistake in error.mistakes])
        read[name] = {**entry, _KEY: rows}
    return {**mapping, "fields": {**fields, **read}} if read else mapping


def _below(allowed: Path, path: Path) -> Path:
    """The path without links. Raises HierarchyError: it is not below ``allowed``."""
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(allowed)):
        raise HierarchyError(
            [
                f"is outside of the folder {allowed}; move the file there, or name its folder at the top of the policy"
                f" ({FOLDER_KEY}: ...)"
            ]
        )
    return real


def read_declared_hierarchy(entry: Mapping[str, Any], mistakes: list[str], where: str) -> Hierarchy | None:
    """The hierarchy of a field's entry; None when it has none, or a wrong one (which is added to ``mistakes``)."""
    rows = entry.get(_KEY)
    if rows is None:
        return None
    if isinstance(rows, HierarchyError):
        mistakes += [f"{where}{_KEY}: {mistake}" for mistake in rows.mistakes]
        return None
    if isinstance(rows, Mapping):
        try:
            return build_hierarchy(rows)
        except HierarchyError as error:
            mistakes += [f"{where}{_KEY}: {mistake}" for mistake in error.mistakes]
            return None
    if not isinstance(rows, list | tuple) or not all(
        isinstance(row, list | tuple) and all(isinstance(label, str) for label in row) for row in rows
    ):
        mistakes.append(
            f"{where}{_KEY}: must name a file, say how to build it, as in"
            " {widths: [5, 10], domain: [0, 120]}, or list its rows"
        )
        return None
    try:
        return Hierarchy(tuple(tuple(row) for row in rows))
    except HierarchyError as error:
        mistakes += [f"{where}{_KEY}: {mistake}" for mistake in error.mistakes]
        return None
