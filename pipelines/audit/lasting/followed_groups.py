"""Which cohorts stand in each group? Followed is a group for which only one set of whole cohorts is left.

    due_releases     in which release each record went out
    points_in_boxes  which cohorts lie in each group's box
    cohort_cover     which sets of them have the group's rows, every other being excluded

A set is one that, with sets for all other groups of the release, puts every cohort with rows there into one group; that
brings each payload as often as the group has it; whose rows are of the group's window, whose boxes explain its box, and
of which k people have rows. Groups with one set by rows alone are judged by name; where none is left the release fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kanonflow.pipelines.audit.judge.held import readable_values
from kanonflow.pipelines.audit.judge.lines import unexplained
from kanonflow.pipelines.audit.judge.people_counted import people_of_pairs
from kanonflow.pipelines.audit.lasting.class_numbers import judge_order
from kanonflow.pipelines.audit.lasting.cohort_cover import (
    UNBOUNDED,
    Cover,
    Narrowed,
    OutOfStepsError,
    Steps,
    Wish,
    fitting_sets,
    narrow,
    possible_sets,
)
from kanonflow.pipelines.audit.lasting.due_releases import Due, Rows, due_releases
from kanonflow.pipelines.audit.lasting.frozen_hulls import hull_faults, judge_hulls, note_groups
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround, Payloads
from kanonflow.pipelines.audit.read.boxes import encode_records
from kanonflow.pipelines.audit.read.equal_rows import extreme, group_rows, runs
from kanonflow.pipelines.audit.read.findings import Findings

_MOST_SETS = 512
_STEPS_OF_A_GROUP = 20_000
_STEPS = 200_000
_STEPS_OF_A_ROW = 10
_MOST_VALUES = 64


@dataclass(frozen=True)
class Followed:
    """groups: bool (g,). rows: released rows in them. people: of whom all rows are in them.
    counts: int64 (releases, 2), least and most people of each release; 0 and no bound where faults were named.
    sets: pairs of a group that is followed and a cohort of its own."""

    groups: np.ndarray
    rows: int
    people: int
    counts: np.ndarray
    sets: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class _Visits:
    """v visits of a cohort in a release. release, cohort: int64 (v,). certain: bool (v,), it has a row there for sure.
    first, last: int64 (v,), window ends of its certain rows; first_any, last_any: of all that may be there.
    people, people_any: distinct people, for sure and at most. visit, number, least, most: int64 (e,), its payloads."""

    release: np.ndarray
    cohort: np.ndarray
    certain: np.ndarray
    first: np.ndarray
    last: np.ndarray
    first_any: np.ndarray
    last_any: np.ndarray
    people: np.ndarray
    people_any: np.ndarray
    visit: np.ndarray
    number: np.ndarray
    least: np.ndarray
    most: np.ndarray


def follow_groups(
    ground: LastingGround,
    payloads: Payloads,
    held: tuple[np.ndarray, np.ndarray],
    spoiled: np.ndarray,
    findings: Findings,
    *,
    waiting: bool,
) -> Followed:
    """Follow every group, and judge those that are. held: pairs of a group and a cohort in its box. spoiled: bool
    (releases,), with faults that were named: nothing is followed there. waiting: rows may be in no release yet.

    O(rows + pairs held times payloads) but for sorting, and a number of steps of search that is linear in the rows.
    """
    groups = ground.groups
    none = np.zeros(len(groups.release), bool)
    rows = Rows(*payloads.units(groups))
    record = payloads.record[ground.person[payloads.record] >= 0]
    number = payloads.number[ground.person[payloads.record] >= 0]
    person = ground.person[record]
    due = due_of(ground, payloads, waiting=waiting)
    counts = people_of_pairs(due.release, person[due.record], due.certain, len(ground.heads))
    counts[spoiled] = 0, np.iinfo(np.int64).max
    if not len(due.record):
        return Followed(none, 0, 0, counts, (np.zeros(0, np.int64),) * 2)
    visits = _visits(ground, due, record, number)
    search = _Search(ground, rows, visits, held, spoiled)
    followed, group, visit = search.run(findings)
    if not waiting:
        search.judge_visits(findings)
    told = _judge(ground, visits, followed, group, visit, findings)
    oldest = np.full(len(told), np.nan)
    np.fmin.at(oldest, group, visits.cohort[visit].astype(float))
    judge_order(ground, {"their oldest cohort": oldest}, findings)
    inside = told[groups.of_row]
    people = _people_followed(ground, due, person, visits, told, group, visit)
    own = told[group]
    return Followed(told, int(inside.sum()), people, counts, (group[own], visits.cohort[visit][own]))


def due_of(ground: LastingGround, payloads: Payloads, *, waiting: bool) -> Due:
    """In which releases the records that were not rejected, of people who entered, may be; as of ``due_releases``."""
    record = payloads.record[ground.person[payloads.record] >= 0]
    person = ground.person[record]
    return due_releases(
        Rows(*payloads.units(ground.groups)),
        ground.windows,
        payloads.number[ground.person[payloads.record] >= 0],
        ground.end[record],
        ground.entry[person],
        lambda at, release: ground.tree.covers(
            ground.partition[release], ground.rosters.partition[person[at]]
        ),
        waiting=waiting,
    )


def _visits(ground: LastingGround, due: Due, record: np.ndarray, number: np.ndarray) -> _Visits:
    person = ground.person[record[due.record]]
    cohort = ground.rosters.cohort[person]
    first, visit, _ = group_rows(np.column_stack([due.release, cohort]))
    visit = visit.astype(np.int64)
    count = len(first)
    end = ground.end[record[due.record]]
    sure = due.certain
    entries, entry, most = group_rows(np.column_stack([visit, number[due.record]]))
    people, each, _ = group_rows(np.column_stack([visit, person]))
    seen = np.zeros(len(people), bool)
    seen[each[sure]] = True
    certain = np.zeros(count, bool)
    certain[visit[sure]] = True
    return _Visits(
        due.release[first],
        cohort[first],
        certain,
        extreme(np.minimum, visit[sure], end[sure], count),
        extreme(np.maximum, visit[sure], end[sure], count),
        extreme(np.minimum, visit, end, count),
        extreme(np.maximum, visit, end, count),
        np.bincount(visit[people][seen], minlength=count),
        np.bincount(visit[people], minlength=count),
        visit[entries],
        number[due.record][entries],
        np.bincount(entry[sure], minlength=len(entries)),
        most,
    )


class _Search:
    """The sets of cohorts of all groups, narrowed step by step."""

    def __init__(
        self,
        ground: LastingGround,
        rows: Rows,
        visits: _Visits,
        held: tuple[np.ndarray, np.ndarray],
        spoiled: np.ndarray,
    ) -> None:
        self._ground, self._visits, self._spoiled = ground, visits, spoiled
        self._count = len(ground.groups.release)
        self._steps = Steps(_STEPS + _STEPS_OF_A_ROW * int(rows.count.sum()))
        self._unexplained = np.zeros(len(ground.heads), bool)
        self._cover = self._by_rows(rows, *held)
        self._narrowed = narrow(self._cover, self._count)

    def _by_rows(self, rows: Rows, group: np.ndarray, cohort: np.ndarray) -> Cover:
        """Demands of payload alone, of pairs whose times fit."""
        groups, visits = self._ground.groups, self._visits
        total = len(self._ground.rosters.members)
        asked = groups.release[group] * np.int64(total) + cohort
        keys = visits.release * total + visits.cohort
        visit = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        fits = (keys[visit] == asked) & ~self._spoiled[groups.release[group]]
        size = self._ground.policy.cohorts.window_ms
        fits &= ~visits.certain[visit] | (
            (visits.first[visit] >= groups.start[group] + size) & (visits.last[visit] <= groups.end[group])
        )
        group, visit = group[fits], visit[fits]
        borders = (np.searchsorted(visits.visit, visit, side) for side in ("left", "right"))
        pair, entry = runs(*borders)
        stride = int(max(rows.number.max(initial=0), visits.number.max(initial=0))) + 1
        units = rows.group * stride + rows.number
        wants = group[pair] * stride + visits.number[entry]
        at = np.minimum(np.searchsorted(units, wants), len(units) - 1)
        there = units[at] == wants
        whole = np.ones(len(group), bool)
        whole[pair[~there & (visits.least[entry] > 0)]] = False
        keep = there & whole[pair]
        renumbered = np.cumsum(whole) - 1
        return Cover(
            group[whole],
            visit[whole],
            visits.certain & ~self._spoiled[visits.release],
            rows.count,
            rows.count,
            rows.group,
            renumbered[pair[keep]],
            at[keep],
            visits.least[entry][keep],
            np.minimum(visits.most[entry][keep], UNBOUNDED),
        )

    def run(self, findings: Findings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bool (g,), groups with one set; and their cohorts, as pairs of a group and a visit."""
        cover = self._cover
        self._note(self._narrowed)
        open_ = self._open(self._narrowed)
        if open_.any():
            cover = self._with_boxes(open_)
            self._narrowed = narrow(cover, self._count, self._narrowed)
            self._note(self._narrowed)
        self._list_sets(cover)
        told = self._narrowed
        followed = ~self._open(told) & ~self._unexplained[self._ground.groups.release]
        followed &= ~self._spoiled[self._ground.groups.release]
        own = told.chosen & followed[cover.group]
        return followed, cover.group[own], cover.cohort[own]

    def judge_visits(self, findings: Findings) -> None:
        """Where every row of the input must be out: releases whose groups are no whole cohorts."""
        bad = self._unexplained & ~self._spoiled
        if bad.any():
            findings.add(
                f"{int(bad.sum())} releases whose groups no choice of whole cohorts explains, with the rows that their "
                "people have, k people in each, and the hulls of their frozen boxes",
                *(self._ground.heads[number].release_id for number in np.flatnonzero(bad).tolist()),
            )

    def _note(self, told: Narrowed) -> None:
        self._unexplained[self._ground.groups.release[told.refuted]] = True
        self._unexplained[self._visits.release[told.lost]] = True

    def _open(self, told: Narrowed) -> np.ndarray:
        open_ = np.zeros(self._count, bool)
        open_[self._cover.group[told.alive & ~told.chosen]] = True
        return open_

    def _with_boxes(self, open_: np.ndarray) -> Cover:
        """Also of open groups: k people, and a cohort at each end of the box."""
        cover, visits = self._cover, self._visits
        chosen = np.flatnonzero(open_)
        pair = np.flatnonzero(self._narrowed.alive & open_[cover.group])
        size = len(cover.low)
        place = np.searchsorted(chosen, cover.group[pair])
        sides = _sides(self._ground, cover.group[pair], visits.cohort[cover.cohort[pair]])
        demand, owner = [cover.demand, size + place], [cover.owner, chosen]
        pairs, least = [cover.pair, pair], [cover.least, visits.people[cover.cohort[pair]]]
        most = [cover.most, visits.people_any[cover.cohort[pair]]]
        low = [cover.low, np.full(len(chosen), self._ground.policy.k)]
        size += len(chosen)
        for side in sides:
            # An end that nobody explains alone is judged with the whole set.
            asked = np.unique(cover.group[pair[side]])
            at = np.flatnonzero(side)
            demand.append(size + np.searchsorted(asked, cover.group[pair[at]]))
            owner.append(asked)
            pairs.append(pair[at])
            least.append(np.ones(len(at), np.int64))
            most.append(np.ones(len(at), np.int64))
            low.append(np.ones(len(asked), np.int64))
            size += len(asked)
        added = size - len(cover.low)
        return replace(
            cover,
            low=np.concatenate(low),
            high=np.concatenate([cover.high, np.full(added, UNBOUNDED)]),
            owner=np.concatenate(owner),
            pair=np.concatenate(pairs),
            demand=np.concatenate(demand),
            least=np.concatenate(least),
            most=np.concatenate(most),
        )

    def _list_sets(self, cover: Cover) -> None:
        """Sets of the groups that are still open, one part of a release that shares cohorts after the other."""
        groups = self._ground.groups
        bad = self._unexplained | self._spoiled
        open_ = np.flatnonzero(self._open(self._narrowed) & ~bad[groups.release])
        sets: dict[int, list[frozenset[int]]] = {}
        wishes = _wishes(cover, self._narrowed, open_)
        for group in open_.tolist():
            try:
                sets[group] = self._listed(wishes[group])
            except OutOfStepsError:
                continue
        self._drop_unexplained_sets(cover, sets)
        for part in _parts({group: wishes[group] for group in open_.tolist()}):
            self._settle(cover, part, sets, wishes)

    def _listed(self, wish: Wish) -> list[frozenset[int]]:
        own = Steps(min(_STEPS_OF_A_GROUP, self._steps.left))
        granted = own.left
        try:
            return fitting_sets(wish, own, _MOST_SETS)
        finally:
            self._steps.left -= granted - own.left

    def _drop_unexplained_sets(self, cover: Cover, sets: dict[int, list[frozenset[int]]]) -> None:
        """Sets with which the box is no hull, or the window not that of the rows."""
        ground, visits = self._ground, self._visits
        told = self._narrowed
        base: dict[int, list[int]] = {group: [] for group in sets}
        for place in np.flatnonzero(told.chosen).tolist():
            if (group := int(cover.group[place])) in base:
                base[group].append(int(cover.cohort[place]))
        owner: list[int] = []
        members: list[int] = []
        group_of: list[int] = []
        for group, listed in sets.items():
            for one in listed:
                own = [*base[group], *one]
                owner += [len(group_of)] * len(own)
                members += own
                group_of.append(group)
        if not group_of:
            return
        group_at, at = np.array(group_of, np.int64), np.array(owner, np.int64)
        visit = np.array(members, np.int64)
        bad = _wrong_windows(ground, visits, group_at, at, visit)
        bad |= np.bincount(at, minlength=len(group_at)) == 0
        for _, _, wrong in hull_faults(ground, group_at, at, visits.cohort[visit]):
            bad |= wrong
        place = 0
        for group, listed in sets.items():
            kept = [one for number, one in enumerate(listed, place) if not bad[number]]
            place += len(listed)
            sets[group] = kept

    def _settle(
        self,
        cover: Cover,
        part: Sequence[int],
        sets: dict[int, list[frozenset[int]]],
        wishes: dict[int, Wish],
    ) -> None:
        known = [group for group in part if group in sets]
        elsewhere = {number for group in part if group not in sets for number, _ in wishes[group].brings}
        certain = frozenset(
            number
            for group in known
            for number, _ in wishes[group].brings
            if self._visits.certain[number] and number not in elsewhere
        )
        try:
            left = possible_sets([sets[group] for group in known], certain, self._steps)
        except OutOfStepsError:
            return
        for group, each in zip(known, left, strict=True):
            if not each:
                self._unexplained[self._ground.groups.release[group]] = True
            if len(each) == 1:
                own = np.flatnonzero((cover.group == group) & self._narrowed.alive)
                inside = np.isin(cover.cohort[own], list(each[0])) | self._narrowed.chosen[own]
                self._narrowed.chosen[own[inside]] = True
                self._narrowed.alive[own[~inside]] = False


