"""An Avro schema that refers to others in a registry, made one schema that stands by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_NAMED = ("record", "error", "enum", "fixed")
_PRIMITIVE = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_INSIDE = ("type", "items", "values")

_Definitions = dict[str, tuple[Mapping[str, Any], str]]
"""Full name -> the definition, and the namespace around it."""


def self_contained(schema: Any, references: Iterable[Any]) -> Any:
    """The schema with each named type of ``references`` written out where it is first used.

    schema, references: parsed JSON. Names become full names, so they mean the same wherever they stand. A name that
    nothing defines is left as it is: whoever parses the schema says so.
    """
    definitions: _Definitions = {}
    for reference in references:
        _collect(reference, "", definitions)
    return _written_out(schema, "", definitions, set())


def _collect(node: Any, namespace: str, definitions: _Definitions) -> None:
    if isinstance(node, list):
        for part in node:
            _collect(part, namespace, definitions)
    if not isinstance(node, Mapping):
        return
    inner = namespace
    if node.get("type") in _NAMED:
        full = _defined_name(node, namespace)
        definitions.setdefault(full, (node, namespace))
        inner = _namespace_of(full)
    for part in (*(node.get(key) for key in _INSIDE), *(field.get("type") for field in _fields(node))):
        _collect(part, inner, definitions)


def _written_out(node: Any, namespace: str, definitions: _Definitions, known: set[str]) -> Any:
    if isinstance(node, str):
        full = node if "." in node or node in _PRIMITIVE else _full(node, namespace)
        if full in known:
            return full
        if full in definitions:
            definition, around = definitions[full]
            return _written_out(definition, around, definitions, known)
        return node
    if isinstance(node, list):
        return [_written_out(part, namespace, definitions, known) for part in node]
    if not isinstance(node, Mapping):
        return node
    out, inner = dict(node), namespace
    if node.get("type") in _NAMED:
        full = _defined_name(node, namespace)
        inner = _namespace_of(full)
        known.add(full)
        out |= {"name": full.rpartition(".")[2], "namespace": inner}
    for key in _INSIDE:
        if key in node:
            out[key] = _written_out(node[key], inner, definitions, known)
    if _fields(node):
        out["fields"] = [
            {**field, "type": _written_out(field.get("type"), inner, definitions, known)}
            for field in _fields(node)
        ]
    return out


def _fields(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    fields = node.get("fields")
    return [each for each in fields if isinstance(each, Mapping)] if isinstance(fields, list) else []


def _defined_name(node: Mapping[str, Any], namespace: str) -> str:
    name = str(node.get("name"))
    return name if "." in name else _full(name, str(node.get("namespace", namespace)))


def _full(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace else name


def _namespace_of(full: str) -> str:
    return full.rpartition(".")[0]
