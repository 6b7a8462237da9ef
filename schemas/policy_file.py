"""Policies as files: YAML, or custom properties of an Avro schema; and back to a plain mapping."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from kanonflow.schemas.declared_hierarchies import FOLDER_KEY, with_hierarchy_rows
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.field_declaration import UNCLASSIFIED, field_mapping, read_field, unclassified
from kanonflow.schemas.key_kinds import read_keys, write_keys
from kanonflow.schemas.policy import Field, Others, Policy, build_policy
from kanonflow.schemas.policy_fields import Role
from kanonflow.schemas.policy_keys import HEAD, LATER, NO_SLIDING, OF_LASTING, SLIDING
from kanonflow.schemas.printable import spellable
from kanonflow.schemas.written_values import unknown_keys

PROPERTY = "kanonflow"
"""Name of the custom property of Avro records and fields that holds a policy."""

MOST_DIGITS = 300
"""Of a whole number in a policy: a double has fewer."""

_OF_A_POLICY = tuple(key for key in HEAD if key.name not in (FOLDER_KEY, "fields"))


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
    except RecursionError:
        raise PolicyError(["file: is nested too deeply; a policy needs a few levels"], str(path)) from None
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
    unknown = (key for key in mapping if key not in SLIDING and key not in LATER)
    mistakes = [*unknown_keys(unknown, [key.name for key in HEAD], "")]
    mistakes += [f"{key}: {NO_SLIDING}" for key in SLIDING if key in mapping]
    mistakes += [
        f"{key}: comes with a later version ({what}); leave it out"
        for key, what in LATER.items()
        if key in mapping
    ]
    if FOLDER_KEY in mapping and not isinstance(mapping[FOLDER_KEY], str):
        mistakes.append(f"{FOLDER_KEY}: must name a folder, relative to that of the policy")
    mapping = with_hierarchy_rows(mapping, folder)
    parts = _read_head(mapping, default_name, mistakes)
    fields, unread = _read_fields(mapping, parts.pop("individual", None), mistakes)
    parts |= {"fields": fields}
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
    declared = schema.get("fields")
    declared = declared if isinstance(declared, list) else [None]
    names = [field.get("name") if isinstance(field, Mapping) else None for field in declared]
    if not all(isinstance(name, str) and spellable(name) for name in names) or len({*names}) < len(names):
        raise PolicyError(
            ["fields: the Avro schema must list records, each with a name of its own that is text"], source
        )
    drops = head.get("others") == Others.DROP
    fields = {field["name"]: field.get(PROPERTY) for field in declared if PROPERTY in field or not drops}
    mapping = {"version": 1, **head, "fields": fields}
    return parse_policy(mapping, source, str(schema.get("name", "")))


def to_mapping(policy: Policy) -> dict[str, Any]:
    """The policy as a mapping of plain values with the defaults spelled out.

    ``parse_policy(to_mapping(policy), ...)`` is equal to ``policy``.
    """
    return {
        **write_keys(HEAD, policy),
        "fields": {field.name: field_mapping(field) for field in policy.fields},
    }


def policy_digest(policy: Policy) -> bytes:
    """Canonical JSON of the whole policy, its fields' order included: equal exactly for equal policies.

    Without the share of an intake where it follows from the rest: builds that knew none go on.
    """
    mapping = to_mapping(policy)
    if policy.intake_share == policy.promise.defaults(policy).get("intake_share"):
        mapping.pop("intake_share", None)
    mapping["fields"] = list(mapping["fields"].items())
    return json.dumps(mapping, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _read_head(mapping: Mapping[str, Any], default_name: str, mistakes: list[str]) -> dict[str, Any]:
    """The values at the top, by members of Policy.

    What is wrong is absent, or has a stand-in that breaks no rule: so one mistake is not reported as two.
    """
    if mapping.get("protect") == UNCLASSIFIED:
        mistakes.append(
            "protect: say row if each row is a person of its own; else leave it out, and give the field that says whose"
            " rows they are role: individual"
        )
        mapping = {**mapping, "protect": None}
    values = {"name": default_name, "k": 2, **read_keys(_OF_A_POLICY, mapping, mistakes)}
    values["name"] = values["name"] or default_name
    if mapping.get("window") is not None and "window_ms" not in values:
        values["window_ms"] = values.get("window_offset_ms", 0) + 1
        values.pop("state_ttl_ms", None)
    if mapping.get("cohort") is not None and "cohort" not in values:
        for key in OF_LASTING:
            values.pop(key.member, None)
    return values


def _read_fields(
    mapping: Mapping[str, Any], individual: str | None, mistakes: list[str]
) -> tuple[tuple[Field, ...], set[str]]:
    """The fields, and the names of those that are only stand-ins because their declaration is wrong.

    individual: the field that the policy's key of that name names.
    """
    given = mapping.get("fields")
    if not isinstance(given, Mapping):
        mistakes.append("fields: must map each field's name to its role, as in  amount: {role: sensitive}")
        return (), {""}
    declared = dict(given)
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


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice, for the second would silently replace the first, and numbers that no
    key holds, which Python does not even write. What has the form of a date, and is none, is text."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Raises ConstructorError also where a value is not what it is said, or looks, to be."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError, LookupError, AttributeError):
            kind = str(node.tag).rpartition(":")[2]
            mistake = f"a value is written as {kind}, and is none; put it in quotes if it is text"
            raise yaml.constructor.ConstructorError(None, None, mistake, node.start_mark) from None

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value = super().construct_scalar(node)
        if not spellable(str(value)):
            mistake = "half of a pair of surrogates is no character; write the character itself"
            raise yaml.constructor.ConstructorError(None, None, mistake, node.start_mark)
        return value

    def construct_yaml_timestamp(self, node: yaml.ScalarNode) -> Any:
        """The date or time; where no calendar has it the text, of which its key says what it must be."""
        try:
            return super().construct_yaml_timestamp(node)
        except ValueError:
            return node.value

    def scan_flow_scalar_non_spaces(self, double: bool, start_mark: Any) -> Any:
        """Raises ScannerError also for the number of a character that there is not."""
        try:
            return super().scan_flow_scalar_non_spaces(double, start_mark)
        except (ValueError, OverflowError):
            raise yaml.scanner.ScannerError(
                None, None, "the number behind \\U is no character's", self.get_mark()
            ) from None

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        if len(node.value) > MOST_DIGITS:
            raise yaml.constructor.ConstructorError(
                None, None, f"a number of more than {MOST_DIGITS} digits", node.start_mark
            )
        return int(super().construct_yaml_int(node))

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        if not isinstance(node, yaml.MappingNode):
            raise yaml.constructor.ConstructorError(
                None, None, "a list or a value is written as a mapping", node.start_mark
            )
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            mistake = "a key is a list or a mapping"
            if isinstance(key, Hashable):
                mistake = f"the key {key} is given twice" if key in seen else ""
            if mistake:
                raise yaml.constructor.ConstructorError(None, None, mistake, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


for _kind in ("int", "timestamp"):
    _StrictLoader.add_constructor(
        f"tag:yaml.org,2002:{_kind}", getattr(_StrictLoader, f"construct_yaml_{_kind}")
    )
