"""Hierarchies as the text of their files, to be read again."""

from __future__ import annotations

import csv
import io

from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.hierarchy_file import SEPARATOR


def render_hierarchy(hierarchy: Hierarchy) -> str:
    """The text of a hierarchy's file; ``parse_hierarchy`` reads it back."""
    sink = io.StringIO()
    csv.writer(sink, delimiter=SEPARATOR, lineterminator="\n").writerows(hierarchy.rows)
    return sink.getvalue()
