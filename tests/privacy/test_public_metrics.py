"""What can be computed from public metrics: nothing about rows that a release does not show.

Each attack is run on the exact records first, where it must succeed: an attacker who fails everywhere shows nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kanonflow.schemas.avro_schema import metrics_schema
from kanonflow.transforms.release.public_metrics import (
    public_metrics,
    public_metrics_schema,
    shared_rows,
    shown,
)
from tests.driven_partitions import DrivenPartitions
from tests.pass_through import metrics_record
from tests.small_feeds import SECRET, Row, bound_feed, feed_policy, row

Record = Mapping[str, Any]

CLASSES = {
    "as_is": "release_id policy window_start window_end k protect cohort rows_released epoch against publish_member"
    " publish_group values",
    "rounded": "gcp ncp",
    "count": "individuals classes",
    "ledger": "rows_waiting rows_rejected waiting_reasons",
    "withheld": "partition release_no released digest kind solver start warm rows_new rows_waited waiting_shared"
    " rejected_shared gcp_hull release_gcp release_ncp sil loss_start loss_end lower_bound warm_loss cold_loss"
    " warm_kept lattice_nodes nodes_seeded last_cold_evaluations evaluations deadline_struck solve_ms publish_ms"
    " peer_retention linked_candidates guaranteed_candidates candidates_min tied_edges diversity domains versions"
    " epoch_diversity epoch_against loss_without_rules"
    " cohorts people_known pool people_entered groups_merged groups_kept epoch_candidates gcp_newcomers"
    " outdated_values activity_candidates rows_over_share candidates_of_rows candidates_of_people"
    " changed_before_entry purchase_candidates chain_place state_bytes job_start c_avg dm levels log los",
}
SCHEMA = metrics_schema()
EVALUATIONS = 20  # a row, as feed_policy has them
SURPLUSES = (0, 1, 2, 6)


def published(record: Record) -> dict[str, Any]:
    """What of a record is public."""
    return public_metrics(record, SCHEMA)


def window(rows: list[Row], **policy: Any) -> dict[str, Any]:
    """The record of the one release of a feed."""
    step = DrivenPartitions(bound_feed(feed_policy(**policy)), SECRET)
    step.send(rows)
    step.finish()
    (record,) = (record for record in step.metrics if record["released"])
    return record


def crowd(people: int, surplus: int) -> list[Row]:
    """One row of each, and of one person some more."""
    owners = [*range(people), *[0] * surplus]
    return [row(number, who, 0.01 * number) for number, who in enumerate(owners)]


@pytest.fixture(scope="module")
def windows() -> list[tuple[int, dict[str, Any]]]:
    """(rows left out, exact record) of windows of 30 to 39 people, of whom one has up to 6 rows too many."""
    records = [window(crowd(*made)) for made in itertools.product(range(30, 40), SURPLUSES)]
    return [(sum(record["rows_rejected"].values()), record) for record in records]


def left_out_by_losses(record: Record) -> float | None:
    """loss_end = w + (1 - w) gcp_hull, where w is the share of the rows that were left out."""
    if any(record.get(name) is None for name in ("loss_end", "gcp_hull")):
        return None
    share = (record["loss_end"] - record["gcp_hull"]) / (1 - record["gcp_hull"])
    return record["rows_released"] * share / (1 - share)


def left_out_by_effort(record: Record) -> float | None:
    """The search takes so many evaluations a row of the window, released or not."""
    effort = record.get("evaluations")
    return None if effort is None else effort / EVALUATIONS - record["rows_released"]


def left_out_by_the_ledger(record: Record) -> float | None:
    """Rows in less rows out."""
    if record.get("rows_new") is None or record.get("rows_waited") is None:
        return None
    return record["rows_new"] + record["rows_waited"] - record["rows_released"]


def left_out_as_said(record: Record) -> float | None:
    """The counts that stand there."""
    rejected = record.get("rows_rejected")
    return None if rejected is None else record["rows_waiting"] + sum(rejected.values())


def left_out_by_discernibility(record: Record) -> float | None:
    """dm = sum of the classes' squares + r (released + r): solved for r. Sizes of classes can be counted in the boxes;
    here a person has one row, so they are those of the candidates."""
    if record.get("dm") is None:
        return None
    rows = record["rows_released"]
    squares = sum(int(size) * people for size, people in record["candidates_of_people"].items())
    return float((np.sqrt(rows**2 + 4 * (record["dm"] - squares)) - rows) / 2)


ATTACKS = (
    left_out_by_losses,
    left_out_by_effort,
    left_out_by_the_ledger,
    left_out_by_discernibility,
    left_out_as_said,
)


def test_every_metric_has_a_class() -> None:
    """A field that is added to metrics.avsc says how it is shown, and is entered here."""
    assert all("public" in field for field in SCHEMA["fields"])
    told = {field["name"]: str(shown(field)) for field in SCHEMA["fields"]}
    assert told == {name: kind for kind, names in CLASSES.items() for name in names.split()}


def test_a_metric_without_a_class_is_withheld() -> None:
    """The list is of what may be shown; a class that there is not is an error, not a way out."""
    fields = [field for field in SCHEMA["fields"] if field["name"] in ("release_id", "k")]
    more = {"fields": [*fields, {"name": "evaluations", "type": "long"}]}
    assert public_metrics(metrics_record("ab"), more) == {"release_id": "ab", "k": 5}
    assert [field["name"] for field in public_metrics_schema(more)["fields"]] == ["release_id", "k"]
    wrong = {"fields": [{"name": "gcp", "type": "double", "public": "roundet"}]}
    with pytest.raises(ValueError, match="roundet"):
        public_metrics(metrics_record("ab"), wrong)


@pytest.mark.parametrize("attack", ATTACKS)
def test_left_out_rows_cannot_be_computed(
    attack: Callable[[Record], float | None], windows: list[tuple[int, dict[str, Any]]]
) -> None:
    """Each formula gives one person's surplus rows from the exact record, and from the public one nothing: no
    number, or the same one whatever the surplus."""
    errors = [abs((attack(record) or 0.0) - hidden) for hidden, record in windows]
    assert max(errors) < (2 if attack is left_out_by_effort else 1e-6)
    assert {attack(published(record)) for _, record in windows} <= {None, 0}


def numbers(record: Record, prefix: str = "") -> dict[str, float]:
    """Every number of a record, those in maps by their keys, those not there as 0 and a mark."""
    found: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            found |= numbers(value, f"{prefix}{name}.")
        elif isinstance(value, bool | int | float) and name not in ("solve_ms", "publish_ms"):
            found[prefix + name] = float(value)
    return found


def features(records: list[Record]) -> NDArray[np.float64]:
    """Standardized numbers of records, and a one; what never varies is left out. float64 (n, features)."""
    rows = [numbers(record) for record in records]
    names = sorted({name for each in rows for name in each})
    table = np.array([[each.get(name, 0.0) for name in names] for each in rows])
    table = table[:, table.std(axis=0) > 0]
    return np.column_stack([(table - table.mean(axis=0)) / table.std(axis=0), np.ones(len(rows))])


def error_of_a_regression(records: list[Record], hidden: list[float]) -> float:
    """Root mean square error of the best linear guess, learnt from every window but four at a time."""
    table, target = features(records), np.array(hidden)
    fold = np.arange(len(hidden)) // len(SURPLUSES) % 4
    guess = np.empty(len(hidden))
    for number in range(4):
        known = fold != number
        weights = np.linalg.lstsq(table[known], target[known], rcond=1e-9)[0]
        guess[~known] = table[~known] @ weights
    return float(np.sqrt(np.mean((guess - target) ** 2)))


def test_no_regression_over_windows_gives_left_out_rows(windows: list[tuple[int, dict[str, Any]]]) -> None:
    """Learnt from windows whose left-out rows are known, all public numbers together guess those of others no better
    than somebody who always says the mean; the exact ones tell them."""
    hidden = [float(rows) for rows, _ in windows]
    blind = float(np.std(hidden))
    assert error_of_a_regression([record for _, record in windows], hidden) < 0.1
    assert error_of_a_regression([published(record) for _, record in windows], hidden) > 0.9 * blind


def test_totals_over_windows_do_not_average_a_surplus_out(windows: list[tuple[int, dict[str, Any]]]) -> None:
    """Rows that arrived, rounded, less rows released, exact: each window rounds at another place, so the mean of the
    difference is that of the rows left out. Hence they are withheld, and what is public adds up to nothing."""
    hidden = float(np.mean([each for each, _ in windows]))
    rounded = [round(record["rows_new"] / 10) * 10 - record["rows_released"] for _, record in windows]
    assert float(np.mean(rounded)) == pytest.approx(hidden, abs=1.5)
    assert hidden > 2
    records = [published(record) for _, record in windows]
    assert not {"rows_new", "rows_waited"} & records[0].keys()
    assert {left_out_as_said(record) for record in records} == {0}


def test_a_surplus_of_one_person_is_not_counted() -> None:
    """However many rows one person has beyond the others, alone or among people with one each."""
    for others in (0, 1, 2, 3, 40):
        told = {
            surplus: shared_rows(
                ["late"] * (others + surplus), [*range(1, others + 1), *[0] * surplus], 3
            ).get("late", 0)
            for surplus in (1, 2, 6, 500)
        }
        assert set(told.values()) == {others + 1 if others >= 2 else 0}


def test_counts_are_those_that_k_people_share() -> None:
    """By hand, k = 3: of 5, 4, 2 and 1 rows, nobody counts for more than 2; each row its own person without
    individuals."""
    owners = [who for who, count in enumerate((5, 4, 2, 1)) for _ in range(count)]
    assert shared_rows(["late"] * 12, owners, 3) == {"late": 2 + 2 + 2 + 1}
    assert shared_rows(["late"] * 4 + ["full"] * 2, None, 3) == {"full": 0, "late": 4}
    assert shared_rows([], None, 3) == {}


@pytest.mark.parametrize("k", [3, 25])
def test_the_ledger_is_known_to_a_step_and_no_better(k: int) -> None:
    """Hidden counts of one step, by reason, give one and the same record; totals are sums of what is shown, so they
    tell no more than their parts; differences of windows are multiples of the step."""
    step = max(10, k)
    seen: dict[str, set[tuple[int, int]]] = {}
    for late, full in itertools.product(range(0, 3 * step, 3), repeat=2):
        parts = {"late": late, "full": full}
        record = published(metrics_record("a", k=k, waiting_shared=parts, rejected_shared=parts))
        assert record["rows_waiting"] == sum(record["waiting_reasons"].values())
        assert record["waiting_reasons"] == record["rows_rejected"]
        counts = record["waiting_reasons"].values()
        assert all(count > 0 and count % step == 0 for count in counts)
        seen.setdefault(repr(record), set()).add((late // step, full // step))
    assert len(seen) == 9
    assert all(len(cells) == 1 for cells in seen.values())


def test_what_is_withheld_has_no_say() -> None:
    """Whatever the hidden figures are, the public record is the same."""
    record = metrics_record("a", rows_released=20, individuals=20, protect="individual")
    other: dict[str, Any] = dict.fromkeys(CLASSES["withheld"].split(), 12.5)
    other |= {"waiting_shared": {}, "rejected_shared": {}}
    other |= {"release_gcp": record["release_gcp"], "release_ncp": record["release_ncp"], "released": True}
    hidden = {"rows_rejected": {"late": 3}, "waiting_reasons": {"full": 6}, "rows_waiting": 6, "gcp": 0.7}
    assert published({**record, **other, **hidden}) == published(record)


def ages(*values: int | None, hour: int = 0, trades: tuple[str | None, ...] = ("baker",)) -> list[Row]:
    """A class of people of these ages."""
    return [
        row(
            100 * hour + who,
            who,
            hour + 0.1,
            age=None if age is None else str(age),
            job=trades[who % len(trades)],
        )
        for who, age in enumerate(values)
    ]


def test_snapping_is_not_undone() -> None:
    """The exact loss gives a hull's width back; the public one is that of the box, wherever the hull ends in it."""
    near, far = window(ages(3, 60, 117)), window(ages(4, 60, 113))
    # Two fields of equal weight, one of them without loss.
    assert [round(2 * record["gcp_hull"] * 120) for record in (near, far)] == [114, 109]
    assert published(near)["ncp"] == published(far)["ncp"] == {"age": 1.0, "job": 0.0}
    assert published(near)["gcp"] == published(far)["gcp"] == 0.5


