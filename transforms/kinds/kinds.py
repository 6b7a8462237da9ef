"""What each kind of quasi-identifier does with its columns: the one table of it on this floor."""

from __future__ import annotations

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.policy_fields import QuasiType
from kanonflow.transforms.kinds.field_boxes import BoxKind
from kanonflow.transforms.kinds.nodes import NodeKind, PrefixKind
from kanonflow.transforms.kinds.ranges import RangeKind
from kanonflow.transforms.kinds.value_sets import SetKind

_KINDS: dict[QuasiType, BoxKind] = {
    QuasiType.NUMERIC: RangeKind(),
    QuasiType.DATE: RangeKind(),
    QuasiType.CATEGORICAL: SetKind(),
    QuasiType.HIERARCHY: NodeKind(),
    QuasiType.PREFIX: PrefixKind(),
}


def kind_of(column: BoundColumn) -> BoxKind:
    """What the kind of a quasi-identifier does."""
    assert column.field.quasi is not None
    return _KINDS[column.field.quasi.type]
