"""Several readers of one feed: which of its partitions each reads, and the elements that spread them over the workers.

Flink gives the step that reads its elements by their keys, and the key is the element itself, so an element is made
to fall where its reader is to run (transforms/shards/key_groups.py). What a checkpoint holds is the elements that the
stream began with: it goes on with the readers that it has, and none is begun beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from kanonflow.transforms.shards.key_groups import KEY_GROUPS, key_group

_WHOLE = b"feed"
_PART = b"part"


class Share(NamedTuple):
    """Reader ``number`` of ``of``, ``0 <= number < of``, reads the partitions whose number leaves that rest."""

    number: int = 0
    of: int = 1

    def owns(self, partition: int) -> bool:
        """Whether it reads this partition."""
        return partition % self.of == self.number


WHOLE = Share()


def element_of(share: Share, begins_at: bytes = b"") -> bytes:
    """The element that a reader is begun with; behind it stands where it begins.

    The one reader of a feed has the element that it had in every build.
    """
    if share == WHOLE:
        return _WHOLE + begins_at
    # In the middle of its share of the key groups: any number of workers below that of readers has even shares.
    group = (2 * share.number + 1) * KEY_GROUPS // (2 * share.of)
    elements = (b"%b %d/%d %d %b" % (_PART, *share, salt, begins_at) for salt in count())
    return next(each for each in elements if key_group(each) == group)


def share_of(element: bytes) -> tuple[Share, bytes]:
    """The inverse of ``element_of``."""
    if element.startswith(_WHOLE):
        return WHOLE, element.removeprefix(_WHOLE)
    _, share, _, begins_at = element.split(b" ", 3)
    number, of = map(int, share.split(b"/"))
    return Share(number, of), begins_at


def shares(readers: int) -> Iterator[Share]:
    """All readers of a feed."""
    return (Share(number, readers) for number in range(readers))
