"""Reading what a policy says about one field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanonflow.schemas.declared_hierarchies import read_declared_hierarchy
from kanonflow.schemas.diversity_declaration import DIVERSITY_KEYS, read_closeness, read_diversity
from kanonflow.schemas.policy_fields import Field, Outside, Quasi, QuasiType, Role
from kanonflow.schemas.policy_keys import (
    read_choice,
    read_domain,
    read_grid,
    read_number,
    read_text,
    unknown_keys,
)

QUASI_KEYS = ("type", "domain", "grid", "weight", "outside", "hierarchy")
FIELD_KEYS = ("role", "as", "also_quasi", "accept_risk", *QUASI_KEYS, *DIVERSITY_KEYS)
UNCLASSIFIED = "?"
"""What a drafted policy holds in the place of a role."""


def unclassified(entry: object) -> bool:
    """Whether a field's entry is there but gives it no role yet."""
    if isinstance(entry, Mapping):
        return entry.get("role") in (None, UNCLASSIFIED)
    return entry in (None, UNCLASSIFIED)


def read_field(name: str, entry: object, mistakes: list[str]) -> Field:
    """The field that ``entry`` declares: a mapping with at least a role, or just the role.

    What is wrong is added to ``mistakes``; the field returned then only stands in.
    """
    where = f"fields.{name}."
    if isinstance(entry, str):
        entry = {"role": entry}
    if not isinstance(entry, Mapping):
        mistakes.append(f"fields.{name}: must be a mapping such as {{role: sensitive}}, or a role")
        return Field(name, Role.IDENTIFIER)
    mistakes += unknown_keys(entry, FIELD_KEYS, where)
    role = read_choice(entry, "role", Role, mistakes, where)
    value = read_text(entry, "as", mistakes, where)
    quasi = _read_quasi(entry, role, mistakes, where)
    return Field(
        name,
        role or Role.IDENTIFIER,
        value.replace(" ", "") if value else None,
        quasi,
        read_diversity(entry.get("diversity"), mistakes, where),
        read_closeness(entry.get("closeness"), mistakes, where),
        _read_accepted_risk(entry, mistakes, where),
    )


def _read_accepted_risk(entry: Mapping[str, Any], mistakes: list[str], where: str) -> str | None:
    if "accept_risk" not in entry:
        return None
    reason = entry["accept_risk"]
    if isinstance(reason, str) and reason.strip():
        return reason.strip()
    mistakes.append(f"{where}accept_risk: must be the reason, as text, why the field's risk is accepted")
    return None


def _read_quasi(entry: Mapping[str, Any], role: Role | None, mistakes: list[str], where: str) -> Quasi | None:
    also_quasi = entry.get("also_quasi", False)
    if not isinstance(also_quasi, bool):
        mistakes.append(f"{where}also_quasi: must be true or false")
    elif also_quasi and role is not Role.TIME:
        mistakes.append(f"{where}also_quasi: belongs to the time field; say role: quasi instead")
    if role is not Role.QUASI and not (role is Role.TIME and also_quasi is True):
        stray = [key for key in QUASI_KEYS if key in entry]
        if stray and role is not None:
            hint = "; add also_quasi: true to publish it generalized" if role is Role.TIME else ""
            mistakes.append(
                f"{where}{stray[0]}: only quasi-identifiers have it, and this is role: {role}{hint}"
            )
        return None
    if "type" not in entry:
        mistakes.append(
            f"{where}type: missing; a quasi-identifier is numeric, date, categorical or hierarchy"
        )
    kind = read_choice(entry, "type", QuasiType, mistakes, where)
    weight = read_number(entry.get("weight", 1))
    if weight is None:
        mistakes.append(f"{where}weight: must be a positive number")
    outside = read_choice(entry, "outside", Outside, mistakes, where)
    hierarchy = read_declared_hierarchy(entry, mistakes, where)
    if kind is QuasiType.CATEGORICAL and entry.get("hierarchy") is not None:
        kind = QuasiType.HIERARCHY
    quasi = Quasi(
        type=kind or QuasiType.CATEGORICAL,
        domain=read_domain(entry.get("domain"), kind, mistakes, where),
        grid=read_grid(entry.get("grid", "auto")),
        weight=1.0 if weight is None else float(weight),
        outside=outside or Outside.REJECT,
        hierarchy=hierarchy,
    )
    return quasi if kind is not None else None
