"""What the runs of a chain have read: a row that was read and released must not be released by a later one again.

    run.json    read: [{name, content, rows}]    files of the runs before, as keyed digests of their bytes and rows

The name of a file says nothing, its content does: renamed, moved, and where rows were looked at also converted,
compressed or sorted it is the same. Rows that came in a file that is cut otherwise are known by their event ids, where
a policy has an ``event_id`` and ``cohort: lasting``. What is merely old is not refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kanonflow.schemas.policy import Policy
from kanonflow.schemas.printable import printable
from kanonflow.schemas.release_format import SUFFIXES
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.output_directories import release_directory, restricted_directory
from kanonflow.transforms.lineage.published_slots import holds_slots
from kanonflow.transforms.secret.seeds import Secret

KEY = "read"
_NAMED = 5
"""Files that a message names at most."""

DIGESTS = ("content", "rows")

_BY_WHOLE_FILES = (
    "{} only whole files are known as read: rows that an earlier run released would be"
    " published again if they came in a file that is cut otherwise or has others beside them."
)


def by_whole_files(policy: Policy) -> str:
    """What to tell of rows that a chain would not know; "": it knows them by their event ids, which only runs of
    cohorts that last hand on."""
    if policy.event_id is None:
        return _BY_WHOLE_FILES.format("Without an event_id in the policy")
    return "" if policy.events_last else _BY_WHOLE_FILES.format("Event ids are not handed on here, and")


Files = list[dict[str, str]]


def keyed(told: Mapping[str, Any], secret: Secret) -> dict[str, Any]:
    """What is read, its content as an HMAC: a digest of a few rows would tell them."""
    digests = {
        name: secret.lasting.derive("run", "content", told[name]).hex() for name in DIGESTS if name in told
    }
    return {**told, **digests}


def read_by_chain(directory: str, record: Mapping[str, Any]) -> Files:
    """Files that a run and those before it have read, each with ``name`` and keyed ``content``.

    record: its run.json. A run's own count where something of them is released, or waits in the state that it carries:
    of a run that failed before that they may be read again.
    """
    before = [dict(each) for each in record.get(KEY, ())]
    own = [
        {name: each[name] for name in ("name", *DIGESTS) if name in each}
        for each in record.get("input", ())
        if "content" in each
    ]
    return [*before, *own] if own and _took_rows(directory, record) else before


def read_again(
    read: Files, inputs: Sequence[Mapping[str, Any]], has_rows: Callable[[str], bool]
) -> dict[str, str]:
    """By name, files of an input that were read before, and the names that they had then.

    inputs: as in run.json, content keyed. has_rows: of a file's name. Two files without rows are equal, and nothing of
    them is read twice.
    """
    names = {each[kind]: each["name"] for kind in DIGESTS for each in reversed(read) if kind in each}
    again = {
        each["name"]: names[each[kind]] for kind in DIGESTS for each in inputs if each.get(kind) in names
    }
    return {name: then for name, then in again.items() if has_rows(name)}


def refusal(directory: str, again: Mapping[str, str], files: int) -> str:
    """What to say of files that were read before. files: how many the input has."""
    told_names = [(printable(name), printable(then)) for name, then in sorted(again.items())]
    named = [name if name == then else f"{name} (then {then})" for name, then in told_names]
    names = ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED:,} more" if len(named) > _NAMED else "")
    some = len(again) < files
    which = f"{len(again):,} of the {files:,} files of the input" if some else "the input"
    return (
        f"--continue {directory}: the runs that it goes on from have read {which} already: {names}. Their rows would be"
        f" released a second time. {'Leave those out' if some else 'Give the files that came since'}; rows that were"
        " rejected come again, mended, in a file of their own (kanonflow rejected --to). To release rows once more on"
        " purpose: anonymize --second-release, without --continue, with the --output that released them"
    )


def _took_rows(directory: str, record: Mapping[str, Any]) -> bool:
    """Whether a run has released something, or left rows to the one that continues it."""
    looked = [(release_directory(directory), f"*{suffix}") for suffix in SUFFIXES]
    chain = record.get("chain")
    if isinstance(chain, Mapping) and chain.get("carry"):
        looked.append((storage.join(restricted_directory(directory), "carried"), "*"))
    return holds_slots(directory) or any(storage.paths_below(*each) for each in looked)
