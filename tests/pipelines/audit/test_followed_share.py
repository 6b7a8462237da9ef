"""What of an audit counts as in full: nothing is rounded up."""

from kanonflow.pipelines.audit.followed_share import FULL, WHOLE, FollowedShare, share


def test_shares_are_rounded_down() -> None:
    """So all but one of ten thousand is not all; nothing followed is nothing, and of nothing everything."""
    assert share(9_999, 10_000) == FULL - 1
    assert share(10_000, 10_000) == FULL
    assert share(None, 10_000) == share(0, 10_000) == 0
    assert share(None, 3) == 0
    assert share(None, None) == share(0, 0) == FULL


def test_the_least_share_decides() -> None:
    """Whole is what is whole in groups, people and rows."""
    assert WHOLE.whole
    assert FollowedShare(FULL, FULL, FULL).whole
    for part in ("groups", "people", "rows"):
        assert not FollowedShare(**{part: FULL - 1}).whole
