"""Data frames of other libraries as one Arrow table: pandas, polars, and whatever gives itself as an Arrow stream.

Neither library is imported here: a frame brings its own.

Columns keep their types. Of pandas None, NaN, NaT and NA are nulls, categories their values, and a time with a zone the
instant that it names; the index is not looked at, even if it has a name (``reset_index`` makes columns of it). Of
polars a null is a null and NaN a number that is none, which classification rejects where it is needed.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from kanonflow.schemas.errors import InputError


def as_table(frame: Any) -> pa.Table:
    """The rows of an Arrow table or batch, a pandas or polars DataFrame, or of what else has ``__arrow_c_stream__``.

    Raises InputError: it is none of them, a column has no name or shares it with another one, or holds values of
    several kinds. The message names columns and no values.
    """
    if isinstance(frame, pa.Table):
        table = frame
    elif isinstance(frame, pa.RecordBatch):
        table = pa.Table.from_batches([frame])
    elif _is_from("pandas", frame):
        table = _of_pandas(frame)
    elif _is_from("polars", frame) and hasattr(frame, "collect"):
        raise InputError("the table is a query of polars that has not run; give frame.collect()")
    elif hasattr(frame, "__arrow_c_stream__") and _is_frame(frame):
        table = _of_stream(frame)
    else:
        kind = type(frame)
        raise InputError(
            f"expected an Arrow table, or a DataFrame of pandas or polars, not {kind.__module__}.{kind.__qualname__}"
        )
    _check_names(table.column_names)
    return table


def _of_stream(frame: Any) -> pa.Table:
    # Objects of Python leave polars as addresses, and no error.
    kinds = dict(frame.schema) if _is_from("polars", frame) else {}
    objects = [str(name) for name, kind in kinds.items() if str(kind) == "Object"]
    if objects:
        raise InputError(
            f"column {', '.join(objects)}: holds objects of Python; make text or numbers of them"
        )
    try:
        return _without_views(pa.table(frame))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:  # whose texts may hold values
        raise InputError(
            f"the table has a type that Arrow does not have ({type(error).__name__}); cast it"
        ) from None


def _without_views(table: pa.Table) -> pa.Table:
    """The table; categories whose texts are views, as polars has them, with plain text: Arrow cannot look those up."""
    for place, field in enumerate(table.schema):
        if not isinstance(field.type, pa.DictionaryType) or field.type.value_type != pa.string_view():
            continue
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(pa.string()))
            for chunk in table.column(place).chunks
        ]
        kind = pa.dictionary(field.type.index_type, pa.string())
        table = table.set_column(place, field.name, pa.chunked_array(chunks, kind))
    return table


def _is_from(library: str, frame: Any) -> bool:
    """Whether the frame's class, or one that it inherits from, is one of the library's."""
    return any(kind.__module__.split(".")[0] == library for kind in type(frame).__mro__)


def _is_frame(frame: Any) -> bool:
    """Whether it has several columns: single ones give themselves as streams too."""
    return not (_is_from("polars", frame) and type(frame).__name__ == "Series") and not isinstance(
        frame, pa.ChunkedArray
    )


def _of_pandas(frame: Any) -> pa.Table:
    if not hasattr(frame, "columns"):
        raise InputError("the table is one column of pandas; give a DataFrame, as frame.to_frame() makes one")
    names = list(frame.columns)
    _check_names(names)
    columns = {}
    for place, name in enumerate(names):
        try:
            columns[name] = pa.Array.from_pandas(frame.iloc[:, place])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):  # whose texts hold values
            raise InputError(
                f"column {name}: holds values of several kinds, or of one that Arrow does not have; convert it, for"
                f" instance frame[{name!r}].astype('string')"
            ) from None
    return pa.table(columns)


def _check_names(names: list[Any]) -> None:
    """Every column has a text for a name, and no two the same."""
    nameless = [type(name).__name__ for name in names if not isinstance(name, str)]
    if nameless:
        raise InputError(
            f"{len(nameless)} of the table's columns have a {nameless[0]} and no text for a name; rename them to"
            " what the policy says"
        )
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InputError(f"the table has several columns {', '.join(twice)}; the policy names each once")
