"""Ids of the steps whose timers stand in savepoints: the same in every build, whatever steps came between.

A timer in Flink's state names its step by an id of the job's graph, and Beam numbers the steps of a graph in their
order. One more step before them, or a flag that adds one, and a job that goes on from a savepoint fails at its first
timer, again and again ("No receiver found for timer"). So the ids that streams had are kept.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.pipeline import ComponentIdMap

_IDS = {
    "KAnonymize/Solve/ParDo(SolveWindows)": "ref_AppliedPTransform_KAnonymize-Solve-ParDo-SolveWindows-_16",
    "KAnonymize/Route/Strangers": "ref_AppliedPTransform_KAnonymize-Route-Strangers_of_shards",
    "KAnonymize/GatherRejected/Gather": "ref_AppliedPTransform_KAnonymize-GatherRejected-Gather_25",
}
_END = "End/End"
_OF_END = {False: "ref_AppliedPTransform_End-End_73", True: "ref_AppliedPTransform_End-End_75"}


class _StableIds(ComponentIdMap):
    def __init__(self, ids: dict[str, str]) -> None:
        super().__init__()
        self._ids = ids

    def get_or_assign(self, obj: Any = None, obj_type: Any = None, label: str | None = None) -> str:
        """As of Beam, but for the steps that have an id."""
        if label in self._ids and obj not in self._obj_to_id:
            self._obj_to_id[obj] = self._ids[label]
        return str(super().get_or_assign(obj, obj_type, label))


def keep_ids(pipeline: beam.Pipeline, *, matching_records: bool) -> None:
    """Give the steps of a stream that have timers the ids that they always had.

    matching_records: whether the job writes them: there the last of these steps had another one.
    """
    pipeline.component_id_map = _StableIds({**_IDS, _END: _OF_END[matching_records]})
