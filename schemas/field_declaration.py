"""Reading and writing what a policy says about one field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanonflow.schemas.declared_hierarchies import read_declared_hierarchy
from kanonflow.schemas.key_kinds import read_keys
from kanonflow.schemas.kinds.kinds import KINDS
from kanonflow.schemas.policy_fields import Domain, Field, Outside, Quasi, QuasiType, Role, ScaleName
from kanonflow.schemas.policy_keys import FIELD, QUASI
from kanonflow.schemas.written_values import read_grid, unknown_keys

UNCLASSIFIED = "?"
"""What a drafted policy holds in the place of a role."""
_OF_THE_FIELD = tuple(key for key in FIELD if key not in QUASI)


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
    mistakes += unknown_keys(entry, [key.name for key in FIELD], where)
    values = read_keys(_OF_THE_FIELD, entry, mistakes, where)
    role, value = values.get("role"), values.get("value")
    return Field(
        name,
        role or Role.IDENTIFIER,
        value.replace(" ", "") if value else None,
        _read_quasi(entry, role, values.get("also_quasi", False), mistakes, where),
        values.get("diversity"),
        values.get("closeness"),
        values.get("accept_risk"),
        values.get("format"),
        values.get("timezone"),
        values.get("fold"),
        values.get("source"),
        *(values.get(key) for key in ("round", "bottom", "top", "truncate")),
    )


def _read_quasi(
    entry: Mapping[str, Any], role: Role | None, also_quasi: bool, mistakes: list[str], where: str
) -> Quasi | None:
    if also_quasi and role is not Role.TIME:
        mistakes.append(f"{where}also_quasi: belongs to the time field; say role: quasi instead")
    if role is not Role.QUASI and not (role is Role.TIME and also_quasi):
        stray = [key.name for key in QUASI if key.name in entry]
        if stray and role is not None:
            hint = "; add also_quasi: true to publish it generalized" if role is Role.TIME else ""
            mistakes.append(
                f"{where}{stray[0]}: only quasi-identifiers have it, and this is role: {role}{hint}"
            )
        return None
    values = read_keys(QUASI, entry, mistakes, where)
    kind = values.get("type")
    hierarchy = read_declared_hierarchy(entry, mistakes, where)
    if kind is QuasiType.CATEGORICAL and entry.get("hierarchy") is not None:
        kind = QuasiType.HIERARCHY
    quasi = Quasi(
        type=kind or QuasiType.CATEGORICAL,
        domain=_read_domain(values.get("domain"), kind, mistakes, where),
        grid=read_grid(values.get("grid", "auto")),
        weight=values.get("weight", 1.0),
        outside=values.get("outside", Outside.REJECT),
        hierarchy=hierarchy,
        of=values.get("of"),
        lengths=values.get("lengths"),
        size=values.get("size"),
        scale=values.get("scale", ScaleName.LINEAR),
        quantiles=values.get("quantiles"),
        log_from=values.get("log_from"),
    )
    return quasi if kind is not None else None


def _read_domain(value: object, kind: QuasiType | None, mistakes: list[str], where: str) -> Domain | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        mistakes.append(f"{where}domain: must be a list")
        return None
    return None if kind is None else KINDS[kind].read_domain(value, mistakes, where)


def field_mapping(field: Field) -> dict[str, Any]:
    """What a policy file would hold under the field's name."""
    parts = {key.name: key.write(field) for key in _OF_THE_FIELD}
    parts |= {} if field.quasi is None else {key.name: key.write(field.quasi) for key in QUASI}
    return {name: value for key in FIELD for name, value in parts.get(key.name, {}).items()}
