"""The rule by which releases stand beside each other, against a slow twin that follows rows."""

from __future__ import annotations

import dataclasses
import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from kanonflow.transforms.lineage.release_lineage import (
    Claim,
    ReleaseConflictError,
    Slot,
    judge,
    reach_ms,
    slot_from_bytes,
    within_reach,
)
from tests.small_feeds import HOUR, feed_policy

KEY = bytes(16)


def slot(end: int | None, digest: str, *built_on: Claim, part: int = 0) -> Slot:
    """A slot of the one partition."""
    return Slot(KEY, end, part, f"{end}-{part}", digest, 1, built_on)


@dataclasses.dataclass
class Line:
    """A line of states, row by row: the naive twin. rows: which row leaves with which window, by the line's choice."""

    leaves: dict[int, int]  # row -> window in which it leaves
    made: list[Slot] = dataclasses.field(default_factory=list)
    rows: dict[tuple[int | None, int], frozenset[int]] = dataclasses.field(default_factory=dict)

    def run(self, windows: int, reach: int) -> None:
        """Make every release; a window of no rows makes none."""
        claims: tuple[Claim, ...] = ()
        for end in range(windows):
            rows = frozenset(row for row, at in self.leaves.items() if at == end)
            if not rows:
                continue
            claims = within_reach(claims, end, reach)
            made = slot(end, ",".join(map(str, sorted(rows))), *claims)
            self.made.append(made)
            self.rows[made.place] = rows
            claims = (*claims, made.claim)


WINDOWS = 6


@st.composite
def two_lines(draw: st.DrawFn) -> tuple[int, Line, Line]:
    """Rows of windows 0 to 5, each of which leaves within ``reach`` windows of its own, in two lines of states."""
    reach = draw(st.integers(0, 3))
    homes = draw(st.lists(st.integers(0, WINDOWS - 1), min_size=1, max_size=8))
    shared = draw(st.integers(0, WINDOWS))  # both lines agree on rows that left before
    lines = []
    first: dict[int, int] = {}
    for number in range(2):
        leaves = {}
        for row, home in enumerate(homes):
            leaves[row] = home + draw(st.integers(0, reach))
            if number == 1 and first[row] < shared:
                leaves[row] = first[row]
            elif number == 1:
                leaves[row] = max(leaves[row], min(shared, home + reach))
        first = first or leaves
        line = Line(leaves)
        line.run(WINDOWS + reach, reach)
        lines.append(line)
    return reach, lines[0], lines[1]


@given(two_lines(), st.randoms(use_true_random=False))
def test_whatever_order_two_lines_commit_in_no_row_is_there_twice(
    made: tuple[int, Line, Line], random: object
) -> None:
    """Each release is written as soon as it may be, in any interleaving: rows published are published once."""
    reach, one, two = made
    queue = [(line, each) for line in (one, two) for each in line.made]
    random.shuffle(queue)  # type: ignore[attr-defined]
    committed: dict[tuple[int | None, int], Slot] = {}
    published: list[tuple[tuple[int | None, int], frozenset[int]]] = []
    for line, own in queue:
        if judge(own, committed.values(), reach) is None and own.place not in committed:
            committed[own.place] = own
            published.append((own.place, line.rows[own.place]))
    for (_, some), (_, others) in itertools.combinations(published, 2):
        assert not some & others


@given(two_lines(), st.randoms(use_true_random=False))
def test_one_line_is_never_in_its_own_way(made: tuple[int, Line, Line], random: object) -> None:
    """Committed in any order, and again: every release of one line is published."""
    reach, line, _ = made
    queue = [*line.made, *line.made]
    random.shuffle(queue)  # type: ignore[attr-defined]
    committed: dict[tuple[int | None, int], Slot] = {}
    for own in queue:
        assert judge(own, committed.values(), reach) is None
        committed[own.place] = own


def test_another_release_at_the_place_is_in_the_way() -> None:
    """Whatever it was built on."""
    there = slot(5, "a")
    assert judge(slot(5, "b"), [there], 0) == there
    assert judge(slot(5, "a"), [there], 0) is None


def test_parts_without_windows_are_judged_by_their_number() -> None:
    """All of them are within reach of each other."""
    first = slot(None, "a")
    assert judge(slot(None, "b", Claim(None, 0, "a"), part=1), [first], 0) is None
    assert judge(slot(None, "b", part=1), [first], 0) == first


def test_what_is_out_of_reach_is_not_asked_about() -> None:
    """No row can be in both: it would have to wait longer than max_delay."""
    there = slot(0, "a")
    assert judge(slot(3, "b"), [there], 2) is None
    assert judge(slot(2, "b"), [there], 2) == there


def test_whatever_has_no_window_is_within_reach_of_everything() -> None:
    """A claim without a window is kept at every end, a release without one makes all claims."""
    claims = (Claim(None, 0, "a"), Claim(3, 0, "b"), Claim(4, 1, "c"), Claim(5, 0, "d"))
    assert within_reach(claims, 6, 2) == (claims[0], *claims[2:])
    assert within_reach(claims, None, 2) == claims
    assert within_reach(claims, 99, 0) == claims[:1]


def test_a_conflict_is_a_failed_run() -> None:
    """Its exit code says that the run failed, and not that the arguments were wrong."""
    assert ReleaseConflictError.exit_code == 3


def test_the_reach_is_what_rows_span() -> None:
    """max_delay; a row of a feed without it leaves with its own window."""
    assert reach_ms(feed_policy(max_delay="2h")) == 2 * HOUR
    assert reach_ms(feed_policy()) == 0


def test_a_slot_survives_its_file() -> None:
    """Written and read again it is the same."""
    own = slot(5, "ab", Claim(4, 0, "cd"), Claim(None, 1, "ef"))
    assert slot_from_bytes(own.to_bytes()) == own
    # One that was written before runs continued each other is of a first run.
    values = json.loads(own.to_bytes())
    del values["chain_place"]
    assert slot_from_bytes(json.dumps(values).encode()).place == (0, 5, True, 0)


def test_a_closing_release_stands_before_the_regular_one_of_its_end() -> None:
    """And after all of the runs before, whatever their ends: so the later one has to name it."""
    regular = Slot(KEY, 5, 0, "r", "ab", 1, chain_place=2)
    closing = regular._replace(kind="closing", digest="cd")
    assert closing.place < regular.place
    assert regular._replace(chain_place=1, window_end=9).place < closing.place
    assert judge(regular, [closing], 0) == closing
    assert judge(regular._replace(built_on=(closing.claim,)), [closing], 0) is None
