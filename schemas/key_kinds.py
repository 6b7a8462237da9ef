"""Kinds of values that a policy's keys hold: how each is read, written back, and described to other programs.

A kind's ``read`` returns a usable value, or None with what is wrong added to ``mistakes``. ``write`` gives the plain
value that ``read`` reads back as the same. ``schema`` is its JSON Schema (draft 2020-12); ``told`` says it in words.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol

from kanonflow.schemas.durations import PATTERN, format_duration, parse_duration
from kanonflow.schemas.written_values import read_number, unknown_keys

JsonSchema = dict[str, Any]


class Kind(Protocol):
    """What a key holds. The value that is read is never None: an absent key is the table's affair."""

    @property
    def told(self) -> str: ...
    def read(self, value: object, key: str, mistakes: list[str], where: str) -> Any: ...
    def write(self, value: Any) -> object: ...
    def schema(self) -> JsonSchema: ...


@dataclass(frozen=True)
class Exactly:
    """One number, and what is said of any other."""

    number: int
    otherwise: str

    @property
    def told(self) -> str:
        return str(self.number)

    def read(self, value: object, key: str, mistakes: list[str], where: str) -> int | None:
        if isinstance(value, bool) or value != self.number:
            mistakes.append(f"{where}{key}: {self.otherwise}")
            return None
        return self.number

    def write(self, value: int) -> object:
        return value

    def schema(self) -> JsonSchema:
        return {"const": self.number}


@dataclass(frozen=True)
class Text:
    """Text. example: what a value looks like, for documents."""

    example: str = "text"

    @property
    def told(self) -> str:
        return self.example

    def read(self, value: object, key: str, mistakes: list[str], where: str) -> str | None:
        if isinstance(value, str):
            return value
        mistakes.append(f"{where}{key}: must be text (put it in quotes)")
        return None

    def write(self, value: str) -> object:
        return value

    def schema(self) -> JsonSchema:
        return {"type": "string"}


@dataclass(frozen=True)
class Reason:
    """Text that is not empty: why something is accepted."""

    of: str

    @property
    def told(self) -> str:
        return "a reason"

    def read(self, value: object, key: str, mistakes: list[str], where: str) -> str | None:
        if isinstance(value, str) and value.strip():
            return value.strip()
        mistakes.append(f"{where}{key}: must be the reason, as text, why {self.of}")
        return None

    def write(self, value: str) -> object:
        return value

    def schema(self) -> JsonSchema:
        return {"type": "string", "pattern": r"\S"}


@dataclass(frozen=True)
class YesNo:
    """true or false."""

    @property
    def told(self) -> str:
        return "true, false"

    def read(self, value: object, key: str, mistakes: list[str], where: str) -> bool | None:
        if isinstance(value, bool):
            return value
        mistakes.append(f"{where}{key}: must be true or false")
        return None

    def write(self, value: bool) -> object:
        return value

    def schema(self) -> JsonSchema:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Whole:
    """A whole number of at least ``least``."""

    least: int

    @property
    def told(self) -> str:
        return f"whole, from {self.least}"

    def read(self, value: object, key: str, mistakes: list[str], where: str) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int) or value < self.least:
            mistakes.append(f"{where}{key}: must be a whole number of at least {self.least}")
            return None
        return value

    def write(self, value: int) -> object:
        return value

    def schema(self) -> JsonSchema:
        return {"type": "integer", "minimum": self.least}


@dataclass(frozen=True)
class Lengths:
    """Whole numbers from 1, as a list; one may stand alone."""

    @property
    def told(self) -> str:
        return "whole numbers, from 1"

    def read(self, value: object, key: str, mistakes: list[str], where: str) -> tuple[int, ...] | None:
        numbers = value if isinstance(value, list | tuple) else [value]
        if numbers and all(isinstance(one, int) and not isinstance(one, bool) and one > 0 for one in numbers):
            return tuple(numbers)
        mistakes.append(f"{where}{key}: must be a list of whole numbers of at least 1, such as [1, 3]")
        return None

    def write(self, value: tuple[int, ...]) -> object:
        return list(value)

    def schema(self) -> JsonSchema:
        one = {"type": "integer", "minimum": 1}
        return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}


