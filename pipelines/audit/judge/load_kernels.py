"""Loads (or compiles) the audit's kernels: ``python -m kanonflow.pipelines.audit.judge.load_kernels``."""

from __future__ import annotations

import numpy as np

from kanonflow.pipelines.audit.files.avro_walk import type_tree, walk
from kanonflow.pipelines.audit.judge.candidate_graph import RowGroups, candidate_graph, group_records
from kanonflow.pipelines.audit.judge.concealment import conceal, group_members
from kanonflow.pipelines.audit.judge.matching import place
from kanonflow.pipelines.audit.read.boxes import BoxSets
from kanonflow.pipelines.audit.read.text_columns import plain_cells
from kanonflow.schemas.text_form import CsvForm


def load_kernels() -> None:
    """Read a row and audit two records, as an audit does: some 10 s from an empty cache, else tens of milliseconds."""
    walk(b"\0", 1, type_tree({"type": "record", "fields": [{"name": "a", "type": ["null", "long"]}]}))
    plain_cells(b"a,b\n", CsvForm(), 2, [0])
    two = np.zeros(2, np.int32)
    records = group_records(np.array([[0], [1]], np.int32), two, two.astype(np.int64))
    one = np.zeros(1, np.int64)
    box = np.zeros((1, 1), np.int32)
    rows = RowGroups(
        low=box,
        high=box + 1,
        nulls=np.zeros((1, 1), np.bool_),
        set_of=box - 1,
        sets=BoxSets(one, two[:0]),
        partition=two[:1],
        first_window=one,
        last_window=one,
        release=two[:1],
        size=one + 2,
        group_of=two,
    )
    graph = candidate_graph(records, rows)
    members = group_members(records.group_of, np.arange(2), 2)
    conceal(graph, place(graph), members, records.window)


if __name__ == "__main__":
    load_kernels()
