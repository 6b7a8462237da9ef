"""What a feed is like under a policy, what other policies would lose on it, and in a few sentences what to do.

    plain_statistics    people a window, whom fields single out, what follows from what, payload    counts alone
    solved              loss and widths under another k, window, delay, protection, a field less    windows are solved
    wanted_fields       what counts by some fields are off, and would be by other policies          windows are solved
    recommendations     at most five sentences, each with its figures and the change to try

Everything is a count, a share, a loss or a width; no value of a record is told, and nothing is released.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kanonflow.pipelines.explain.dependencies import redundant
from kanonflow.pipelines.explain.plain_statistics import PlainStatistics, plain_statistics
from kanonflow.pipelines.explain.recommendations import Recommendation, recommendations
from kanonflow.schemas.bound_policy import BoundPolicy

if TYPE_CHECKING:
    from kanonflow.pipelines.explain.solved import Solved
    from kanonflow.pipelines.explain.wanted_fields import Wanted


@dataclass(frozen=True)
class Explanation:
    """solved: None: nothing was. recommendations: the most pressing first. links: that every reader does, in words; "":
    nobody is given a column to link by. wanted: what was tried for fields that are counted by; None: nothing was."""

    plain: PlainStatistics
    solved: Solved | None
    recommendations: tuple[Recommendation, ...]
    links: str = ""
    wanted: Wanted | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """What to do."""
        return tuple(each.sentence for each in self.recommendations)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return self.plain.to_json() | {
            "solved": None if self.solved is None else self.solved.to_json(),
            "recommendations": [each.to_json() for each in self.recommendations],
            "sentences": list(self.sentences),
            "links": self.links,
            "for": None if self.wanted is None else self.wanted.to_json(),
        }

    def render(self) -> str:
        """The figures as text, the sentences at the end."""
        from kanonflow.pipelines.explain.page import explanation_text

        return explanation_text(self)


def explain(
    rows: pa.Table,
    bound: BoundPolicy,
    *,
    quick: bool = False,
    needed: Sequence[str] = (),
    expected: pa.Table | None = None,
    tell: Callable[[str], None] | None = None,
) -> Explanation:
    """Look at a feed under a policy. Deterministic.

    rows: canonical rows of the whole feed. quick: count, and solve nothing: O(n log n) a field, and O(f^3 p log p) of f
    quasi-identifiers and p people. needed: quasi-identifiers that users count by (``wanted_names``): no sentence says
    to leave them out, and unless ``quick`` it is tried what would make these counts better. expected: people who are
    known from the start, as of ``Feed``. tell: of ``solve_variants``.
    """
    plain = plain_statistics(rows, bound)
    follows = [each.dependent for each in redundant(plain.without(needed).follows)]
    solved = wanted = None
    if not quick:
        # Solvers take longer to load than a small feed to be counted.
        from kanonflow.pipelines.explain.solved import solve_variants
        from kanonflow.pipelines.explain.wanted_fields import wanted_fields

        solved = solve_variants(rows, bound, follows, needed=needed, expected=expected, tell=tell)
        if needed:
            wanted = wanted_fields(rows, bound, needed, expected=expected, tell=tell)
    advice = recommendations(plain, solved, bound, needed, wanted)
    links = " ".join(each.words for each in bound.policy.followed_by.values())
    return Explanation(plain, solved, advice, links, wanted)
