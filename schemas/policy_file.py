"""Policies as files: YAML, or custom properties of an Avro schema; and back to a plain mapping."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from kanonflow.schemas.declared_hierarchies import with_hierarchy_rows
from kanonflow.schemas.diversity_declaration import diversity_mapping
from kanonflow.schemas.durations import format_duration
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.field_declaration import read_field, unclassified
from kanonflow.schemas.policy import (
    COHORT_WINDOWS,
    Cohort,
    Field,
    MetricsAccess,
    Others,
    Policy,
    Protection,
    Quasi,
    Shape,
    SolverChoice,
    build_policy,
)
from kanonflow.schemas.policy_fields import Role
from kanonflow.schemas.policy_keys import (
    read_choice,
    read_duration,
    read_number,
    read_share,
    read_text,
    read_whole,
    unknown_keys,
)

PROPERTY = "kanonflow"
"""Name of the custom property of Avro records and fields that holds a policy."""

DURATIONS = ("window", "window_offset", "max_delay", "out_of_orderness", "state_ttl")
SLIDING = ("slide", "every", "period")
KEYS = (
    "version",
    "name",
    "k",
    *DURATIONS,
    "partition_by",
    "max_window_rows",
    "individual",
    "protect",
    "shape",
    "cohort",
    "cohort_windows",
    "stability",
    "metrics",
    "solver",
    "fields",
    "others",
)
SOLVER_KEYS = ("method", "start", "evaluations_per_row", "deadline", "threads", "seed", "loss")
NO_SLIDING = (
    "sliding windows would publish a row several times, and the boxes of its copies narrow it down "
    "together; use fixed windows (window: 1d)"
)


def load_policy(path: str | Path) -> Policy:
    """The policy of a YAML file; its name is the file's stem unless it says another.

    Raises PolicyError with all mistakes, also when the file cannot be read or is not YAML.
    """
    path = Path(path)
    try:
        mapping = yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise PolicyError([f"file: cannot be read ({reason})"], str(path)) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or "not a YAML file"
        raise PolicyError([f"{place}not valid YAML: {problem}"], str(path)) from error
    return parse_policy(mapping, str(path), path.stem, path.parent)


def parse_policy(mapping: object, source: str, default_name: str, folder: Path | None = None) -> Policy:
    """The policy of a mapping as a YAML file would hold it.

    source: what an error calls it.     default_name: the policy's name unless the mapping says another.
    folder: where the files of hierarchies are; None: they stand in the mapping as rows.
    Raises PolicyError with all mistakes.
    """
    if not isinstance(mapping, Mapping):
        raise PolicyError(["file: must hold a mapping with version, k and fields"], source)
    mistakes = unknown_keys((key for key in mapping if key not in SLIDING), KEYS, "")
    mistakes += [f"{key}: {NO_SLIDING}" for key in SLIDING if key in mapping]
    mapping = with_hierarchy_rows(mapping, folder)
    parts = _read_head(mapping, default_name, mistakes)
    fields, unread = _read_fields(mapping, mistakes)
    parts["fields"] = fields
    return build_policy(parts, mistakes=mistakes, unread=unread, source=source)


def policy_from_avro_schema(schema: Mapping[str, Any], source: str) -> Policy:
    """The policy in the custom properties of an Avro record schema.

    The record's property ``kanonflow`` holds what stands at the top of a policy file (k, window...), each
    field's property ``kanonflow`` what stands under its name there. A field without one is unclassified.
    Raises PolicyError with all mistakes, also when the schema holds no policy.
    """
    head = schema.get(PROPERTY) if isinstance(schema, Mapping) else None
    if not isinstance(head, Mapping):
        raise PolicyError(
            [f"{PROPERTY}: the schema's record has no such property; give a policy file"], source
        )
    drops = head.get("others") == Others.DROP
    fields = {
        field["name"]: field.get(PROPERTY)
        for field in schema.get("fields", ())
        if PROPERTY in field or not drops
    }
    mapping = {"version": 1, **head, "fields": fields}
    return parse_policy(mapping, source, str(schema.get("name", "")))


def to_mapping(policy: Policy) -> dict[str, Any]:
    """The policy as a mapping of plain values with the defaults spelled out, but for keys that older policies lack.

    ``parse_policy(to_mapping(policy), ...)`` is equal to ``policy``.
    """
    durations = {key: getattr(policy, f"{key}_ms") for key in DURATIONS}
    solver = policy.solver
    deadline = None if solver.deadline_ms is None else format_duration(solver.deadline_ms)
    return {
        "version": policy.version,
        "name": policy.name,
        "k": policy.k,
        **{key: format_duration(value) for key, value in durations.items() if value is not None},
        "partition_by": list(policy.partition_by),
        "max_window_rows": policy.max_window_rows,
        "protect": str(policy.protect),
        **({} if policy.shape is None else {"shape": str(policy.shape)}),
        "others": str(policy.others),
        "cohort": str(policy.cohort),
        **({} if policy.cohort_windows == COHORT_WINDOWS else {"cohort_windows": policy.cohort_windows}),
        **({"stability": policy.stability} if policy.stability else {}),
        "metrics": str(policy.metrics),
        "solver": {
            "method": solver.method,
            "start": solver.start,
            "evaluations_per_row": solver.evaluations_per_row,
            "deadline": deadline,
            "threads": solver.threads,
            "seed": solver.seed,
            **({} if solver.loss == "ncp" else {"loss": solver.loss}),
        },
        "fields": {field.name: _field_mapping(field) for field in policy.fields},
    }


def policy_digest(policy: Policy) -> bytes:
    """Canonical JSON of the whole policy, its fields' order included: equal exactly for equal policies."""
    mapping = to_mapping(policy)
    mapping["fields"] = list(mapping["fields"].items())
    return json.dumps(mapping, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _read_head(mapping: Mapping[str, Any], default_name: str, mistakes: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "version" not in mapping:
        mistakes.append("version: missing; this version of kanonflow reads version: 1")
    elif isinstance(mapping["version"], bool) or mapping["version"] != 1:
        mistakes.append("version: this version of kanonflow reads policies of version 1")
    found["name"] = read_text(mapping, "name", mistakes) or default_name
    if mapping.get("k") is None:
        mistakes.append("k: missing; how many individuals must each row be hidden among? (5 is a good start)")
    # A stand-in that breaks no rule keeps one mistake from being reported as two.
    found["k"] = read_whole(mapping, "k", 2, mistakes) or 2
    found |= _read_durations(mapping, mistakes)
    found["partition_by"] = _read_partition_by(mapping, mistakes)
    found["max_window_rows"] = read_whole(mapping, "max_window_rows", 1, mistakes)
    found["protect"] = read_choice(mapping, "protect", Protection, mistakes)
    found["shape"] = read_choice(mapping, "shape", Shape, mistakes)
    found["others"] = read_choice(mapping, "others", Others, mistakes)
    found["cohort"] = read_choice(mapping, "cohort", Cohort, mistakes)
    found["cohort_windows"] = read_whole(mapping, "cohort_windows", 2, mistakes)
    found["stability"] = read_share(mapping, "stability", mistakes)
    found["metrics"] = read_choice(mapping, "metrics", MetricsAccess, mistakes)
    found["solver"] = _read_solver(mapping.get("solver"), mistakes)
    return {"version": 1, **{key: value for key, value in found.items() if value is not None}}


def _read_durations(mapping: Mapping[str, Any], mistakes: list[str]) -> dict[str, int | None]:
    window = mapping.get("window")
    sliding = isinstance(window, Mapping | list)
    if sliding:
        mistakes.append(f"window: {NO_SLIDING}")
    found = {
        f"{key}_ms": read_duration(mapping, key, mistakes)
        for key in DURATIONS
        if key != "window" or not sliding
    }
    if window is not None and found.get("window_ms") is None:
        found["window_ms"] = (found["window_offset_ms"] or 0) + 1
        found["state_ttl_ms"] = None
    return found


def _read_partition_by(mapping: Mapping[str, Any], mistakes: list[str]) -> tuple[str, ...]:
    given = mapping.get("partition_by")
    names = [given] if isinstance(given, str) else given or []
    if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
        return tuple(names)
    mistakes.append("partition_by: must be a list of field names")
    return ()


def _read_solver(given: object, mistakes: list[str]) -> SolverChoice:
    if given is None:
        return SolverChoice()
    if isinstance(given, str):
        return SolverChoice(method=given)
    if not isinstance(given, Mapping):
        mistakes.append(f"solver: must be a mapping with the keys {', '.join(SOLVER_KEYS)}")
        return SolverChoice()
    mistakes += unknown_keys(given, SOLVER_KEYS, "solver.")
    evaluations = None
    if given.get("evaluations_per_row") is not None:
        number = read_number(given["evaluations_per_row"])
        if number is None or number <= 0:
            mistakes.append("solver.evaluations_per_row: must be a positive number")
        else:
            evaluations = float(number)
    deadline = read_duration(given, "deadline", mistakes, "solver.")
    if deadline == 0:
        mistakes.append("solver.deadline: must be longer than 0")
    return SolverChoice(
        method=read_text(given, "method", mistakes, "solver.") or "auto",
        start=read_text(given, "start", mistakes, "solver.") or "auto",
        evaluations_per_row=evaluations,
        deadline_ms=deadline,
        threads=read_whole(given, "threads", 1, mistakes, "solver."),
        seed=read_whole(given, "seed", 0, mistakes, "solver."),
        loss=read_text(given, "loss", mistakes, "solver.") or "ncp",
    )


def _read_fields(mapping: Mapping[str, Any], mistakes: list[str]) -> tuple[tuple[Field, ...], set[str]]:
    """The fields, and the names of those that are only stand-ins because their declaration is wrong."""
    given = mapping.get("fields")
    if not isinstance(given, Mapping):
        mistakes.append("fields: must map each field's name to its role, as in  amount: {role: sensitive}")
        return (), {""}
    declared = dict(given)
    individual = read_text(mapping, "individual", mistakes)
    if individual is not None:
        entry = declared.get(individual)
        entry = (
            {"role": entry} if isinstance(entry, str) else dict(entry) if isinstance(entry, Mapping) else {}
        )
        if entry.setdefault("role", str(Role.INDIVIDUAL)) != Role.INDIVIDUAL:
            mistakes.append(f"individual: {individual} has another role under fields; it can have only one")
        declared[individual] = entry
    missing = [str(name) for name, entry in declared.items() if unclassified(entry)]
    if missing:
        roles = ", ".join(Role)
        mistakes.append(f"fields without a role: {', '.join(missing)}; give each of them one of {roles}")
    fields, unread = [], set(missing)
    for name, entry in declared.items():
        if not isinstance(name, str):
            mistakes.append(f"fields.{name}: a field's name must be text (put it in quotes)")
            unread.add(str(name))
        elif name not in unread:
            count = len(mistakes)
            fields.append(read_field(name, entry, mistakes))
            if len(mistakes) > count:
                unread.add(name)
    return tuple(fields), unread


def _field_mapping(field: Field) -> dict[str, Any]:
    mapping: dict[str, Any] = {"role": str(field.role)}
    if field.value is not None:
        mapping["as"] = field.value
    if field.quasi is not None:
        if field.also_quasi:
            mapping["also_quasi"] = True
        mapping |= _quasi_mapping(field.quasi)
    if field.accept_risk is not None:
        mapping["accept_risk"] = field.accept_risk
    return mapping | diversity_mapping(field)


def _quasi_mapping(quasi: Quasi) -> dict[str, Any]:
    mapping: dict[str, Any] = {"type": str(quasi.type)}
    if quasi.domain is not None:
        mapping["domain"] = [_plain(value) for value in quasi.domain]
    if quasi.hierarchy is not None:
        mapping["hierarchy"] = [list(row) for row in quasi.hierarchy.rows]
    mapping |= {"grid": _plain(quasi.grid), "weight": float(quasi.weight), "outside": str(quasi.outside)}
    return mapping


def _plain(value: object) -> object:
    """A number as text keeps every digit that was declared; the reader takes text for numbers."""
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    return value.isoformat() if isinstance(value, date) else value


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice: the second would silently replace the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)
