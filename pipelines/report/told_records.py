"""What a run wrote of itself in JSON, in the shape that a page needs: whoever else changed it is told so by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kanonflow.pipelines.run_records.payload_check import MEASURED
from kanonflow.pipelines.run_records.run_summary import NAME, read_json
from kanonflow.schemas.errors import InputError

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
_CHECK: _Shape = {"rows": _count, "risks": _risks}


def told_summary(restricted: Path) -> Mapping[str, Any]:
    """``summary.json``; {} where there is none, or it is no JSON.

    Raises InputError: a key of it is of another kind than runs write.
    """
    told = _read(restricted / NAME, _SUMMARY)
    _refuse(restricted / NAME, told.get("summary", {}), _TABLE)
    return told


def told_run(restricted: Path) -> Mapping[str, Any]:
    """``run.json``, in the same way."""
    return _read(restricted / "run.json", _RUN)


def told_check(restricted: Path) -> Mapping[str, Any]:
    """``measured.json`` of a run over files, else ``check.json``, in the same way."""
    return _read(restricted / MEASURED, _CHECK) or _read(restricted / "check.json", _CHECK)


def _read(path: Path, shape: _Shape) -> Mapping[str, Any]:
    told = read_json(path)
    _refuse(path, told, shape)
    return told


def _refuse(path: Path, told: Mapping[str, Any], shape: _Shape) -> None:
    for name, fits in shape.items():
        if name in told and not fits(told[name]):
            raise InputError(
                f"{path}: the value of {name} is not what a run writes there; without the file, its pages say less"
            )
