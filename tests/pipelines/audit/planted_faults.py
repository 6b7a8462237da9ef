"""Faults to plant in a good run, as an attacker or an accident would: each changes the files of a run in place."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from tests.pipelines.audit.good_runs import (
    CARD,
    PLACES,
    GoodRun,
    change_rows,
    read,
    write,
)

PAYLOAD = ("amount", "note", "ref")
Rows = list[dict[str, Any]]
DAY = dt.timedelta(days=1)
PATHS = {line.split(";")[0]: line.split(";") for line in PLACES.splitlines()}


def _swap(one: dict[str, Any], other: dict[str, Any], names: tuple[str, ...] = PAYLOAD) -> None:
    for name in names:
        one[name], other[name] = other[name], one[name]


def _first(run: GoodRun, change: Callable[[Rows], Any], **how: Any) -> None:
    change_rows(run.releases[0], change, **how)


def _widest(rows: Rows) -> dict[str, Any]:
    return max(rows, key=lambda row: row["age"]["max"] - row["age"]["min"])


def _class_of(rows: Rows, some: dict[str, Any]) -> Rows:
    """The rows that have the same box."""
    return [row for row in rows if _box(row) == _box(some)]


def _box(row: dict[str, Any]) -> str:
    return repr([row[name] for name in ("age", "height", "born", "town", "place")])


def _in_class(run: GoodRun, change: Callable[[dict[str, Any]], Any], chosen: Callable[..., bool]) -> None:
    """Apply ``change`` to all rows of one class, or to one slot, whose box ``chosen`` takes."""

    def spoil(rows: Rows) -> None:
        some = next(row for row in rows if chosen(row))
        for row in _class_of(rows, some):
            change(row)

    _first(run, spoil)


def _records(run: GoodRun) -> dict[str, dict[str, str]]:
    """The input's rows that can be released, by their ref."""
    header, *lines = (line.split(",") for line in run.source.read_text().splitlines())
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    return {row["ref"]: row for row in rows if row["height"] != "tall" and row["when"] != "no time"}


def _inside(record: dict[str, str], row: dict[str, Any]) -> bool:
    """Whether a record lies in a row's box and window."""
    age = min(max(int(record["age"]), 0), 100)
    height, born = record["height"], dt.date.fromisoformat(record["born"])
    tall = row["height"]["nulls"] if not height else _within(float(height), row["height"])
    town = (record["town"] or None) in row["town"]
    place = row["place"] in PATHS[record["place"]]
    day = row["window_start"].date().isoformat() == record["when"][:10]
    return day and _within(age, row["age"]) and tall and _within(born, row["born"]) and town and place


def _within(value: Any, told: dict[str, Any]) -> bool:
    return told["min"] is not None and told["min"] <= value <= told["max"]


# Rows and what they carry


def row_dropped(run: GoodRun) -> None:
    _first(run, lambda rows: rows.pop())


def row_doubled(run: GoodRun) -> None:
    _first(run, lambda rows: rows.append(dict(rows[0])))


def payloads_swapped_across_windows(run: GoodRun) -> None:
    one, other = run.releases[:2]
    (schema, first), (_, second) = read(one), read(other)
    _swap(first[0], second[0])
    write(one, schema, first)
    write(other, schema, second)
    for path in (one, other):
        change_rows(path, lambda rows: None)


def all_payloads_shuffled_over_all_days(run: GoodRun) -> None:
    """The payload of every row moves to the next release: three days over all boxes."""
    files = [(path, *read(path)) for path in run.releases]
    rows = [row for _, _, own in files for row in own]
    cells = [{name: row[name] for name in PAYLOAD} for row in rows]
    for place, row in enumerate(rows):
        row |= cells[(place * 7 + 60) % len(rows)]
    assert len(rows) % 7
    for path, schema, own in files:
        write(path, schema, own)
        change_rows(path, lambda rows: None)


