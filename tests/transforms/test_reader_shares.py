"""Readers that share a feed: the elements they are begun with, where Flink runs them, and how a process lends them."""

from __future__ import annotations

from collections import Counter

import pytest

from kanonflow.pipelines.feeds.polled_source import Chunk, _OpenReaders
from kanonflow.transforms.reader_shares import WHOLE, Share, element_of, share_of, shares
from kanonflow.transforms.shards.key_groups import key_group, worker_of


def test_one_reader_has_the_element_that_it_always_had() -> None:
    """Savepoints of every build hold it."""
    assert element_of(WHOLE) == b"feed"
    assert element_of(WHOLE, b'{"latest":1}') == b'feed{"latest":1}'
    assert share_of(b"feed") == (WHOLE, b"")


@pytest.mark.parametrize("begins_at", [b"", b'{"latest":null, "partitions":{}}', b"x " * 1_000])
@pytest.mark.parametrize("readers", [2, 3, 4, 8, 16, 130])
def test_readers_run_on_all_workers(readers: int, begins_at: bytes) -> None:
    """As many workers as readers have one each; fewer have even shares; an element says whose it is."""
    elements = [element_of(share, begins_at) for share in shares(readers)]
    assert [share_of(each) for each in elements] == [(share, begins_at) for share in shares(readers)]
    for workers in range(1, min(readers, 100) + 1):
        held = Counter(worker_of(key_group(each), workers) for each in elements)
        assert len(held) == workers
        assert max(held.values()) - min(held.values()) <= 1 + readers // 64


def test_every_partition_has_one_reader() -> None:
    """Also of those that are added."""
    for readers in (1, 2, 7):
        for partition in range(30):
            assert sum(share.owns(partition) for share in shares(readers)) == 1


class Reader:
    """Counts how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    def read(self, position: bytes, max_rows: int) -> Chunk:
        """Nothing."""
        return Chunk((), position, None, more=False)

    def ending(self, position: bytes) -> bytes:
        """None."""
        return position

    def close(self) -> None:
        """Once is right."""
        self.closed += 1


def test_copies_of_a_step_lend_each_other_their_readers() -> None:
    """Whichever of them has a bundle of an element, its reader is the same, and closed with the last copy."""
    opened: list[Reader] = []

    def one() -> Reader:
        opened.append(Reader())
        return opened[-1]

    readers = _OpenReaders().join()
    readers.join()
    for element in (b"a", b"b", b"a", b"b"):
        with readers.lent(element, one):
            pass
    assert len(opened) == 2
    # A bundle that was given up still reads while another one has its element.
    with readers.lent(b"a", one) as old, readers.lent(b"a", one) as new:
        assert old is not new
    assert [reader.closed for reader in opened] == [0, 0, 1]
    with pytest.raises(ValueError, match="broken"), readers.lent(b"b", one):
        raise ValueError("broken")
    assert [reader.closed for reader in opened] == [0, 1, 1]
    readers.leave()
    assert opened[0].closed == 0
    readers.leave()
    assert [reader.closed for reader in opened] == [1, 1, 1]


def test_shares_are_named_by_number_and_count() -> None:
    """Ten of eleven is not one of one."""
    assert share_of(element_of(Share(10, 11))) == (Share(10, 11), b"")