def _wishes(cover: Cover, told: Narrowed, groups: np.ndarray) -> dict[int, Wish]:
    """What each of these groups still asks for, beside the cohorts that it has."""
    mine = told.chosen[cover.pair]
    low = cover.low - np.bincount(cover.demand[mine], weights=cover.most[mine], minlength=len(cover.low))
    high = cover.high - np.bincount(cover.demand[mine], weights=cover.least[mine], minlength=len(cover.low))
    asks = np.zeros(int(cover.owner.max(initial=-1)) + 1, bool)
    asks[groups] = True
    demands = np.flatnonzero(asks[cover.owner])
    order = np.argsort(cover.owner[demands], kind="stable")
    demands = demands[order]
    borders = (
        np.searchsorted(cover.owner[demands], groups),
        np.searchsorted(cover.owner[demands], groups, "right"),
    )
    place = np.zeros(len(cover.low), np.int64)
    lows: dict[int, list[int]] = {}
    highs: dict[int, list[int]] = {}
    for group, start, stop in zip(groups.tolist(), *map(np.ndarray.tolist, borders), strict=True):
        own = demands[start:stop]
        place[own] = np.arange(len(own))
        lows[group], highs[group] = low[own].astype(int).tolist(), high[own].astype(int).tolist()
    open_ = told.alive & ~told.chosen
    entries = np.flatnonzero(open_[cover.pair] & asks[cover.group[cover.pair]])
    brings: dict[int, dict[int, list[tuple[int, int, int]]]] = {group: {} for group in groups.tolist()}
    for pair in np.flatnonzero(open_ & asks[cover.group]).tolist():
        brings[int(cover.group[pair])][int(cover.cohort[pair])] = []
    told_of = zip(
        cover.group[cover.pair[entries]].tolist(),
        cover.cohort[cover.pair[entries]].tolist(),
        place[cover.demand[entries]].tolist(),
        cover.least[entries].tolist(),
        cover.most[entries].tolist(),
        strict=True,
    )
    for group, cohort, demand, least, most in told_of:
        brings[group][cohort].append((demand, least, most))
    return {
        group: Wish(
            tuple(lows[group]),
            tuple(highs[group]),
            tuple((cohort, tuple(each)) for cohort, each in brings[group].items()),
        )
        for group in groups.tolist()
    }