def payload_swapped_out_of_its_box(run: GoodRun) -> None:
    """Two rows of one window; the box of one does not hold the record that the other's payload is of."""
    records = _records(run)

    def spoil(rows: Rows) -> None:
        one, other = next(
            (one, other)
            for one in rows
            for other in rows
            if not _inside(records[one["ref"]], other)  # whatever the row's own record is
        )
        _swap(one, other)

    _first(run, spoil)


def payload_swapped_within_two_boxes(run: GoodRun) -> None:
    """Two slots with other boxes, and each holds the record of the other one's payload."""
    records = _records(run)

    def spoil(rows: Rows) -> None:
        one, other = next(
            (one, other)
            for place, one in enumerate(rows)
            for other in rows[:place]
            if _box(one) != _box(other)
            and _inside(records[one["ref"]], other)
            and _inside(records[other["ref"]], one)
        )
        _swap(one, other)

    _first(run, spoil)


def payload_value_altered(run: GoodRun) -> None:
    _first(run, lambda rows: rows[0].update(amount=rows[0]["amount"] + 1))


def one_field_swapped(run: GoodRun) -> None:
    """Amount and note of two rows, without their ref."""
    _first(run, lambda rows: _swap(rows[0], rows[-1], ("amount",)))


def identifier_in_the_payload(run: GoodRun) -> None:
    _first(run, lambda rows: rows[0].update(note=f"{CARD}001"))


def order_of_the_input(run: GoodRun) -> None:
    _first(run, lambda rows: rows.sort(key=lambda row: int(row["ref"][1:])), ordered=False)


# Boxes


def box_narrowed(run: GoodRun) -> None:
    def narrow(row: dict[str, Any]) -> None:
        row["age"] = dict(row["age"], max=row["age"]["min"] + 5)

    _in_class(run, narrow, lambda row: row["age"]["max"] - row["age"]["min"] >= 20)


def box_widened_by_a_step(run: GoodRun) -> None:
    def widen(row: dict[str, Any]) -> None:
        row["born"] = dict(row["born"], min=row["born"]["min"].replace(year=1850))

    _in_class(run, widen, lambda row: row["born"]["min"] is not None)


def box_widened_to_the_domain(run: GoodRun) -> None:
    def widen(row: dict[str, Any]) -> None:
        row["age"] = dict(row["age"], min=0, max=100)

    _in_class(run, widen, lambda row: row["age"]["min"] > 5 and row["age"]["max"] < 80)


def end_off_its_grid(run: GoodRun) -> None:
    def move(row: dict[str, Any]) -> None:
        row["age"] = dict(row["age"], min=row["age"]["min"] - 1)

    _in_class(run, move, lambda row: row["age"]["min"] > 5)


def date_end_off_its_grid(run: GoodRun) -> None:
    def move(row: dict[str, Any]) -> None:
        row["born"] = dict(row["born"], min=row["born"]["min"] - dt.timedelta(days=41))

    _in_class(run, move, lambda row: row["born"]["min"] is not None)


def digits_in_an_automatic_end(run: GoodRun) -> None:
    def move(row: dict[str, Any]) -> None:
        row["height"] = dict(row["height"], min=row["height"]["min"] - 0.4111111)

    _in_class(run, move, lambda row: row["height"]["min"] is not None)


def exact_hull_published(run: GoodRun) -> None:
    """The ends of a class's ages are those of its members; in row mode, of the records that the slot holds."""
    records = _records(run)

    def spoil(rows: Rows) -> None:
        own = _class_of(rows, _widest(rows))
        inside = [record for record in records.values() if _inside(record, own[0])]
        ages = sorted(min(int(record["age"]), 100) for record in inside)
        for row in own:
            row["age"] = dict(row["age"], min=ages[0], max=ages[-1])
        assert ages[0] % 5 or ages[-1] % 5

    _first(run, spoil)


