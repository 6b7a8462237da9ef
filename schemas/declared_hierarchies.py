"""The hierarchies that a policy declares: the name of a file beside it, or the rows themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kanonflow.schemas.errors import HierarchyError
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.hierarchy_file import read_hierarchy

_KEY = "hierarchy"


def with_hierarchy_rows(mapping: Mapping[str, Any], folder: Path | None) -> Mapping[str, Any]:
    """The mapping of a policy with the rows of its hierarchies in the place of files' names.

    folder: where the files are looked for, None for a policy that is not a file. A file that cannot be used leaves its
    HierarchyError in the place of the rows.
    """
    fields = mapping.get("fields")
    if not isinstance(fields, Mapping):
        return mapping
    read = {}
    for name, entry in fields.items():
        if not isinstance(entry, Mapping) or not isinstance(entry.get(_KEY), str):
            continue
        found: object
        if folder is None:
            found = HierarchyError(["only a policy file can name a file; write the rows here as lists"])
        else:
            try:
                found = read_hierarchy(folder / entry[_KEY]).rows
            except HierarchyError as error:
                found = HierarchyError([f"{entry[_KEY]}: {mistake}" for mistake in error.mistakes])
        read[name] = {**entry, _KEY: found}
    return {**mapping, "fields": {**fields, **read}} if read else mapping


def read_declared_hierarchy(entry: Mapping[str, Any], mistakes: list[str], where: str) -> Hierarchy | None:
    """The hierarchy of a field's entry; None when it has none, or a wrong one (which is added to ``mistakes``)."""
    rows = entry.get(_KEY)
    if rows is None:
        return None
    if isinstance(rows, HierarchyError):
        mistakes += [f"{where}{_KEY}: {mistake}" for mistake in rows.mistakes]
        return None
    if not isinstance(rows, list | tuple) or not all(
        isinstance(row, list | tuple) and all(isinstance(label, str) for label in row) for row in rows
    ):
        mistakes.append(
            f"{where}{_KEY}: must name a file, or be a list of rows of texts, leaf first and root last"
        )
        return None
    try:
        return Hierarchy(tuple(tuple(row) for row in rows))
    except HierarchyError as error:
        mistakes += [f"{where}{_KEY}: {mistake}" for mistake in error.mistakes]
        return None
