"""The metrics of a release as they may stand next to it (``metrics: public``).

An allow-list: each field of metrics.avsc says in its property ``public`` how it is shown, and is withheld without one.
A reader of public metrics also has the release itself and may compare thousands of windows. So a number is public only
if it adds nothing to the release (``as_is``, ``rounded``), or counts what k individuals share and nothing besides
(``count``, ``ledger``). The argument for each field is in docs/decisions/039-public-metrics-are-an-allow-list.md.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from kanonflow.schemas.promises.promises import promise_of

DIGITS = 3
LEAST_STEP = 10


class Shown(StrEnum):
    """How a field is published."""

    AS_IS = "as_is"
    ROUNDED = "rounded"
    COUNT = "count"
    LEDGER = "ledger"
    WITHHELD = "withheld"


def shown(field: Mapping[str, Any]) -> Shown:
    """The class of a field of metrics.avsc. Raises ValueError for one that there is not."""
    return Shown(field.get("public", Shown.WITHHELD))


def public_metrics(record: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """What of a released window's record may be published, as ``public_metrics_schema`` has it.

    record: a record of ``schema``, which is metrics.avsc. Its ``released`` must be true (else ValueError): of a window
    that released nothing, nothing is public, not even that it was there.

    Postcondition: of whom fewer than k individuals have as many rows, only that number is counted which k of them have.
    So k - 1 individuals who know their own rows can learn how many the one with the k-th most has, as closed classes
    tell them too, and nobody learns more of anybody.
    """
    if not record["released"]:
        raise ValueError("nothing is public of a window that released nothing")
    return {field["name"]: _published(field, record) for field in schema["fields"] if _is_public(field)}


def public_metrics_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``metrics.avsc`` without what is withheld, and null allowed for every count that may be hidden."""
    public = copy.deepcopy(dict(schema))
    public["doc"] = "What may be known of a release beside its rows."
    public["fields"] = [field for field in public["fields"] if _is_public(field)]
    for field in public["fields"]:
        field.pop("public_from", None)
        field.pop("of", None)
        if shown(field) is Shown.COUNT and isinstance(field["type"], str):
            field["type"] = ["null", "long"]
            field["default"] = None
    return public


def shared_rows(reasons: Sequence[str], individuals: Sequence[Any] | None, k: int) -> dict[str, int]:
    """Rows by reason, counting of one individual only as many rows as at least k individuals have for that reason.

    individuals: whose each row is; None: each row is its own individual.

    Postcondition: nobody adds more rows than each of k - 1 others; what fewer than k individuals have counts 0.
    Why: a threshold on rows lets one person's surplus rows pass it.
    """
    owners = range(len(reasons)) if individuals is None else individuals
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for (reason, _), count in Counter(zip(reasons, owners, strict=True)).items():
        rows[reason].append(count)
    return {reason: _shared(counts, k) for reason, counts in sorted(rows.items())}


def _shared(counts: list[int], k: int) -> int:
    if len(counts) < k:
        return 0
    most = sorted(counts, reverse=True)[k - 1]
    return sum(min(count, most) for count in counts)


def _is_public(field: Mapping[str, Any]) -> bool:
    return shown(field) is not Shown.WITHHELD


def _published(field: Mapping[str, Any], record: Mapping[str, Any]) -> Any:
    value = record[field.get("public_from", field["name"])]
    match shown(field):
        case Shown.ROUNDED:
            return _rounded(value)
        case Shown.COUNT:
            return value if _shared_by_many(record) else None
        case Shown.LEDGER:
            parts = _ledger(value, record["k"])
            # A total is the sum of what is shown: rounded by itself it would say more than its parts.
            return sum(parts.values()) if isinstance(field["type"], str) else parts
        case _:
            return value


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: round(loss, DIGITS) for name, loss in value.items()}
    return None if value is None else round(value, DIGITS)


def _shared_by_many(record: Mapping[str, Any]) -> bool:
    """Whether the individuals of a release may be counted: in row mode, rows less individuals are the rows that
    somebody has beyond the first, and that may be a single person's surplus."""
    promise = promise_of(record["protect"], record.get("cohort"))
    return promise.of_people and record["individuals"] >= record["k"]


def _ledger(parts: Mapping[str, int], k: int) -> dict[str, int]:
    """Rounded down: what is shown was there. A reason that rounds to 0 is not named."""
    step = max(LEAST_STEP, k)
    return {reason: rows - rows % step for reason, rows in parts.items() if rows >= step}