def _parts(wishes: dict[int, Wish]) -> list[list[int]]:
    """Groups that share cohorts, directly or over others."""
    parent = {group: group for group in wishes}

    def root(group: int) -> int:
        while parent[group] != group:
            parent[group] = parent[parent[group]]
            group = parent[group]
        return group

    seen: dict[int, int] = {}
    for group, wish in wishes.items():
        for number, _ in wish.brings:
            parent[root(group)] = root(seen.setdefault(number, group))
    parts: dict[int, list[int]] = {}
    for group in wishes:
        parts.setdefault(root(group), []).append(group)
    return list(parts.values())


def _sides(ground: LastingGround, group: np.ndarray, cohort: np.ndarray) -> Iterator[np.ndarray]:
    """Bool (p,) an end of a box: of each pair of a group and a cohort in its box, whether the cohort may be the one at
    that end. Never false for one that may: whoever else is there, the other end is taken to fit."""
    rosters = ground.rosters
    codes = encode_records(rosters.corners, ground.books)
    owner = np.repeat(np.arange(len(rosters.members)), np.diff(rosters.starts))
    for field, book in enumerate(ground.books):
        own = codes[:, field]
        null = np.zeros(len(rosters.members), bool)
        null[owner[own < 0]] = True
        if not book.labels:
            yield null[cohort]
        if book.is_set:
            if not book.labels and len(values := np.unique(own[own >= 0])) <= _MOST_VALUES:
                box = ground.groups.boxes[group, field]
                needed = {n: {*book.kind.needed(book.boxes[n], book.book)} for n in np.unique(box).tolist()}
                for value in values.tolist():
                    has = np.zeros(len(null), bool)
                    has[owner[own == value]] = True
                    yield has[cohort] & np.isin(box, [n for n, those in needed.items() if value in those])
            continue
        there = own >= 0
        least = extreme(np.minimum, owner[there], own[there], len(null))[cohort]
        most = extreme(np.maximum, owner[there], own[there], len(null))[cohort]
        boxes = book.boxes
        told = [boxes[number] for number in ground.groups.boxes[group, field].tolist()]
        asked = np.flatnonzero(np.array([box.low is not None for box in told], bool) & (most >= 0))
        values = readable_values(book)
        low = np.array([told[place].low for place in asked.tolist()])
        high = np.array([told[place].high for place in asked.tolist()])
        if not len(asked):
            continue
        for side in (
            unexplained(low, high, values[least[asked]], high, book.book.column),
            unexplained(low, high, low, values[most[asked]], book.book.column),
        ):
            ends = np.zeros(len(group), bool)
            ends[asked[~side]] = True
            yield ends


