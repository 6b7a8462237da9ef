"""The window that a draft begins with is the one that explain has nothing against."""

from __future__ import annotations

import csv
import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

from kanonflow.pipelines.commands.demo_feed import FeedShape, write_feed
from kanonflow.pipelines.commands.draft import draft_from_input
from kanonflow.pipelines.dry_run.feed import read_feed
from kanonflow.pipelines.dry_run.measures import saved, worthwhile
from kanonflow.pipelines.explain.advised_window import advised_window
from kanonflow.pipelines.feeds.input_files import find_inputs, input_schema
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.policy_file import parse_policy

DAY = 86_400_000
"""ms."""


def test_the_shortest_that_brings_most_of_the_best_is_worth_it() -> None:
    """Two thirds of what the best saves; nothing where that is less than one in twenty."""
    assert worthwhile({7: 0.3, 28: 0.9}) == [28]
    assert worthwhile({7: 0.6, 28: 0.9}) == [7, 28]
    assert worthwhile({7: 0.04, 28: 0.049}) == []
    assert worthwhile({}) == []
    assert saved(0.4, 0.1) == pytest.approx(0.75)
    assert saved(0.0, 0.1) == 0.0


def clients(people: int, days: int, bookings: int) -> Iterator[tuple[str, ...]]:
    """A bank's rows: so many people and bookings, over so many days."""
    rng = np.random.default_rng(4)
    born = [dt.date(1935, 1, 1) + dt.timedelta(days=int(each)) for each in rng.integers(0, 25_000, people)]
    town = rng.integers(30, size=people)
    for when in np.sort(rng.random(bookings) * days):
        who = int(rng.integers(people))
        at = dt.datetime(2023, 1, 2) + dt.timedelta(days=float(when))
        amount = f"{rng.lognormal(4, 1):.2f}"
        yield (at.strftime("%Y-%m-%d %H:%M:%S"), f"K{who:05}", str(born[who]), f"Town {town[who]}", amount)


@pytest.fixture
def thin(tmp_path: Path) -> Path:
    """Four hundred people who book every third week."""
    path = tmp_path / "thin.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("booked_at", "client", "birth_date", "district", "amount"))
        writer.writerows(clients(400, 120, 2_400))
    return path


def bound_to(path: Path, policy: str) -> BoundPolicy:
    """A policy of a file."""
    schema = input_schema(find_inputs([str(path)]))
    return bind(parse_policy(yaml.safe_load(policy), "", "test"), schema.columns, text=True, source="test")


def test_a_thin_feed_is_drafted_with_longer_windows(thin: Path) -> None:
    """The draft says what each would lose, and the window is one that explain would not make longer."""
    draft = draft_from_input([str(thin)], answered=True)
    bound = bound_to(thin, draft)
    assert (bound.policy.window_ms or 0) > DAY
    assert bound.policy.window_offset_ms == 4 * DAY, "weeks begin on Mondays"
    assert "window_offset: 4d  # weeks begin on Mondays" in draft
    assert "window: played over the feed" in draft
    assert draft.count("# window: ") == 1
    rows = read_feed(find_inputs([str(thin)]), bound).rows
    again = advised_window(rows, bound)
    assert again is None or again.bound.policy.window_ms == bound.policy.window_ms


def test_the_readmes_recipe_is_the_one_that_explain_would_have(tmp_path: Path) -> None:
    """On the feed that it is made for."""
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    policy = readme.partition("```yaml\n")[2].partition("```")[0]
    path = write_feed(FeedShape(rows=20_000, days=14, seed=1), tmp_path)
    assert bound_to(path, policy).policy.window_ms == DAY
    # Two weeks are too short to try a longer one; from an hour on the rule comes to a day.
    bound = bound_to(
        path, policy.replace("window: 1d", "window: 1h").replace("max_delay: 2d", "max_delay: 2h")
    )
    assert bound.policy.window_ms == DAY // 24
    advised = advised_window(read_feed(find_inputs([str(path)]), bound).rows, bound)
    assert advised is not None
    assert advised.bound.policy.window_ms == DAY
    assert advised.bound.policy.max_delay_ms == 2 * DAY