def known_value_added_to_a_set(run: GoodRun) -> None:
    """A town of the input that no record has that the rest of the box holds."""
    records = _records(run)

    def spoil(rows: Rows) -> None:
        some, town = next(
            (row, town)
            for row in rows
            for town in "ABCDE"
            if town not in row["town"]
            and not any(_inside(each, dict(row, town=[town])) for each in records.values())
        )
        wider = sorted([*some["town"], town], key=lambda value: (value is not None, value or ""))
        for row in _class_of(rows, some):
            row["town"] = wider

    _first(run, spoil)


def unknown_value_added_to_a_set(run: GoodRun) -> None:
    _in_class(run, lambda row: row.update(town=[*row["town"], "Z" + CARD]), lambda row: True)


def set_out_of_order(run: GoodRun) -> None:
    _in_class(run, lambda row: row.update(town=row["town"][::-1]), lambda row: len(row["town"]) > 1)


def value_twice_in_a_set(run: GoodRun) -> None:
    _in_class(run, lambda row: row.update(town=[row["town"][0], *row["town"]]), lambda row: True)


def null_flag_raised(run: GoodRun) -> None:
    def flip(row: dict[str, Any]) -> None:
        row["born"] = dict(row["born"], nulls=True)

    _in_class(run, flip, lambda row: True)


def null_flag_lowered(run: GoodRun) -> None:
    def flip(row: dict[str, Any]) -> None:
        row["height"] = {"min": 150.0, "max": 190.0, "nulls": False}

    _in_class(run, flip, lambda row: row["height"]["nulls"])


def label_raised(run: GoodRun) -> None:
    """The parent of a label where all records that would fit are below the label."""
    records = _records(run)
    above = {one: other for path in PATHS.values() for one, other in pairwise(path)}

    def spoil(rows: Rows) -> None:
        some = next(
            row
            for row in rows
            if row["place"] in above
            and not any(
                _inside(each, dict(row, place=above[row["place"]])) and not _inside(each, row)
                for each in records.values()
            )
        )
        for row in _class_of(rows, some):
            row["place"] = above[row["place"]]

    _first(run, spoil)


def label_lowered(run: GoodRun) -> None:
    _in_class(run, lambda row: row.update(place="Goes"), lambda row: row["place"] in ("*", "south"))


def one_row_with_a_box_of_its_own(run: GoodRun) -> None:
    """One row of a class, or a slot, whose ages reach a step further than those of the others."""

    def spoil(rows: Rows) -> None:
        some = next(row for row in rows if row["age"]["min"] > 10)
        some["age"] = dict(some["age"], min=some["age"]["min"] - 5)

    _first(run, spoil)


# Windows and names


def window_start_older(run: GoodRun) -> None:
    def older(rows: Rows) -> None:
        for row in rows:
            row["window_start"] -= DAY

    change_rows(run.releases[1], older)


def window_end_later(run: GoodRun) -> None:
    def later(rows: Rows) -> None:
        for row in rows:
            row["window_end"] += DAY

    change_rows(run.releases[2], later)


def window_of_one_row_altered(run: GoodRun) -> None:
    _first(run, lambda rows: rows[0].update(window_end=rows[0]["window_end"] + DAY))


def release_file_renamed(run: GoodRun) -> None:
    run.releases[0].rename(run.out / "release" / ("0" * 32 + run.releases[0].suffix))


def release_of_another_run(run: GoodRun) -> None:
    """The same rows again, under the name that another secret would give them."""
    schema, rows = read(run.releases[0])
    name = "a1" * 16
    suffix = run.releases[0].suffix
    write(run.out / "release" / f"{name}{suffix}", schema, [dict(row, release_id=name) for row in rows])


def release_id_of_a_row_altered(run: GoodRun) -> None:
    _first(run, lambda rows: rows[0].update(release_id="b2" * 16))


def hidden_file_among_the_releases(run: GoodRun) -> None:
    (run.out / "release/.rows.csv").write_text(f"p1,{CARD}001\n")