def _wrong_windows(
    ground: LastingGround, visits: _Visits, group: np.ndarray, owner: np.ndarray, visit: np.ndarray
) -> np.ndarray:
    """Bool (s,): no rows of the cohorts of a set are as old, or as young, as the group's window says."""
    size = ground.policy.cohorts.window_ms
    first = extreme(np.minimum, owner, visits.first_any[visit], len(group))
    last = extreme(np.maximum, owner, visits.last_any[visit], len(group))
    wrong: np.ndarray = (first - size > ground.groups.start[group]) | (last < ground.groups.end[group])
    return wrong


def _judge(
    ground: LastingGround,
    visits: _Visits,
    followed: np.ndarray,
    group: np.ndarray,
    visit: np.ndarray,
    findings: Findings,
) -> np.ndarray:
    """Judge people, windows and boxes of followed groups; those of which nothing is left open."""
    groups, policy = ground.groups, ground.policy
    chosen = np.flatnonzero(followed)
    place = np.searchsorted(chosen, group)
    most = np.bincount(place, weights=visits.people_any[visit], minlength=len(chosen))
    note_groups(ground, chosen[most < policy.k], f"have rows of fewer than k = {policy.k} people", findings)
    wrong = _wrong_windows(ground, visits, chosen, place, visit)
    note_groups(ground, chosen[wrong], "have a window that is not that of their rows", findings)
    judge_hulls(ground, chosen, place, visits.cohort[visit], findings)
    first = extreme(np.minimum, place, visits.first[visit], len(chosen)) - policy.cohorts.window_ms
    last = extreme(np.maximum, place, visits.last[visit], len(chosen))
    sure = np.bincount(place, weights=visits.people[visit], minlength=len(chosen)) >= policy.k
    sure &= (first == groups.start[chosen]) & (last == groups.end[chosen])
    told = np.zeros(len(followed), bool)
    told[chosen[sure]] = True
    return told


def _people_followed(
    ground: LastingGround,
    due: Due,
    person: np.ndarray,
    visits: _Visits,
    told: np.ndarray,
    group: np.ndarray,
    visit: np.ndarray,
) -> int:
    """People of whom every row that may be out is in a group that was followed."""
    total = len(ground.rosters.members)
    there = np.zeros(len(visits.release), bool)
    there[visit[told[group]]] = True
    keys = visits.release * total + visits.cohort
    own = due.release * total + ground.rosters.cohort[person[due.record]]
    inside = there[np.searchsorted(keys, own)]
    lost = np.zeros(len(ground.rosters.person), bool)
    seen = np.zeros(len(ground.rosters.person), bool)
    seen[person[due.record]] = True
    lost[person[due.record[~inside]]] = True
    return int((seen & ~lost).sum())