@dataclass(frozen=True)
class Numbers:
    """Numbers as they are written, as a list."""

    @property
    def told(self) -> str:
        return "numbers"

    def read(self, value: object, key: str, mistakes: list[str], where: str) -> tuple[Decimal, ...] | None:
        numbers = [read_number(one) for one in value] if isinstance(value, list | tuple) else []
        finite = tuple(one for one in numbers if one is not None and math.isfinite(float(one)))
        if numbers and len(finite) == len(numbers):
            return finite
        mistakes.append(f"{where}{key}: must be a list of numbers, such as [100, 250.5]")
        return None

    def write(self, value: tuple[Decimal, ...]) -> object:
        return [plain(one) for one in value]

    def schema(self) -> JsonSchema:
        return {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 1}


@dataclass(frozen=True)
class Number:
    """A number; text that holds one is taken too. otherwise: what is said of anything else.

    above, least, below, most: its limits, None: none.     whole: whether a whole number is written without a fraction.
    exact: whether it is kept as the decimal that was written, and written as text.
    """

    otherwise: str
    above: float | None = None
    least: float | None = None
    below: float | None = None
    most: float | None = None
    whole: bool = False
    exact: bool = False

    @property
    def told(self) -> str:
        ends = ((self.least, "from"), (self.above, "above"), (self.below, "below"), (self.most, "up to"))
        limits = [f"{word} {end:g}" for end, word in ends if end is not None]
        return ", ".join(["number", *limits])

    def read(self, value: object, key: str, mistakes: list[str], where: str) -> float | Decimal | None:
        number = read_number(value)
        if number is None or not math.isfinite(float(number)) or not self._within(number):
            mistakes.append(f"{where}{key}: must be {self.otherwise}")
            return None
        return number if self.exact else float(number)

    def _within(self, number: Decimal) -> bool:
        return (
            (self.above is None or number > self.above)
            and (self.least is None or number >= self.least)
            and (self.below is None or number < self.below)
            and (self.most is None or number <= self.most)
        )

    def write(self, value: float | Decimal) -> object:
        if self.exact:
            return plain(value)
        return int(value) if self.whole and value == int(value) else float(value)

    def schema(self) -> JsonSchema:
        limits = {
            "exclusiveMinimum": self.above,
            "minimum": self.least,
            "exclusiveMaximum": self.below,
            "maximum": self.most,
        }
        number = {"type": "number", **{name: end for name, end in limits.items() if end is not None}}
        return {"anyOf": [number, {"type": "string"}]}


@dataclass(frozen=True)
class Duration:
    """A duration in milliseconds. more_than_nothing: whether 0 is a mistake. refused: what is said of a mapping or a
    list, which people write for sliding windows; empty: as of anything else."""

    more_than_nothing: bool = False
    refused: str = ""

    @property
    def told(self) -> str:
        return "duration"

    def read(self, value: object, key: str, mistakes: list[str], where: str) -> int | None:
        if self.refused and isinstance(value, Mapping | list):
            mistakes.append(f"{where}{key}: {self.refused}")
            return None
        duration = parse_duration(value)
        if duration is None:
            mistakes.append(
                f"{where}{key}: must be a whole number and a unit, such as 30s, 10m, 1h, 1d or 1w, or an ISO 8601"
                " duration such as P1D or PT1H"
            )
        if duration == 0 and self.more_than_nothing:
            mistakes.append(f"{where}{key}: must be longer than 0")
        return duration

    def write(self, value: int) -> object:
        return format_duration(value)

    def schema(self) -> JsonSchema:
        text = {"type": "string", "pattern": PATTERN}
        return text if self.more_than_nothing else {"anyOf": [text, {"const": 0}]}


