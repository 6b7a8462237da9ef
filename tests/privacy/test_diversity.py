"""Rules for sensitive values, as PRIVACY promises them: in every class of every release, or nothing goes out."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy_file import parse_policy, to_mapping
from kanonflow.transforms.one_table import AnonymizedTable, anonymize_table
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.secret.seeds import ReleaseSlot
from tests import naive_diversity as naive
from tests.driven_partitions import DrivenPartitions
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, canonical, feed_policy, row
from tests.windows_alone import release_window

pytestmark = pytest.mark.thorough

SHAPES = pytest.mark.parametrize("people", [True, False], ids=["individuals", "rows"])


def bound_by(people: bool, rules: dict[str, Any], **head: Any) -> BoundPolicy:
    """The small feed's policy with rules for ``amount``."""
    mapping = to_mapping(feed_policy(people, **head))
    mapping["fields"]["amount"] |= rules
    return bound_feed(parse_policy(mapping, "test", "test"))


def feed(
    rows: int, people: int, shares: list[float], hour: float = 0.2, seed: int = 1, first: int = 0
) -> list[Row]:
    """Rows whose amounts are 0.5, 1.5, ... with these shares."""
    rng = np.random.default_rng(seed)
    amounts = rng.choice(len(shares), rows, p=shares)
    return [
        row(first + number, int(rng.integers(people)), hour, amount=f"{amounts[number]}.5")
        for number in range(rows)
    ]


def classes_of(released: pa.Table) -> list[list[float]]:
    """Amounts by box, in each release."""
    found: dict[str, list[float]] = defaultdict(list)
    for each in released.to_pylist():
        found[repr((each["release_id"], each["age"], each["job"]))].append(each["amount"])
    return list(found.values())


def whole(rows: list[Row], bound: BoundPolicy) -> AnonymizedTable:
    """The feed as one table."""
    table = pa.Table.from_pylist(
        [{field.name: each[field.name] for field in bound.policy.fields} for each in rows]
    )
    return anonymize_table(table, bound.policy, SECRET, text=True)


@SHAPES
@pytest.mark.parametrize("kind", ["distinct", "entropy", "frequency"])
def test_every_class_shows_l_values(people: bool, kind: str) -> None:
    """Rows that are equal in every quasi-identifier included; the metrics tell the least l of any class."""
    bound = bound_by(people, {"diversity": {"kind": kind, "l": 2}}, max_delay="2h")
    rows = feed(300, 60, [0.45, 0.3, 0.2, 0.05]) + feed(200, 60, [0.4, 0.3, 0.3], 1.2, 2, 300)
    found = whole(rows, bound)
    classes = classes_of(found.released)
    assert found.released.num_rows > 300
    assert min(naive.shown(values, kind) for values in classes) >= 2 - 1e-9
    told = [each["diversity"][f"amount.{kind}"] for each in found.metrics if each["released"]]
    assert min(told) >= 2 - 1e-8
    assert {each["reason"] for each in found.rejected} <= {
        "not_diverse",
        "individual_over_limit",
        "too_few_peers",
    }
    plain = whole(
        rows, bound_feed(feed_policy(people, max_delay="2h", protect="individual" if people else "row"))
    )
    assert plain.metrics[0]["diversity"] == {}


@SHAPES
@pytest.mark.parametrize("distance", ["equal", "ordered"])
def test_every_class_is_close_to_its_release(people: bool, distance: str) -> None:
    """Measured from the values of the rows that were released, not of those that came."""
    bound = bound_by(people, {"closeness": {"distance": distance, "t": 0.3}})
    found = whole(feed(400, 80, [0.4, 0.3, 0.2, 0.1]), bound)
    amounts = found.released.column("amount").to_pylist()
    assert len(amounts) > 200
    assert (
        max(naive.distance(values, amounts, distance) for values in classes_of(found.released)) <= 0.3 + 1e-8
    )


