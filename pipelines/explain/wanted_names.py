"""Which fields users count by, as ``kanonflow explain --for`` lists them."""

from __future__ import annotations

import csv

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError


def wanted_names(text: str, bound: BoundPolicy) -> tuple[str, ...]:
    """The names in a list between commas, in the order of the list; one with a comma stands in quotes.

    Raises InputError: some are no quasi-identifiers; it has all of them, and those there are.
    """
    listed = next(csv.reader([text], skipinitialspace=True), [])
    names = tuple(dict.fromkeys(name for each in listed if (name := each.strip())))
    quasis = [column.name for column in bound.quasis]
    others = {field.name: field.role for field in bound.policy.fields}
    unknown = [name for name in names if name not in others]
    exact = [name for name in names if name in others and name not in quasis]
    mistakes = []
    if not names:
        mistakes.append("names no field")
    if unknown:
        mistakes.append(f"the policy has no {', '.join(unknown)}")
    if exact:
        payload = ", ".join(f"{name} ({others[name]})" for name in exact)
        mistakes.append(
            f"{payload}: is no quasi-identifier, and nothing that is widened; a count by payload is that of the rows"
        )
    if mistakes:
        raise InputError(f"--for: {'; '.join(mistakes)}. Its quasi-identifiers are {', '.join(quasis)}")
    return names
