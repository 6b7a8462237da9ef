"""Texts, booleans and bytes: values that are equal or different; and the quasi-identifiers that are sets of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.kinds.form import Form, cast_halves, well_formed
from kanonflow.schemas.kinds.kind import Kind
from kanonflow.schemas.policy_fields import Domain, Quasi
from kanonflow.schemas.text_form import TextForm


class Texts(Form):
    """Text, also UUIDs."""

    label = name = text = True
    value = id_type = "string"  # type: ignore[assignment]

    @property
    def avro(self) -> str | None:
        """Of plain text."""
        return "string" if self.arrow == pa.string() else None

    @property
    def canonical(self) -> pa.DataType:
        """Plain text."""
        return pa.string()

    def take(self, array: pa.Array, form: TextForm) -> tuple[pa.Array, NDArray[np.bool_]]:
        """UUIDs in lower case."""
        if isinstance(array.type, pa.UuidType):
            return uuid_texts(array), np.zeros(len(array), dtype=bool)
        return super().take(array, form)

    def of_other(self, array: pa.Array, own: Form) -> tuple[pa.Array, NDArray[np.bool_]]:
        """Their canonical text; -0.0 and 0.0 are one number, and would be two texts."""
        return own.texts(own.plain(array)), np.zeros(len(array), dtype=bool)

    def _cast(self, cells: pa.StringArray, form: TextForm) -> pa.Array:
        return cells


class Uuids(Texts):
    """UUIDs, before they are text."""

    text = False


class Bytes(Form):
    """Bytes."""

    name = True
    plain_type = bytes  # type: ignore[assignment]

    @property
    def avro(self) -> str | None:
        """Of any length."""
        return "bytes" if self.arrow == pa.binary() else None

    def of_python(self, value: Any) -> bytes:
        """Bytes of any type."""
        if not isinstance(value, bytes | bytearray):
            raise TypeError
        return bytes(value)

    @property
    def canonical(self) -> pa.DataType:
        """Of any length."""
        return pa.binary()

    def _cast(self, cells: pa.StringArray, form: TextForm) -> pa.Array:
        return cells.cast(self.arrow)

    def texts(self, array: pa.Array) -> pa.StringArray:
        """As hexadecimal, which is not read back."""
        return pa.array([None if value is None else value.hex() for value in array.to_pylist()], pa.string())


class Truths(Form):
    """Booleans."""

    label = True
    value = avro = "boolean"  # type: ignore[assignment]
    plain_type = bool  # type: ignore[assignment]

    def of_python(self, value: Any) -> bool:
        """Also the numbers 0 and 1."""
        if not isinstance(value, int) or value not in (0, 1):
            raise TypeError
        return bool(value)

    @property
    def canonical(self) -> pa.DataType:
        """Themselves."""
        return self.arrow

    def becomes(self, other: Form) -> bool:
        """Its text."""
        return super().becomes(other) or other.text

    def keys(self, array: pa.Array) -> list[NDArray[Any]]:
        """False before true."""
        return [np.asarray(array.fill_null(False) if array.null_count else array).astype(np.int64)]

    def _cast(self, cells: pa.StringArray, form: TextForm) -> pa.Array:
        return cast_halves(well_formed(cells, r"^(?i:true|false|0|1)$", signed=False), self.arrow)

    def expected(self, form: TextForm) -> str:
        """All spellings."""
        return "true, false, 1 or 0"


def uuid_texts(array: pa.Array) -> pa.StringArray:
    """UUIDs as text, in lower case. O(n) vectorised."""
    stored = array.storage if isinstance(array, pa.ExtensionArray) else array
    raw = b"".join(value or bytes(16) for value in stored.to_pylist())
    digits = np.frombuffer(raw.hex().encode(), np.uint8).reshape(-1, 32)
    text = np.full((len(digits), 36), ord("-"), np.uint8)
    text[:, [n for n in range(36) if n not in _DASHES]] = digits
    ends = np.arange(len(digits) + 1, dtype=np.int32) * 36
    whole = pa.StringArray.from_buffers(len(digits), pa.py_buffer(ends), pa.py_buffer(text.tobytes()))
    return pc.if_else(stored.is_valid(), whole, pa.scalar(None, pa.string()))


_DASHES = (8, 13, 18, 23)


class CategoryKind(Kind):
    """``type: categorical``."""

    def rules_of_domain(self, where: str, domain: Domain) -> Iterator[str]:
        """Texts, each once."""
        if not domain or not all(isinstance(value, str) for value in domain):
            yield f"{where}.domain: must list at least one value, as text (put numbers and yes/no in quotes)"
        elif len(set(domain)) < len(domain):
            yield f"{where}.domain: lists a value twice"
        elif "" in domain:
            yield f"{where}.domain: an empty text is a null, which needs no place in the domain"

    def rules_of_grid(self, where: str, grid: object) -> Iterator[str]:
        """There is none."""
        if grid != "auto":
            yield f"{where}.grid: a categorical field has no grid; leave it out"

    def categories(self, quasi: Quasi) -> tuple[str, ...] | None:
        """The domain."""
        return None if quasi.domain is None else tuple(str(value) for value in quasi.domain)
