"""What the stages of a release hand on, in their order: candidates, an answer over them, what of it goes out.

    gather -> Gathered    admit -> Admitted    solve -> Solved(Answer)    issue -> Issued(Publication)    leave -> Left

Each also says which rows it takes out of the release, and why (``Unreleased``); nothing else leaves a stage. A
protection whose stages have more to hand on adds it to what they return.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.solvers.solution import Solution
from kanonflow.transforms.columns.encode import Encoded
from kanonflow.transforms.publishing.frozen_groups import FrozenGroups
from kanonflow.transforms.publishing.publish import Published
from kanonflow.transforms.release.ledger import Unreleased, picked
from kanonflow.transforms.release.warm_state import Events, WarmState
from kanonflow.transforms.roster.roster import Roster, empty_roster
from kanonflow.transforms.rows.elements import MatchingRecord, Release

NOBODY = empty_roster(0)
"""Whom a partition knows whose protection keeps no roster."""


class Before(NamedTuple):
    """What the windows before have left. warm: the state. roster: who is known."""

    warm: WarmState
    roster: Roster = NOBODY


@dataclass(frozen=True)
class Gathered:
    """The new rows and those that waited.

    rows: canonical rows in canonical order, n of them; of rows with one event id, one.
    origin: int64 (n,), where each stood before: waiting rows first, then the new ones.
    events: event ids seen lately, these rows' included.
    new, waited: how many rows came, and how many waited before.
    unreleased: rows that wait for another part of the window, and repeats.
    """

    rows: pa.Table
    origin: NDArray[np.int64]
    events: Events
    new: int
    waited: int
    unreleased: Unreleased


@dataclass(frozen=True)
class Admitted:
    """rows: canonical rows that can be released together, in canonical order; none at all, or of k individuals or more.

    unreleased: rows that are late, of too few individuals, or more than enough other individuals have.
    """

    rows: pa.Table
    unreleased: Unreleased


class People(NamedTuple):
    """Whom rows belong to.

    of_row: int64 (n,), the individual of each row; None where each row is its own individual.
    digests: uint64 (u,), keyed, of each individual; they only look things up in the warm state.
    """

    of_row: NDArray[np.int64] | None
    digests: NDArray[np.uint64]


@dataclass(frozen=True)
class Answer:
    """What the solver made of admitted rows.

    rows: the n canonical rows that were solved.
    people: whom they belong to.
    encoded: the rows as numbers, and the domains that scaled them.
    solution: the structure over the n rows, and what it took.
    solve_ms: wall-clock time of all that.
    content: the digest of ``rows``, which the words of the publication are derived from.
    frozen: with ``cohort: lasting``, the boxes that stand in the place of the rows' own values.
    """

    rows: pa.Table
    people: People
    encoded: Encoded
    solution: Solution
    solve_ms: float
    content: bytes
    frozen: FrozenGroups | None = None

    @cached_property
    def kept(self) -> NDArray[np.bool_] | None:
        """The rows that the structure releases, bool (n,); None: all of them."""
        return self.solution.structure.kept

    @cached_property
    def released(self) -> pa.Table:
        """Those rows, in canonical order."""
        return self.rows if self.kept is None else picked(self.rows, self.kept)


@dataclass(frozen=True)
class Solved:
    """answer: None where there was nothing to solve, or nothing that meets the rules for sensitive values.

    unreleased: rows that the structure leaves out.
    """

    answer: Answer | None = None
    unreleased: Unreleased = field(default_factory=Unreleased)


@dataclass(frozen=True)
class Publication:
    """What goes out, and stays behind of it.

    answer: what it was made of.
    release: for the sink.
    matching_record: of the release, where one was asked for.
    published: its rows, boxes and matching.
    publish_ms: wall-clock time of boxes, gate and publishing.
    """

    answer: Answer
    release: Release
    matching_record: MatchingRecord | None
    published: Published
    publish_ms: float


@dataclass(frozen=True)
class Issued:
    """publication: None where nothing was kept, or the gate refused it.

    unreleased: rows that the gate refused.
    """

    publication: Publication | None = None
    unreleased: Unreleased = field(default_factory=Unreleased)


class Left(NamedTuple):
    """What a window leaves beside its rows. What waits, and the event ids seen, are added to the state by ``account``.

    warm: the state. release: what went out, with what comes along with it; None: nothing did.
    told: further metrics. roster: who is known now; segment: what it grew by, as bytes, None: by nothing.
    """

    warm: WarmState
    release: Release | None
    told: Mapping[str, Any] = {}
    roster: Roster | None = None
    segment: bytes | None = None
