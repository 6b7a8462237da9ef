"""What an output says of divided people (``first_partitions``): how many, for those inside; for others that there are.

    OUT/restricted/divided/BUCKET-COUNT   empty: a bucket had so many of them, at least; the highest count counts
    OUT/promise.json                      public: the promise over releases is not made

Files are created once and never changed. A bucket writes its count down as it grows, and above 15 not every one.
"""

from __future__ import annotations

import json
import re

from kanonflow.transforms.files import storage
from kanonflow.transforms.files.output_directories import PROMISE, promise_is_made, restricted_directory

TOLD = json.dumps({"over_releases": False, "because": "people have rows in more than one partition"}).encode()
_NAME = re.compile(r"(\d{4})-(\d+)")
_EXACT_BITS = 4


def divided_directory(output: str) -> str:
    """Where buckets write down how many they had."""
    return storage.join(restricted_directory(output), "divided")


def divided_people(output: str) -> int:
    """How many people the run below an output knows to be divided; where a bucket has more than 15, at least."""
    most: dict[str, int] = {}
    for path in _counts(output):
        if match := _NAME.fullmatch(storage.split(path)[1]):
            most[match[1]] = max(most.get(match[1], 0), int(match[2]))
    return sum(most.values())


def forget_divided_people(output: str) -> None:
    """Remove what a run that published nothing has written down here: the one that begins is another."""
    paths = [*_counts(output), *([] if promise_is_made(output) else [storage.join(output, PROMISE)])]
    storage.delete(paths)


def told_count(people: int) -> int:
    """The count that is written down: its highest bits, so that a bucket writes few files."""
    less = max(people.bit_length() - _EXACT_BITS, 0)
    return people >> less << less


def _counts(output: str) -> list[str]:
    return storage.paths_below(divided_directory(output), "*")
