"""What may be told of an assessment tells no count below k."""

from __future__ import annotations

from collections import defaultdict

import pytest

from kanonflow.pipelines.assess.findings import Assessment, Line
from kanonflow.pipelines.assess.publishing import public_assessment
from kanonflow.pipelines.assess.rates import Rate
from kanonflow.schemas.policy_choices import AssessLimits


def told(people: int, controls: int, k: int, size: int) -> tuple[float, ...]:
    """What is published of an attack with so many hits of either side."""
    line = Line("linkability", "", "", Rate(people, size), Rate(controls, size), limit=0.05)
    found = Assessment("p", k, AssessLimits(), (line,), size, size, False, 1)
    return public_assessment(found).lines[0]._replace(question="", attack="")[2:]


@pytest.mark.parametrize(("size", "k"), [(203, 5), (250, 2), (250, 10), (1000, 5)])
def test_no_count_below_k_can_be_had(size: int, k: int) -> None:
    """Of all counts on a small feed: whatever is published, k counts or more fit it, whoever knows the other side, and
    so none of them says that fewer than k people were found, or not found, but some."""
    some = sorted({0, 1, 2, k - 1, k, k + 1, size // 2, size - k, size - 1, size})
    for other in some:
        sides: tuple[defaultdict[tuple[float, ...], set[int]], ...] = (defaultdict(set), defaultdict(set))
        for hits in range(size + 1):
            sides[0][told(hits, other, k, size)].add(hits)
            sides[1][told(other, hits, k, size)].add(hits)
        for fits in sides:
            assert min(map(len, fits.values())) >= k


def test_it_is_told_in_hundredths_around_the_truth() -> None:
    """The interval holds the exact one."""
    figure, low, high, limit = told(120, 30, 5, 1000)
    assert (figure, limit) == (pytest.approx(0.09, abs=0.011), 0.05)
    exact = Line("linkability", "", "", Rate(120, 1000), Rate(30, 1000), limit=0.05).outcome
    assert exact is not None
    assert low <= exact[1][0]
    assert high >= exact[1][1]
    assert all(round(each, 2) == each for each in (figure, low, high))
