"""The benchmark of trades in small: from a file to an audited release by the commands, each question answered by the
truth. That nothing of a person is drafted as published holds for all twelve in tests/pipelines/fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.trade_feeds import TRADES, Feed
from benchmarks.trades import answered, drafted, walk, write_feed

pytestmark = pytest.mark.thorough
WALKED = ("bank", "loyalty", "census")


@pytest.mark.parametrize("name", WALKED)
@pytest.mark.parametrize("named", [True, False], ids=["named", "nameless"])
def test_a_feed_of_a_trade_is_drafted_released_and_audited(tmp_path: Path, name: str, *, named: bool) -> None:
    """No wrong kind in the whole draft, few questions, and check, anonymize and verify in full pass."""
    (make,) = (make for make in TRADES if make().name == name)
    feed: Feed = make().soiled() if named else make().soiled().nameless()
    path = write_feed(feed, tmp_path)
    draft = drafted(path)
    assert draft.wrong(feed) == []
    policy, _ = answered(draft, feed)
    assert "?" not in str([field["role"] for field in policy["fields"].values()])
    codes, said = walk(path, policy, tmp_path, assessed=False)
    assert codes == [0, 0, 0], said


def test_a_wrong_kind_is_counted(tmp_path: Path) -> None:
    """An attribute that the draft publishes, by a truth that calls payload one."""
    (make,) = (make for make in TRADES if make().name == "loyalty")
    feed = make()
    truth = {**feed.truth, "basket": "attribute", "points": "contact"}
    draft = drafted(write_feed(feed, tmp_path))
    assert draft.wrong(Feed(feed.name, feed.cells, truth)) == ["basket", "points"]
    assert draft.held_back(feed) == []
