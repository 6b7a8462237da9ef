"""The metrics of a release as they may stand next to it (``metrics: public``)."""

import copy
from collections.abc import Mapping
from typing import Any

DIGITS = 3

# What says something about single people or about values: how far an attacker gets, and running domains,
# whose ends are somebody's values.
_WITHHELD = (
    "linked_candidates",
    "guaranteed_candidates",
    "candidates_min",
    "peer_retention",
    "warm_kept",
    "tied_edges",
    "diversity",
    "domains",
)
_LOSSES = ("gcp", "gcp_hull", "sil", "loss_start", "loss_end", "lower_bound", "warm_loss", "cold_loss", "ncp")
_LEDGER = ("rows_new", "rows_waited", "rows_waiting", "rows_rejected", "waiting_reasons")
_COUNTS = ("rows_released", "individuals", "classes")


def public_metrics(record: Mapping[str, Any], k: int) -> dict[str, Any]:
    """Losses rounded to 3 digits, counts below k hidden, what concerns single people left out.

    Hidden is null (an empty map for a map). The counts of the ledger add up, so one hidden alone could be
    computed from the others: if any of them lies in 1..k-1, all of them are hidden.

    Postcondition: no number of 1..k-1 rows or individuals can be read or computed from the result.
    """
    public = {name: _rounded(value) if name in _LOSSES else value for name, value in record.items()}
    small = {name for name in (*_LEDGER, *_COUNTS) if _has_small_count(record.get(name), k)}
    hidden = set(_WITHHELD) | (set(_LEDGER) if small & set(_LEDGER) else set()) | small
    for name in hidden & public.keys():
        public[name] = {} if isinstance(public[name], Mapping) and name != "linked_candidates" else None
    return public


def public_metrics_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``metrics.avsc`` with null allowed for every count that may be hidden."""
    public = copy.deepcopy(dict(schema))
    for field in public["fields"]:
        if field["name"] in (*_LEDGER, *_COUNTS) and field["type"] == "long":
            field["type"] = ["null", "long"]
            field.pop("default", None)
    return public


def _has_small_count(value: Any, k: int) -> bool:
    if isinstance(value, Mapping):
        return any(0 < count < k for count in value.values())
    return value is not None and 0 < value < k


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: round(loss, DIGITS) for name, loss in value.items()}
    return None if value is None else round(value, DIGITS)
