"""What was wrong with the quasi-identifiers of a row of lasting cohorts, as one cell that travels with the row.

Whether the row is rejected for it is decided where its individual is looked up. Nothing reads the attributes of an
individual that is known, so its row goes out all the same. The row of an unknown one is rejected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class QuasiFault(NamedTuple):
    """reason, field, message, expected, source, line: as rejected.avsc, of quasi-identifiers alone. cells: by field,
    the text that came, where the canonical value does not say it: it was bad, outside of the domain, or cut to it.
    unread: the fields of which that is the text as it came; of the others it is canonical.

    The row's own text does not travel along: what is never read must not stand in checkpoints.
    """

    reason: str
    field: str
    message: str
    cells: Mapping[str, str | None]
    unread: Sequence[str] = ()
    expected: str | None = None
    source: str | None = None
    line: int | None = None

    def to_cell(self) -> str:
        """JSON text; equal faults of one line have equal texts."""
        return json.dumps(self._asdict(), separators=(",", ":"))

    @staticmethod
    def of_cell(cell: str) -> QuasiFault:
        """The inverse of ``to_cell``."""
        return QuasiFault(**json.loads(cell))