def test_losses_under_running_domains_are_withheld() -> None:
    """A published box over its loss is the domain's width, and running domains end at somebody's value."""
    record = window(ages(3, 60, 117), running=True)
    assert record["ncp"]["age"] > 0
    assert (published(record)["gcp"], published(record)["ncp"]) == (None, {})


def test_losses_tell_of_no_null_that_is_not_published() -> None:
    """Once a null was seen, a declared domain has one value more, and the exact loss of later windows shows it."""
    trades = ("baker", "clerk", "nurse", "smith", "baker")
    later = ages(20, 20, 20, 20, 20, hour=1, trades=trades)
    records = []
    for first in (("baker", "clerk", None, "smith", "baker"), trades):
        step = DrivenPartitions(bound_feed(feed_policy()), SECRET)
        step.send([*ages(20, 20, 20, 20, 20, trades=first), *later])
        step.finish()
        records.append([record for record in step.metrics if record["released"]][1])
    assert records[0]["ncp"]["job"] != records[1]["ncp"]["job"]
    assert published(records[0])["ncp"] == published(records[1])["ncp"] == {"age": 0.0, "job": 0.2}


def test_row_mode_does_not_count_people() -> None:
    """Rows less people are one person's surplus there: row mode publishes it, within what k can hide."""
    record = window(crowd(30, 6), protect="row")
    assert record["rows_released"] - record["individuals"] == 6
    assert (published(record)["individuals"], published(record)["rows_released"]) == (None, 36)
    shared = published(window(crowd(30, 6)))
    assert (shared["individuals"], shared["rows_released"]) == (30, 30)


def test_nothing_is_public_of_a_window_without_a_release() -> None:
    """That it was there at all says that rows of fewer than k people were."""
    with pytest.raises(ValueError, match="released nothing"):
        published(metrics_record("a", released=False))