@SHAPES
def test_an_infeasible_window_waits_then_rejects(people: bool) -> None:
    """75% of one value: frequency l = 2 is impossible, so nothing goes out; distinct l = 2 is not, so most does."""
    rows = feed(200, 40, [0.75, 0.25])
    step = DrivenPartitions(
        bound_by(people, {"diversity": {"kind": "frequency", "l": 2}}, max_delay="1h"), SECRET
    )
    step.send(rows)
    step.advance(START + HOUR)
    assert step.published() == []
    assert step.waiting() == 200
    assert step.metrics[-1]["waiting_reasons"] == {"not_diverse": 200}
    step.advance(START + 4 * HOUR)
    assert step.waiting() == 0
    assert len(step.refused()) == 200
    assert sum((Counter(each["rows_rejected"]) for each in step.metrics), Counter()) == {"not_diverse": 200}
    found = whole(rows, bound_by(people, {"diversity": {"kind": "distinct", "l": 2}}))
    assert found.released.num_rows > 100
    assert all(len(set(values)) == 2 for values in classes_of(found.released))


def test_rows_that_waited_for_other_values_are_released_with_them() -> None:
    """One value only: all wait; the next hour brings the others, and the waiting rows go out first."""
    bound = bound_by(False, {"diversity": {"kind": "distinct", "l": 2}}, max_delay="2h")
    one = release_window(
        canonical(feed(20, 9, [1.0]), bound), bound, WarmState(), SECRET, ReleaseSlot(b"p", START + HOUR, 0)
    )
    assert one.release is None
    assert one.warm.waiting_rows == 20
    more = canonical(feed(20, 9, [0.0, 1.0], 1.2, 2, 20), bound)
    two = release_window(more, bound, one.warm, SECRET, ReleaseSlot(b"p", START + 2 * HOUR, 0))
    assert two.release is not None
    amounts = Counter(from_ipc(two.release.ipc).column("amount").to_pylist())
    assert amounts[0.5] == amounts[1.5] == 20
    assert two.release.window_start == START


def test_values_shape_classes_only_where_a_rule_asks_for_it() -> None:
    """Other amounts on the same people: the same boxes without a rule; with one they may differ."""
    rows = feed(120, 60, [0.5, 0.5])
    other = [dict(each, amount=f"{number % 3}.5") for number, each in enumerate(rows)]

    def boxes(given: list[Row], bound: BoundPolicy) -> list[str]:
        return sorted(repr((each["age"], each["job"])) for each in whole(given, bound).released.to_pylist())

    plain = bound_feed(feed_policy())
    assert boxes(rows, plain) == boxes(other, plain)
    ruled = bound_by(True, {"diversity": {"kind": "entropy", "l": 2.5}})
    assert boxes(rows, ruled) != boxes(other, ruled)


def test_a_retry_is_byte_identical_under_a_rule() -> None:
    """The same rows in another order: the same bytes."""
    bound = bound_by(True, {"diversity": {"kind": "frequency", "l": 2}}, max_delay="1h")
    rows = feed(150, 40, [0.4, 0.3, 0.3])
    slot = ReleaseSlot(b"p", START + HOUR, 0)
    results = [
        release_window(canonical(given, bound), bound, WarmState(), SECRET, slot)
        for given in (rows, rows[::-1])
    ]
    assert results[0].release is not None
    assert results[0].release == results[1].release


def test_windows_in_parts_keep_the_rule() -> None:
    """Each part is a release of its own, close to itself."""
    bound = bound_by(
        False, {"closeness": {"distance": "equal", "t": 0.35}}, max_window_rows=60, max_delay="1h"
    )
    found = whole(feed(300, 80, [0.5, 0.3, 0.2]), bound)
    assert len({each["release_id"] for each in found.released.to_pylist()}) > 2
    by_release: dict[str, list[float]] = defaultdict(list)
    for each in found.released.to_pylist():
        by_release[each["release_id"]].append(each["amount"])
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for each in found.released.to_pylist():
        groups[each["release_id"], repr((each["age"], each["job"]))].append(each["amount"])
    for (release, _), values in groups.items():
        assert naive.distance(values, by_release[release], "equal") <= 0.35 + 1e-8
