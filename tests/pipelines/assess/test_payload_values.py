"""Payload as something to be guessed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from kanonflow.pipelines.assess.payload_values import payload_values
from tests.pipelines.assess.small_feeds import ROWS, canonical, people, policy_of


def test_what_anybody_would_guess_is_the_same_in_every_release(tmp_path: Path) -> None:
    """A value of half of the rows: people of one release were compared with controls of another, in which a right guess
    of it was no hit. On complete_journey .50 was told to be inferred of a discount that is 0 in half of the rows."""
    bound, _ = canonical(list(people(300, 1)), policy_of(ROWS, tmp_path))
    (taste,) = (column for column in bound.payload if column.name == "taste")
    own = pa.chunked_array([["often"] * 51 + ["seldom"] * 49])
    releases = [pa.chunked_array([["often"] * share + ["seldom"] * (100 - share)]) for share in (49, 52)]
    both = [payload_values(taste, released, own) for released in releases]
    assert [each.own[0] == each.common for each in both] == [True, True]
    half = pa.chunked_array([["often"] * 50 + ["seldom"] * 50])
    assert [payload_values(taste, released, half).common for released in releases] == [-1, -1]
