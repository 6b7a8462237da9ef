"""Files that a stream has read must not be read by a run over files that continues it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kanonflow.pipelines.chains.continued_run import ContinueError
from kanonflow.pipelines.chains.feeds_read import feeds_of_chain, same_source
from kanonflow.pipelines.feeds.arrival_position import ArrivalPosition, name_digest
from kanonflow.pipelines.run_records.run_record import read_record
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.output_directories import restricted_directory

_NAMED = 5


def refuse_read_files(continues: str | None, paths: Sequence[str]) -> None:
    """Raise ContinueError if streams of the chain have read some of these files where they lie.

    continues: the run to continue; None: there is none. paths: the files of a run over files.
    """
    record = None if continues is None else read_record(restricted_directory(continues))
    if continues is None or record is None:
        return
    feeds = feeds_of_chain(continues, record)
    read = sorted(storage.split(path)[1] for path in paths if _was_read(path, feeds))
    if read:
        names = ", ".join(read[:_NAMED]) + (f" and {len(read) - _NAMED:,} more" if len(read) > _NAMED else "")
        raise ContinueError(
            f"--continue {continues}: the streams that it goes on from have read {len(read):,} of the {len(paths):,}"
            f" files of the input already, or may have: {names}. Their rows would be released a second time; leave"
            " those out"
        )


def _was_read(path: str, feeds: Iterable[Mapping[str, Any]]) -> bool:
    folder, name = storage.split(path)
    for each in feeds:
        if same_source(each["source"], {"directory": folder}):
            position = each["position"]
            if position is None or name_digest(name) in ArrivalPosition.decode(position.encode()).read:
                return True
    return False
