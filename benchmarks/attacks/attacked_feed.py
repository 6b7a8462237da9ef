"""The feeds that are attacked, released as the product releases them, with the truth kept apart from what is public.

``attacked_windows`` calls ``release_window`` as the stateful step does and listens to the solver and the publisher, so
that an attack can be given what the promise grants its attacker (every quasi-identifier, every member of every slot)
and be judged by what it is not given (which record a payload came from).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import kanonflow.transforms.protections.afresh as module
import kanonflow.transforms.release.issue as issuing
from benchmarks.attacks.attacked_release import AttackedRelease
from benchmarks.call_log import watch
from benchmarks.data_sets import SPARKOV, Feed, Window, data_path, example_policy, read_feed
from benchmarks.one_window import release_window
from kanonflow.pipelines.commands.demo_feed import FeedShape, demo_feed
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy, to_mapping
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.split import window_bounds, window_numbers
from kanonflow.transforms.secret.seeds import ReleaseSlot, Secret
from kanonflow.transforms.solver_check import check_solver

PARTITION = b"attacked"
EVALUATIONS = 200
"""Of the search, a row: less than the product's default, which changes boxes and not promises."""


FIRST_DAY = 50


class Source(NamedTuple):
    """A feed's example policy, and its fields: whose a row is, and what names a row (opaque to an attacker)."""

    policy: str
    person: str
    name: str


DEMO = Source("transactions", "customer", "transaction_id")
CARDS = Source("sparkov", "cc_num", "trans_num")

ROWS, PEOPLE, CLASSES = "rows", "row mode", "classes"
"""Each record its own individual; single rows of individuals; closed classes."""
_HEADS: dict[str, dict[str, str]] = {
    ROWS: {"protect": "row"},
    PEOPLE: {"protect": "row"},
    CLASSES: {"protect": "individual", "cohort": "window"},
}


class NotAvailableError(Exception):
    """The policy refuses what an attack wants to try; the message says what."""


def attacked_policy(source: Source, mode: str, fields: dict[str, Any] | None = None, **head: Any) -> Policy:
    """The example policy of a feed in one of the modes, with a short search and rows that keep their names.

    fields: keys to add to single fields. head: keys of the policy to replace.
    Raises NotAvailableError: this version's policy refuses it.
    """
    mapping = to_mapping(example_policy(source.policy))
    for key in ("protect", "cohort", "cohort_size", "intake", "intake_share", "max_outdated"):
        mapping.pop(key, None)
    mapping["solver"] = {"evaluations_per_row": EVALUATIONS, "threads": 1}
    mapping["fields"][source.name] = {"role": "insensitive"}
    if mode == ROWS and source.person:
        mapping["fields"][source.person] = {"role": "identifier"}
    for name, more in (fields or {}).items():
        mapping["fields"][name] = mapping["fields"][name] | more
    try:
        policy = parse_policy(mapping | _HEADS[mode] | head, source.policy, source.policy)
        check_solver(policy)
    except PolicyError as error:
        asked = ", ".join([mode, *(f"{key}: {value}" for key, value in head.items()), *(fields or {})])
        raise NotAvailableError(f"{asked}: not available, the policy refuses it") from error
    return policy


@lru_cache(maxsize=4)
def _demo_table(shape: FeedShape) -> pa.Table:
    return demo_feed(shape)


def demo(shape: FeedShape, policy: Policy) -> Feed:
    """The made-up feed under a policy, as a stream sees it: a row that comes late comes with a later window's."""
    table = _demo_table(shape)
    bound = bind(policy, table.schema, text=False, source="the demo feed")
    rows = classify(table.select(list(bound.input_columns)), bound).rows
    arrives_in = np.maximum.accumulate(own_windows(rows, bound))
    windows = [
        Window(number, window_bounds(number, policy)[1], rows.filter(pa.array(arrives_in == number)))
        for number in np.unique(arrives_in).tolist()
    ]
    return Feed(bound, windows)


def cards(days: int, policy: Policy) -> Feed:
    """Days of sparkov, from its 51st on: in the first ones nearly all transactions are of very few categories.

    Raises MissingDataError.
    """
    feed = read_feed(data_path(SPARKOV), policy, days=FIRST_DAY + days)
    return feed._replace(windows=feed.windows[FIRST_DAY:] or feed.windows[-days:])


def numbered_secret(number: int) -> Secret:
    """A secret that makes a benchmark repeat; nothing released under it is private."""
    return Secret(hashlib.sha256(f"attacked {number}".encode()).digest())


class AttackedWindow(NamedTuple):
    """One window of a chain: what ``release_window`` was given and returned, and the release as an attacker has it."""

    rows: pa.Table
    before: WarmState
    slot: ReleaseSlot
    result: WindowResult
    release: AttackedRelease | None


def attacked_windows(
    feed: Feed, source: Source, secret: Secret, *, distances: bool = True
) -> Iterator[AttackedWindow]:
    """Release the windows of a feed one after the other, each warmed by the one before; one thread.

    distances: whether an attack wants those of the records; they take O(n^2).
    """
    warm = WarmState()
    names = pa.concat_tables([window.rows.select([source.name]) for window in feed.windows])[source.name]
    arrival = {name: place for place, name in enumerate(names.to_pylist())}
    for number, window in enumerate(feed.windows):
        slot = ReleaseSlot(PARTITION, window.end_ms, number)
        with watch((module, ["solve"]), (issuing, ["publish"])) as log:
            result = release_window(window.rows, feed.bound, warm, secret, slot, threads=1)
        release = None
        if result.release is not None:
            solved, published = log.of("solve")[-1], log.of("publish")[-1]
            rows, structure = published.args[:2]
            release = AttackedRelease.of(
                rows, structure, published.result, solved.args[0].table, feed.bound.policy.k,
                people=people_of(rows, feed.bound, source),
                arrival=np.array([arrival[name] for name in rows[source.name].to_pylist()]),
                own_window=own_windows(rows, feed.bound),
                name=source.name, distances=distances,
            )  # fmt: skip
        yield AttackedWindow(window.rows, warm, slot, result, release)
        warm = result.warm


def people_of(rows: pa.Table, bound: BoundPolicy, source: Source) -> np.ndarray:
    """Whom each record belongs to, int64 (n,), numbered from 0; each to itself when the policy names nobody."""
    if bound.policy.individual is None:
        return np.arange(rows.num_rows)
    encoded = rows[source.person].combine_chunks().dictionary_encode()
    return np.asarray(encoded.indices).astype(np.int64)


def person_names(rows: pa.Table, source: Source) -> list[str]:
    """The names of the people that ``people_of`` numbers."""
    return rows[source.person].combine_chunks().dictionary_encode().dictionary.to_pylist()


def own_windows(rows: pa.Table, bound: BoundPolicy) -> np.ndarray:
    """Number of each record's own window, int64 (n,)."""
    time = bound.policy.time
    if time is None:
        return np.zeros(rows.num_rows, dtype=np.int64)
    return window_numbers(rows[time.name].combine_chunks(), bound.policy)
