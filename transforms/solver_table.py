"""What a solver sees of a table under a policy, for those who try solvers and publish nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_source import policy_of
from kanonflow.solvers.problem.table import Table
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.protections.rows_as_lattice import lattice_of_rows
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.data_frames import as_table


class SolverTable(NamedTuple):
    """table: for ``Task``. rows: the canonical rows behind its n records, in order, with the policy's types.

    rejected: records of the rows that cannot be read, as ``anonymize_table`` rejects them.
    """

    table: Table
    rows: pa.Table
    rejected: list[dict[str, Any]]


def solver_table(
    table: Any, policy: Policy | Mapping[str, Any] | str | os.PathLike[str], *, text: bool = False
) -> SolverTable:
    """The quasi-identifiers of a table as numbers: scaled by the policy's domains, weighted, with its hierarchies.

    table, policy, text: as of ``anonymize_table``. Windows, partitions and waiting have no part in it: all rows are one
    problem. With a field of role individual the records of a person are one individual's. Where every quasi-identifier
    has a hierarchy, the table has its lattice.

    Raises PolicyError when the policy does not fit the table, InputError when the table is none. O(n d).
    """
    arrow = as_table(table)
    bound = bind(policy_of(policy), arrow.schema, text=text, source="the table")
    rows, rejected = classify(arrow.select(list(bound.input_columns)), bound)
    owner = bound.policy.individual
    people = None
    if owner is not None:
        codes = rows.column(owner.name).combine_chunks().dictionary_encode().indices
        people = np.asarray(codes).astype(np.int64)
    encoded = encode(rows, bound, people, {}).table
    if all(column.tree is not None for column in bound.quasis):
        encoded = replace(encoded, lattice=lattice_of_rows(rows, bound))
    return SolverTable(encoded, rows, list(rejected))
