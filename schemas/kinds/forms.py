"""Which form the values of an Arrow type have: the one table of types."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from kanonflow.schemas.kinds.category import Bytes, Texts, Truths, Uuids
from kanonflow.schemas.kinds.date import Days, Instants, TimesOfDay
from kanonflow.schemas.kinds.form import Form
from kanonflow.schemas.kinds.number import DecimalForm, FloatForm, Whole

_FORMS: dict[type[Form], tuple[str, ...]] = {
    Whole: ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    FloatForm: ("halffloat", "float", "double"),
    DecimalForm: ("decimal32", "decimal64", "decimal128", "decimal256"),
    Days: ("date32", "date64"),
    Instants: ("timestamp",),
    TimesOfDay: ("time32", "time64"),
    Texts: ("string", "large_string", "string_view"),
    Uuids: ("extension<arrow.uuid>",),
    Bytes: ("binary", "large_binary", "fixed_size_binary"),
    Truths: ("bool",),
}
"""Forms by the names of Arrow's types, without what stands in brackets."""
_BY_NAME = {name: form for form, names in _FORMS.items() for name in names}


@cache
def form_of(arrow: pa.DataType) -> Form:
    """The form of a type's values; those of a dictionary are its values. One that nothing fits is ``Form`` itself."""
    if isinstance(arrow, pa.DictionaryType):
        return form_of(arrow.value_type)
    name = str(arrow)
    form = _BY_NAME.get(name) or _BY_NAME.get(name.partition("[")[0].partition("(")[0], Form)
    return form(arrow)
