"""What a run wrote, in the shape that a page needs: metrics, what releases say of their promise, and JSON of its own.

Whoever else changed one of these files is told so by name.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import fastavro

from kanonflow.pipelines.analysis.released_files import release_paths, release_schema
from kanonflow.pipelines.pictures.value_parts import are_parts
from kanonflow.pipelines.run_records.payload_check import MEASURED
from kanonflow.pipelines.run_records.run_summary import NAME, read_json
from kanonflow.schemas.avro_schema import PROPERTY, metrics_defaults
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.printable import printable
from kanonflow.schemas.promises.promises import promise_of_release

_NEEDED: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("rows_rejected", "waiting_reasons", "ncp"), (dict,)),
    **dict.fromkeys(("rows_released", "k"), (int,)),
    **dict.fromkeys(("policy", "protect"), (str,)),
    "window_end": (dt.datetime, type(None)),
}


def read_records(folder: Path, public: Collection[str] | None = None) -> list[Mapping[str, Any]]:
    """The records, by name of their file; [] where there is no such folder.

    public: names of the fields that may be in a file; None: whatever is in it.
    Raises InputError: a file is damaged, or no metrics, or it has a field that may not be there.
    """
    records: list[Mapping[str, Any]] = []
    for path in sorted(folder.glob("*.avro")):
        if not path.is_file():  # a pipe would be waited for
            raise InputError(f"{path}: no file, so nothing that a run wrote; take it away")
        try:
            reader = fastavro.reader(BytesIO(path.read_bytes()))
            schema, decoded = reader.writer_schema, [each for each in reader if isinstance(each, dict)]
            names = [str(field["name"]) for field in schema["fields"]]  # type: ignore[index,call-overload]
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
        except Exception as error:  # whatever the decoder trips over, the file is damaged
            raise InputError(f"{path}: not an Avro file, or damaged ({type(error).__name__})") from None
        if not all(
            name in record and isinstance(record[name], kinds)
            for record in decoded
            for name, kinds in _NEEDED.items()
        ):
            raise InputError(f"{path}: holds no metrics of releases")
        if more := [] if public is None else [name for name in names if name not in public]:
            raise InputError(
                f"{path}: not public, for it tells {', '.join(map(printable, more[:3]))}; what is of restricted/ goes"
                " into no certificate"
            )
        records += decoded
    return records


_WORDS = ("against", "publish_member", "publish_group", "values")
"""What a release says of its policy in words, where that says such a thing."""


def with_defaults(records: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Exact records of earlier builds with what they did not tell yet, as windows without a release say it."""
    defaults = metrics_defaults()
    return [{**defaults, **record} for record in records]


def stated_promise(release: Path) -> Mapping[str, Any]:
    """policy, k, protect, cohort, epoch, against, publish_member, publish_group and values, as metrics have them.

    {} where there is no release.

    epoch: None where they name several, or none. Reads the head of every file.
    Raises InputError: a file is damaged or no release, or two say different things.
    """
    heads = [(path, _stated(path)) for path in release_paths(release)]
    if not heads:
        return {}
    first, head = heads[0]
    for path, other in heads:
        for name in ("policy", "k", "protect", "cohort", *_WORDS):
            if other[name] != head[name]:
                raise InputError(
                    f"{path}: its {name} is not that of {first}; a page tells of releases of one policy"
                )
    epochs = {each["epoch"] for _, each in heads}
    return {**head, "epoch": head["epoch"] if len(epochs) == 1 else None}


def _stated(path: Path) -> Mapping[str, Any]:
    schema = release_schema(path)
    head = schema.get(PROPERTY) if isinstance(schema, Mapping) else None
    own = head if isinstance(head, Mapping) else {}
    k, epoch = own.get("k"), own.get("epoch")
    promise = promise_of_release(own.get("protect"), epoch)
    if type(k) is not int or k < 2 or promise is None:
        raise InputError(f"{path}: is no release of kanonflow: its schema does not say k and protect")
    return {
        "policy": str(own.get("policy", "")),
        "k": k,
        "protect": promise.protect,
        "cohort": promise.cohort,
        "epoch": epoch,
        **{name: own[name] if isinstance(own.get(name), str) else None for name in _WORDS},
    }


