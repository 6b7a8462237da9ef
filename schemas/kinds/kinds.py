"""Which kind a quasi-identifier is, by the word of its policy: the one table of kinds."""

from __future__ import annotations

from kanonflow.schemas.kinds.category import CategoryKind
from kanonflow.schemas.kinds.date import DateKind
from kanonflow.schemas.kinds.kind import Kind
from kanonflow.schemas.kinds.number import NumberKind
from kanonflow.schemas.kinds.prefix import PrefixKind
from kanonflow.schemas.kinds.tree import TreeKind
from kanonflow.schemas.policy_fields import QuasiType

KINDS: dict[QuasiType, Kind] = {
    QuasiType.NUMERIC: NumberKind(),
    QuasiType.DATE: DateKind(),
    QuasiType.CATEGORICAL: CategoryKind(),
    QuasiType.HIERARCHY: TreeKind(),
    QuasiType.PREFIX: PrefixKind(),
}
