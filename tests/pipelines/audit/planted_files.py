"""Faults to plant in the files of a good run: headers and blocks, metrics, what is restricted, and other places."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.pipelines.audit.good_runs import (
    CARD,
    GoodRun,
    change_record,
    change_rows,
    change_schema,
    marker,
    one_block,
    read,
    write,
)

# Schema, header and blocks


def extra_column(run: GoodRun) -> None:
    schema, rows = read(run.releases[0])
    schema["fields"].append({"name": "position", "type": "long", "default": 0})
    write(run.releases[0], schema, [dict(row, position=7) for row in rows])


def card_number_in_the_schema(run: GoodRun) -> None:
    change_schema(run.releases[0], lambda schema: schema.update(doc=f"{schema['doc']} {CARD}001"))


def property_of_a_field_altered(run: GoodRun) -> None:
    change_schema(
        run.releases[0], lambda schema: schema["fields"][-1]["kanonflow"].update(member=f"{CARD}001")
    )


def key_in_the_header(run: GoodRun) -> None:
    schema, rows = read(run.releases[0])
    write(run.releases[0], schema, rows, header={"made.for": f"{CARD}001"})


def schema_spelled_otherwise(run: GoodRun) -> None:
    """The same JSON with other space between its words: one bit a word."""
    path = run.releases[0]
    data = path.read_bytes()
    spoiled = data.replace(b'"doc": ', b'"doc":\t', 1)
    assert spoiled != data
    path.write_bytes(spoiled)


def bytes_in_the_marker(run: GoodRun) -> None:
    schema, rows = read(run.releases[0])
    write(run.releases[0], schema, rows, sync=CARD.encode())


def another_codec(run: GoodRun) -> None:
    schema, rows = read(run.releases[0])
    write(run.releases[0], schema, rows, codec="null")


def empty_block_behind_the_last(run: GoodRun) -> None:
    """A block of no rows whose bytes no reader looks at."""
    path = run.releases[0]
    block = one_block(read(path)[0], [], marker(path.stem), inside=f"{CARD}001".encode())
    path.write_bytes(path.read_bytes() + block)


def bytes_behind_the_rows(run: GoodRun) -> None:
    path = run.releases[0]
    schema, rows = read(path)
    write(path, schema, [])
    block = one_block(schema, rows, marker(path.stem), inside=f"{CARD}001".encode())
    path.write_bytes(path.read_bytes() + block)


def bytes_behind_the_stream(run: GoodRun) -> None:
    path = run.releases[0]
    schema, rows = read(path)
    write(path, schema, [])
    block = one_block(schema, rows, marker(path.stem), behind=f"{CARD}001".encode())
    path.write_bytes(path.read_bytes() + block)


def other_compression(run: GoodRun) -> None:
    schema, rows = read(run.releases[0])
    write(run.releases[0], schema, rows, level=1)


def rows_in_other_blocks(run: GoodRun) -> None:
    schema, rows = read(run.releases[0])
    write(run.releases[0], schema, rows, block=7)


# Metrics


def count_in_the_metrics_altered(run: GoodRun) -> None:
    change_record(
        run.twin("restricted/metrics"), lambda told: told.update(rows_released=told["rows_released"] + 3)
    )


def people_in_the_metrics_altered(run: GoodRun) -> None:
    """One more than there are, in the exact metrics and in those that are shown."""
    for place in ("restricted/metrics", "metrics"):
        change_record(
            run.twin(place),
            lambda told: told.update(
                individuals=None if told["individuals"] is None else told["individuals"] + 1
            ),
        )


def people_shown_altered(run: GoodRun) -> None:
    change_record(run.twin("metrics"), lambda told: told.update(individuals=(told["individuals"] or 35) + 1))


def ledger_in_the_metrics_altered(run: GoodRun) -> None:
    change_record(
        run.twin("restricted/metrics"), lambda told: told.update(rows_waiting=told["rows_waiting"] + 3)
    )


def loss_in_the_metrics_altered(run: GoodRun) -> None:
    change_record(run.twin("restricted/metrics"), lambda told: told.update(loss_end=told["loss_end"] / 2))


def metrics_of_a_release_missing(run: GoodRun) -> None:
    run.twin("restricted/metrics").unlink()


def exact_metrics_made_public(run: GoodRun) -> None:
    run.twin("metrics").write_bytes(run.twin("restricted/metrics").read_bytes())


def public_metrics_without_leave(run: GoodRun) -> None:
    """The policy says restricted, and a folder of public metrics is there."""
    run.policy.write_text(run.policy.read_text().replace("metrics: public\n", ""))


def public_metrics_missing(run: GoodRun) -> None:
    run.twin("metrics").unlink()


# What is restricted


def _change_rejected(run: GoodRun, change: Callable[..., Any]) -> None:
    """Apply ``change`` to the rows of a file of rejected rows, and the place of one that has a faulty value."""
    for path in (run.out / "restricted/rejected").glob("*.avro"):
        reasons = [row["reason"] for row in read(path)[1]]
        if "bad_value" in reasons:
            place = reasons.index("bad_value")
            change_rows(path, partial(change, place=place), ordered=False)
            return
    raise AssertionError("no row was rejected for its value")


def rejected_row_missing(run: GoodRun) -> None:
    _change_rejected(run, lambda rows, place: rows.pop(place))


def reason_of_a_rejection_altered(run: GoodRun) -> None:
    _change_rejected(run, lambda rows, place: rows[place].update(reason="late"))


def restricted_open_to_all(run: GoodRun) -> None:
    (run.out / "restricted").chmod(0o755)


def secret_open_to_all(run: GoodRun) -> None:
    """The secret that a run keeps when it was given none, in a folder that others can pass through."""
    kept = run.out / "restricted/secret"
    kept.write_bytes(run.secret.read_bytes())
    kept.chmod(0o644)
    kept.parent.chmod(0o711)


def record_of_a_release_missing(run: GoodRun) -> None:
    run.twin("restricted/matching_records").unlink()


def member_list_altered(run: GoodRun) -> None:
    """Two members of other slots, or people of other classes, change places."""

    def change(told: dict[str, Any]) -> None:
        name = "members" if told["members"] else "groups"
        other = next(place for place, each in enumerate(told[name]) if each != told[name][0])
        told[name][0], told[name][other] = told[name][other], told[name][0]

    change_record(run.twin("restricted/matching_records"), change)


def matching_chosen_by_hand(run: GoodRun) -> None:
    """The matching record and the release agree on another matching than the one that the secret draws."""

    def change(told: dict[str, Any]) -> None:
        told["seed_commitment"] = told["seed_commitment"][::-1]

    change_record(run.twin("restricted/matching_records"), change)


# Elsewhere


def released_again_elsewhere(run: GoodRun) -> None:
    """The same people in another directory, under another name."""
    place = run.out.with_name("again") / "release"
    place.mkdir(parents=True)
    schema, rows = read(run.releases[0])
    for row in rows:
        row["release_id"] = "c3" * 16
    write(place / ("c3" * 16 + ".avro"), schema, rows)


def times_of_a_file_altered(run: GoodRun) -> None:
    os.utime(run.releases[0], (411111, 111111))