@dataclass(frozen=True)
class Choice:
    """One word of an enumeration."""

    words: type[StrEnum]

    @property
    def told(self) -> str:
        return ", ".join(self.words)

    def read(self, value: object, key: str, mistakes: list[str], where: str) -> StrEnum | None:
        words = [str(word) for word in self.words]
        if isinstance(value, str) and value in words:
            return self.words(value)
        # Anything else may be large, and its text larger still (aliases of YAML).
        near = difflib.get_close_matches(value, words, n=1) if isinstance(value, str) else []
        hint = f" (did you mean {near[0]}?)" if near else ""
        mistakes.append(f"{where}{key}: must be one of {', '.join(words)}{hint}")
        return None

    def write(self, value: StrEnum) -> object:
        return str(value)

    def schema(self) -> JsonSchema:
        return {"enum": [str(word) for word in self.words]}


@dataclass(frozen=True)
class Names:
    """Names of fields, as a list; one name may stand alone."""

    @property
    def told(self) -> str:
        return "field names"

    def read(self, value: object, key: str, mistakes: list[str], where: str) -> tuple[str, ...] | None:
        names = [value] if isinstance(value, str) else value
        if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
            return tuple(names)
        mistakes.append(f"{where}{key}: must be a list of field names")
        return None

    def write(self, value: tuple[str, ...]) -> object:
        return list(value)

    def schema(self) -> JsonSchema:
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


@dataclass(frozen=True)
class Words:
    """Words, as a list; one may stand alone. example: what a value looks like, for documents."""

    example: str

    @property
    def told(self) -> str:
        return self.example

    def read(self, value: object, key: str, mistakes: list[str], where: str) -> tuple[str, ...] | None:
        words = [value] if isinstance(value, str) else value
        if isinstance(words, list | tuple) and all(isinstance(word, str) for word in words):
            return tuple(words)
        mistakes.append(f"{where}{key}: must be a list of words (put numbers and null in quotes)")
        return None

    def write(self, value: tuple[str, ...]) -> object:
        return list(value)

    def schema(self) -> JsonSchema:
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


@dataclass(frozen=True)
class Given:
    """A value that only its neighbours give a meaning to: whoever reads the mapping reads it.

    told_as: what it is, in words. described: its JSON Schema.
    """

    told_as: str
    described: Mapping[str, Any]
    plain: Callable[[Any], object] = lambda value: value

    @property
    def told(self) -> str:
        return self.told_as

    def read(self, value: object, key: str, mistakes: list[str], where: str) -> object:
        return value

    def write(self, value: Any) -> object:
        return self.plain(value)

    def schema(self) -> JsonSchema:
        return dict(self.described)


class Written(StrEnum):
    """When a key is spelled out in a policy that is written back."""

    ALWAYS = "always"
    SET = "set"
    CHANGED = "changed"
    NEVER = "never"


@dataclass(frozen=True)
class Key:
    """One key of a policy: the only place that knows it.

    doc: one line of documentation.     member: the attribute that holds its value.
    default: what holds without it, where that is one value.     default_told: the same in words, where it is not.
    missing: what is said when it is not there; "": it may be left out.
    empty: whether the key may stand there with nothing behind it (null), as if it were left out.
    """

    name: str
    kind: Kind
    doc: str
    member: str
    default: object = None
    default_told: str = ""
    missing: str = ""
    written: Written = Written.SET
    empty: bool = True

    @property
    def without(self) -> str:
        """What holds without the key, in words."""
        if self.missing:
            return "has to be there"
        if self.default is None:
            return self.default_told
        return (
            str(self.default).lower()
            if isinstance(self.default, bool)
            else str(self.kind.write(self.default))
        )

    def write(self, holder: object) -> dict[str, object]:
        """The key and its plain value as a mapping of one, or of none where it is not spelled out."""
        if self.written is Written.NEVER:
            return {}
        value = getattr(holder, self.member)
        if self.written is Written.CHANGED and value == self.default:
            return {}
        if value is None:
            return {self.name: None} if self.written is Written.ALWAYS else {}
        return {self.name: self.kind.write(value)}


