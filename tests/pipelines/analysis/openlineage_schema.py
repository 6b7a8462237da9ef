"""What OpenLineage 2-0-2 asks of a run event, and versions of its facets of them, as JSON Schema.

Written down from the published specification (https://openlineage.io/spec/2-0-2/OpenLineage.json and spec/facets/,
Apache-2.0): its members, types, formats and what it needs, without its words. No package of a registry carries the
files themselves. ``openlineage-python`` makes its classes from them.
"""

from typing import Any

_TEXT: dict[str, Any] = {"type": "string"}
_URI = {"type": "string", "format": "uri"}
_INSTANT = {"type": "string", "format": "date-time"}
_COUNT = {"type": "integer"}


def _object(needed: str, **members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": needed.split()}


_BASE = _object("_producer _schemaURL", _producer=_URI, _schemaURL=_URI)
_OWN = {"allOf": [_BASE], "properties": {"_deleted": {"type": "boolean"}}}


def _facets(kind: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": kind}


_DATA_SET = _object("namespace name", namespace=_TEXT, name=_TEXT, facets=_facets(_OWN))
RUN_EVENT: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://openlineage.io/spec/2-0-2/OpenLineage.json",
    **_object(
        "eventTime producer schemaURL run job",
        eventTime=_INSTANT,
        producer=_URI,
        schemaURL=_URI,
        eventType={**_TEXT, "enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        run=_object("runId", runId={**_TEXT, "format": "uuid"}, facets=_facets(_BASE)),
        job=_object("namespace name", namespace=_TEXT, name=_TEXT, facets=_facets(_OWN)),
        inputs={
            "type": "array",
            "items": {"allOf": [_DATA_SET], "properties": {"inputFacets": _facets(_BASE)}},
        },
        outputs={
            "type": "array",
            "items": {"allOf": [_DATA_SET], "properties": {"outputFacets": _facets(_BASE)}},
        },
    ),
}
_FIELD = {
    **_object(
        "name",
        name=_TEXT,
        type=_TEXT,
        description=_TEXT,
        ordinal_position=_COUNT,
        fields={"type": "array", "items": {"$ref": "#/$defs/field"}},
    )
}


def _facet(needed: str, **members: Any) -> dict[str, Any]:
    return {"allOf": [_BASE, _object(needed, **members)], "$defs": {"field": _FIELD}}


FACETS = {
    "schema": _facet("", fields={"type": "array", "items": {"$ref": "#/$defs/field"}}),
    "version": _facet("datasetVersion", datasetVersion=_TEXT),
    "outputStatistics": _facet("", rowCount=_COUNT, size=_COUNT, fileCount=_COUNT),
    "nominalTime": _facet("nominalStartTime", nominalStartTime=_INSTANT, nominalEndTime=_INSTANT),
}
