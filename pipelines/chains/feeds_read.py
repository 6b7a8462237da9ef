"""How far the streams of a chain have read their feeds: a stream that continues one begins where that one ended.

    OUT/restricted/ended       the position that a stream's feed ended at, once all of it is out (runs/feed_end.py)
    run.json   feeds: [{source, position}]    of the streams before this run; position: null of an older build's
               begins: position               where this stream begins, if it goes on behind one of them

A topic can only be read from its beginning, and a directory holds what was read beside what came since: without a
position every row would be published a second time, in other boxes. What another source holds nobody can tell here; its
rows are known by their event ids alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanonflow.pipelines.chains.continued_run import ContinueError
from kanonflow.pipelines.chains.run_identity import place_of
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import read_whole

KEY = "feeds"
BEGINS = "begins"

Feeds = list[dict[str, Any]]


def feeds_of_chain(directory: str, record: Mapping[str, Any]) -> Feeds:
    """What a run and those before it have read of feeds. record: its run.json.

    Precondition: if it was a stream, its feed has ended.
    """
    before = [dict(each) for each in record.get(KEY, ())]
    if "job" not in record:
        return before
    ended = storage.join(directory, "restricted", "ended")
    position = read_whole(ended).decode() if storage.exists(ended) else ""
    return [*before, *({"source": each, "position": position or None} for each in record["input"])]


def begin_after(directory: str, feeds: Feeds, source: Mapping[str, Any], *, chosen: bool) -> str | None:
    """The position at which a stream begins that continues the run in ``directory``; None: nothing of it was read.

    source: of the stream, as run.json has it. feeds: of the chain. chosen: the user says where to begin (from=).
    Raises ContinueError: it was read, and nobody knows how far; or that is known, and the user says something else.
    """
    read = [each for each in feeds if same_source(each["source"], source)]
    if not read:
        return None
    position = read[-1]["position"]
    what = f"the topic {source['topic']}" if "topic" in source else f"the directory {source['directory']}"
    if position is None and not chosen:
        mend = (
            "Say in its address where to begin, behind the last row that was read: from=PARTITION:OFFSET,... or"
            " from=TIME"
            if "topic" in source
            else "Let what comes next arrive in another directory, and name that one"
        )
        raise ContinueError(
            f"--continue {directory}: it has read {what}, and an earlier build did not write down how far: its rows"
            f" would be published a second time. {mend}"
        )
    if position is not None and chosen:
        raise ContinueError(
            f"--continue {directory}: from=: how far it has read {what} is known, and this stream begins there; leave"
            " from= out"
        )
    return None if position is None else str(position)


def same_source(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two sources, as run.json has them, are one topic or one directory."""
    if "topic" in one or "topic" in other:  # servers may move
        return one.get("topic") == other.get("topic")
    return place_of(one["directory"]) == place_of(other["directory"]) if "directory" in one else False