class StatedField(NamedTuple):
    """A field as releases say it. exact: published as it is. form: in words. grid: of its ends, domain: as declared; ""
    where there is none."""

    name: str
    exact: bool
    form: str
    grid: str = ""
    domain: str = ""


_RANGE = "a range"
_FORMS = {
    "numeric": _RANGE,
    "date": _RANGE,
    "categorical": "a set of values",
    "hierarchy": "a label of a hierarchy",
    "prefix": "how it begins",
}


def stated_fields(release: Path) -> tuple[StatedField, ...]:
    """The fields of the releases in a folder, by the head of the first; exact ones first. () where there is none.

    Raises InputError: the file is damaged or no release.
    """
    paths = release_paths(release)
    if not paths:
        return ()
    _stated(paths[0])
    schema = release_schema(paths[0])
    assert isinstance(schema, Mapping)
    told = [
        (field["name"], own) for field in schema["fields"] if isinstance(own := field.get(PROPERTY), Mapping)
    ]
    return tuple(sorted((_stated_field(name, own) for name, own in told), key=lambda field: not field.exact))


def _stated_field(name: str, own: Mapping[str, Any]) -> StatedField:
    shown = str(own.get("field", name))
    if own.get("role") != "quasi":
        coarse = own.get("published")
        return StatedField(shown, coarse is None, "as it is" if coarse is None else str(coarse))
    form, domain = _FORMS.get(str(own.get("type")), "a label"), own.get("domain") or []
    ends = (
        f"{domain[0]} to {domain[-1]}"
        if domain and form == _RANGE
        else f"{len(domain)} values" * bool(domain)
    )
    form += f", widths count by {own['scale']}" if "scale" in own else ""
    return StatedField(shown, False, form, str(own.get("grid") or ""), ends)


_RISK = ("field", "measure", "value", "limit", "verdict")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_text, value.values()))


def _counts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_count, value.values()))


def _risks(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, Mapping)
        and all(name in each for name in _RISK)
        and all(each[name] is None or _number(each[name]) for name in ("value", "limit"))
        for each in value
    )


def _parts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(are_parts, value.values()))


_Shape = Mapping[str, Callable[[Any], bool]]
_TABLE: _Shape = {
    **{f"rows_{name}": _count for name in ("read", "released", "waiting")},
    **{f"{name}_seconds": _number for name in ("total", "read", "solve", "publish", "write")},
    "rejected": _counts,
}
_SUMMARY: _Shape = {
    "summary": lambda value: isinstance(value, Mapping),
    "settings": _texts,
    "ended_at": _text,
}
_RUN: _Shape = {
    "accepted_risks": _texts,
    "versions": _texts,
    "chain": lambda value: isinstance(value, Mapping) and _count(value.get("place")),
}
_CHECK: _Shape = {"rows": _count, "risks": _risks, "fields": _parts}


def told_summary(restricted: Path) -> Mapping[str, Any]:
    """``summary.json``; {} where there is none, or it is no JSON.

    Raises InputError: a key of it is of another kind than runs write.
    """
    summary = _read(restricted / NAME, _SUMMARY)
    _refuse(restricted / NAME, summary.get("summary", {}), _TABLE)
    return summary


def told_run(restricted: Path) -> Mapping[str, Any]:
    """``run.json``, in the same way."""
    return _read(restricted / "run.json", _RUN)


def told_check(restricted: Path) -> Mapping[str, Any]:
    """``measured.json`` of a run over files, else ``check.json``, in the same way."""
    return _read(restricted / MEASURED, _CHECK) or _read(restricted / "check.json", _CHECK)


def _read(path: Path, shape: _Shape) -> Mapping[str, Any]:
    values = read_json(path)
    _refuse(path, values, shape)
    return values


def _refuse(path: Path, values: Mapping[str, Any], shape: _Shape) -> None:
    for name, fits in shape.items():
        if name in values and not fits(values[name]):
            raise InputError(
                f"{path}: the value of {name} is not what a run writes there; without the file, its pages say less"
            )