def read_keys(
    keys: tuple[Key, ...], given: Mapping[str, Any], mistakes: list[str], where: str = ""
) -> dict[str, Any]:
    """The values under the keys that are there and right, by their members; what is wrong goes to ``mistakes``."""
    values = {}
    for key in keys:
        value = given.get(key.name)
        if value is not None or (key.name in given and not key.empty):
            read = key.kind.read(value, key.name, mistakes, where)
            if read is not None:
                values[key.member] = read
        elif key.missing:
            mistakes.append(f"{where}{key.name}: {key.missing}")
    return values


def write_keys(keys: tuple[Key, ...], holder: object) -> dict[str, object]:
    """What the keys hold as a mapping of plain values, in their order."""
    return {name: value for key in keys for name, value in key.write(holder).items()}


def keys_schema(keys: tuple[Key, ...], required: tuple[str, ...] = ()) -> JsonSchema:
    """The JSON Schema of a mapping with these keys and no others; a key may be null, as if it were not there."""
    properties = {}
    for key in keys:
        described = key.kind.schema()
        if key.name not in required and key.empty:
            described = {"anyOf": [described, {"type": "null"}]}
        default = "" if key.missing else key.without
        properties[key.name] = {
            "description": key.doc + (f" Without it: {default}." if default else ""),
            **described,
        }
    closed: JsonSchema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**closed, "required": list(required)} if required else closed


@dataclass(frozen=True)
class Group:
    """A mapping with keys of its own.

    build: makes the value of the members that were read.     short: the key whose value may stand alone, as text.
    example: shown where something else was written; empty: the keys are named.
    whole: every key has to be there, but those of which it is told what holds without them.
    others: the member that takes whatever else is there, as pairs, for somebody else to check; empty: it is a mistake.
    """

    keys: tuple[Key, ...]
    build: Callable[..., Any]
    short: str = ""
    example: str = ""
    whole: bool = False
    others: str = ""

    @property
    def told(self) -> str:
        return "mapping, see below" if not self.example else f"`{self.example}`"

    @property
    def required(self) -> tuple[str, ...]:
        """The keys that have to be there."""
        return tuple(key.name for key in self.keys if self.whole and not key.without)

    def read(self, value: object, key: str, mistakes: list[str], where: str) -> Any:
        if self.short and isinstance(value, str):
            return self.build(**{self.short: value})
        names = [each.name for each in self.keys]
        if not isinstance(value, Mapping) or any(value.get(name) is None for name in self.required):
            expected = f"such as {self.example}" if self.example else f"with the keys {', '.join(names)}"
            mistakes.append(f"{where}{key}: must be a mapping {expected}")
            return None
        values = read_keys(self.keys, value, mistakes, f"{where}{key}.")
        if self.others:
            values[self.others] = _plain_pairs(value, names, mistakes, f"{where}{key}.")
        else:
            mistakes += unknown_keys(value, names, f"{where}{key}.")
        there = sum(value.get(name) is not None for name in names)
        return None if self.whole and len(values) < there else self.build(**values)

    def write(self, value: Any) -> object:
        return write_keys(self.keys, value) | (dict(getattr(value, self.others)) if self.others else {})

    def schema(self) -> JsonSchema:
        mapping = keys_schema(self.keys, self.required)
        if self.others:
            mapping["additionalProperties"] = {"type": ["number", "string", "boolean"]}
        return {"anyOf": [{"type": "string"}, mapping]} if self.short else mapping


def _plain_pairs(
    mapping: Mapping[Any, Any], names: list[str], mistakes: list[str], where: str
) -> tuple[tuple[str, Any], ...]:
    """What stands under keys beside the known ones: numbers, words, true and false."""
    pairs = tuple((str(name), value) for name, value in mapping.items() if name not in names)
    mistakes += [
        f"{where}{name}: must be a number, a word, true or false"
        for name, value in pairs
        if not isinstance(value, bool | int | float | str)
    ]
    return pairs


def plain(value: object) -> object:
    """A number as text keeps every digit that was declared; the readers take text for numbers."""
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    return value.isoformat() if isinstance(value, date) else value
