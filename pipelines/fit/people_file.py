"""``people:`` of a policy: a file of people who are known from the start, read and judged before anything is written.

read_people(bound, policy_file) -> PeopleFile      all mistakes at once, never a person's values
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Mapping
from typing import Any

from kanonflow.pipelines.feeds.input_files import InputFile, find_inputs, input_schema
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.text_form import with_delimiter
from kanonflow.transforms.files.storage import scheme_of
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.windows.expected_people import PeopleFile, PeopleRows


def people_location(policy: Policy, policy_file: str) -> str:
    """Where the file is that a policy names: beside the policy's own, unless it says a whole path."""
    named = policy.people or ""
    if scheme_of(named) is not None or os.path.isabs(named):
        return named
    if scheme_of(policy_file) is not None:
        return posixpath.join(posixpath.dirname(policy_file), named)
    return os.path.join(os.path.dirname(policy_file), named)


def read_people(
    bound: BoundPolicy, policy_file: str, recorded: Callable[[InputFile], Mapping[str, Any]] = lambda file: {}
) -> PeopleFile | None:
    """The people that a policy's file names; None: it names no file.

    bound: the policy, bound to its feed, whose types the file's must become. recorded: what a run keeps of the file.
    Columns that the policy has no use for here are not read.
    Raises InputError with all mistakes of columns, or else of rows, by field: none is left out in silence, for the
    promise counts them.
    """
    if bound.policy.people is None:
        return None
    path = people_location(bound.policy, policy_file)
    try:
        file, *others = find_inputs([path])
        if others:
            raise InputError(f"{path}: several files; name one")
        record = recorded(file)
        form = with_delimiter(bound.policy.csv, None)
        schema = input_schema([file], form)
    except InputError as error:
        raise InputError(f"people: {str(error).replace('--input ', '')}") from None
    people = PeopleRows(
        bound, schema.columns, file.path, text=schema.text, form=bound.policy.csv if schema.csv else None
    )
    for batch in read_batches(file, people.names, form):
        people.add(from_ipc(batch.ipc), len(batch.broken))
    return PeopleFile(file.path, record, people.rows)
