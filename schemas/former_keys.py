"""What policies could say before: read under its name of now, or refused with what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

_CLASSES = (
    "individuals stand in cohorts that last, the default, or with cohort: window in closed classes, put together"
    " afresh in each window"
)
_LEFT_OUT = {
    "cohort_windows": "it went with cohort: strict",
    "hold_share": "holding the worst classes back gained next to nothing and promised nothing",
    "stability": "a weight on the classes of before promised nothing over several windows and gained next to nothing",
}
_COHORTS = {
    "keep": "classes kept across windows cost many rows",
    "strict": "it cost two to four times the loss, and left one candidate to a reader who links everybody's rows",
}


FORMER: Mapping[str, tuple[str, ...]] = {"cohort": ("free",), "shape": ("classes",)}
"""Words of before that are still read, by key."""


class Former(NamedTuple):
    """mapping: the policy's, in the words of now. mistakes: what is gone. notes: what was read as something else."""

    mapping: Mapping[str, Any]
    mistakes: tuple[str, ...]
    notes: tuple[str, ...]


def read_former(mapping: Mapping[str, Any]) -> Former:
    """Take the words of before out of a policy's mapping; all that is gone is reported at once."""
    mistakes = [
        f"{key}: is gone ({why}); leave it out" for key, why in sorted(_LEFT_OUT.items()) if key in mapping
    ]
    notes: list[str] = []
    rest = {key: value for key, value in mapping.items() if key not in (*_LEFT_OUT, "shape")}
    cohort = mapping.get("cohort")
    if isinstance(cohort, str) and cohort in _COHORTS:
        mistakes.append(
            f"cohort: {cohort} is gone ({_COHORTS[cohort]}); leave it out for cohorts that last, or write "
            "cohort: window"
        )
        del rest["cohort"]
    by_row = _by_row(mapping)
    if cohort == "free" and by_row:
        del rest["cohort"]
        notes.append("cohort: free says nothing with protect: row, and was left out; leave it out.")
    elif cohort == "free":
        rest["cohort"] = "window"
        notes.append("cohort: free is called cohort: window now, and was read as that; write window.")
    if mapping.get("shape") is not None:
        _read_shape(mapping["shape"], by_row, mistakes, notes)
    return Former(rest, tuple(mistakes), tuple(notes))


def _by_row(mapping: Mapping[str, Any]) -> bool:
    """Whether rows are protected: so the policy says, or nothing says whom a row belongs to."""
    if mapping.get("protect") is not None:
        return mapping["protect"] == "row"
    fields = mapping.get("fields")
    entries = fields.values() if isinstance(fields, Mapping) else ()
    roles = [entry.get("role") if isinstance(entry, Mapping) else entry for entry in entries]
    return mapping.get("individual") is None and "individual" not in roles


def _read_shape(shape: object, by_row: bool, mistakes: list[str], notes: list[str]) -> None:
    if by_row:
        mistakes.append("shape: belongs to protect: individual; leave it out with protect: row")
    elif shape == "graph":
        mistakes.append(f"shape: graph over individuals is gone; leave shape out ({_CLASSES})")
    elif shape == "classes":
        notes.append(f"shape: classes is read and says nothing more; leave it out ({_CLASSES}).")
    else:
        mistakes.append(f"shape: is gone but for classes, and says nothing there; leave it out ({_CLASSES})")
