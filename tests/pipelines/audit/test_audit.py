"""The audit finds every planted fault, and none in clean runs."""

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.schemas.errors import InputError
from tests.pipelines.small_runs import DAY, Run, people, ring


def verdict(run: Run, folder: Path) -> AuditReport:
    """The audit of a run as written below ``folder``."""
    return audit(*run.write(folder))


@pytest.mark.parametrize("make", [people, ring])
def test_a_clean_run_passes(make: Callable[[], Run], tmp_path: Path) -> None:
    """Homogeneous classes over several windows with a late row, and a heterogeneous ring, both pass."""
    report = verdict(make(), tmp_path)
    assert report.failures == ()
    assert report.passed
    assert report.figures.fewest_rows_of_record == 2
    assert report.figures.fewest_individuals_of_row == 2


def box_misses_member(run: Run) -> None:
    """Neither of the slots of the last record reaches up to it."""
    for row in run.releases["whole"][2:]:
        row["x"]["max"] = 4.0


def box_misses_one_of_two(run: Run) -> None:
    """A slot without one of its members; everybody still has a slot."""
    run.releases["whole"][0]["x"]["max"] = 2.0


def hole_for_a_null(run: Run) -> None:
    for row in run.releases["day1"][4:]:
        row["city"] = ["Ulm"]


def too_few_individuals(run: Run) -> None:
    """The slot of e, a and b becomes e's own box and one of a and b."""
    for row in run.releases["day2"]:
        row["age"] = dict(row["age"], min=30)
    run.releases["day2"][2]["age"] = {"min": 20, "max": 20, "nulls": False}


def published_twice(run: Run) -> None:
    run.releases["day2"].append(dict(run.releases["day2"][0]))


def published_for_another(run: Run) -> None:
    run.releases["day2"][0]["ref"] = "r8"


def order_kept(run: Run) -> None:
    """Rows leave in the order of their slots, which is that of the records."""
    run.ordered = False


def order_of_arrival(run: Run) -> None:
    """The rows of one class, told apart by their payload only, in the order of the input."""
    run.ordered = False
    first = run.releases["day1"]
    first.sort(key=lambda row: (row["age"]["min"], row["ref"]))


def payloads_of_two_classes_swapped(run: Run) -> None:
    first, last = run.releases["day1"][0], run.releases["day1"][5]
    for name in ("amount", "ref"):
        first[name], last[name] = last[name], first[name]


def row_missing(run: Run) -> None:
    run.releases["whole"].pop()


def payload_altered(run: Run) -> None:
    run.releases["day1"][0]["amount"] = Decimal("1.51")


def two_releases_of_a_window(run: Run) -> None:
    rows = run.releases["day1"]
    run.releases["day1b"] = [dict(row, release_id="day1b") for row in rows[4:]]
    run.releases["day1"] = rows[:4]


def two_parts_with_one_number(run: Run) -> None:
    two_releases_of_a_window(run)
    run.numbers["day1"] = run.numbers["day1b"] = 0


def only_one_matching(run: Run) -> None:
    """Records a, b and rows {a}, {a, b}."""
    run.lines = run.lines[:3]
    run.releases["whole"] = run.releases["whole"][:2]
    for row, high, note in zip(run.releases["whole"], (2.0, 3.0), ("n1", "n2"), strict=True):
        row |= {"x": {"min": 1.0, "max": high, "nulls": False}, "tint": ["red"], "note": note}


def rejected_but_unknown(run: Run) -> None:
    run.rejected.append(("late", {"who": "g"}))


def released_though_rejected(run: Run) -> None:
    row = {"who": "e", "when": "2024-03-02 08:00:00.000Z", "age": "20", "city": "Bonn"}
    run.rejected.append(("late", row | {"amount": "8.00", "ref": "r9"}))


def unreadable_not_rejected(run: Run) -> None:
    run.rejected.clear()


def broken_line_unreported(run: Run) -> None:
    run.lines.insert(3, "a,b")


def wrong_name(run: Run) -> None:
    run.releases["other"] = run.releases.pop("day2")


def two_windows_in_a_file(run: Run) -> None:
    run.releases["day2"][1]["window_end"] += DAY


def window_of_no_policy(run: Run) -> None:
    for row in run.releases["day2"]:
        row["window_end"] += DAY / 2


def waited_too_long(run: Run) -> None:
    """b's row of the first day in a release of the third."""
    for row in run.releases["day2"]:
        row["window_end"] += DAY


def start_too_old(run: Run) -> None:
    for row in run.releases["day1"]:
        row["window_start"] -= DAY


def nothing_released(run: Run) -> None:
    run.releases = {}


def nothing_read(run: Run) -> None:
    run.lines = run.lines[:1]


def release_without_rows(run: Run) -> None:
    run.releases["none"] = []


def individual_published(run: Run) -> None:
    run.schema["fields"].append({"name": "who", "type": "string"})
    for rows in run.releases.values():
        for row in rows:
            row["who"] = "a"


def extra_field(run: Run) -> None:
    run.schema["fields"].append({"name": "position", "type": "long", "default": 0})


def field_missing(run: Run) -> None:
    run.schema["fields"] = [told for told in run.schema["fields"] if told["name"] != "city"]


def other_type(run: Run) -> None:
    run.schema["fields"][-1]["type"] = ["null", "bytes"]
    for rows in run.releases.values():
        for row in rows:
            row["ref"] = row["ref"].encode()


def empty_box(run: Run) -> None:
    run.releases["whole"][0]["tint"] = []


def ends_swapped(run: Run) -> None:
    run.releases["whole"][0]["x"] |= {"min": 3.0, "max": 1.0}


def beyond_domain(run: Run) -> None:
    run.releases["whole"][0]["tint"] = ["green", "red"]


def range_beyond_domain(run: Run) -> None:
    for row in run.releases["day1"][4:]:
        row["age"]["max"] = 130


def counts_not_shared(run: Run) -> None:
    """On one day, a has one row and b two: two rows that the payload links are b's."""
    run.lines = [*run.lines[:2], *run.lines[3:7]]
    run.releases = {"day1": [*run.releases["day1"][:1], *run.releases["day1"][2:]]}
    run.rejected = []


FAULTS = [
    (
        ring,
        box_misses_member,
        "not a generalization of the original: 1 of 4 released rows and 1 of 4 records",
    ),
    (ring, box_misses_one_of_two, r"1 rows may belong to fewer than k = 2 individuals"),
    (people, hole_for_a_null, "records lie in no box of their windows"),
    (people, too_few_individuals, r"1 rows may belong to fewer than k = 2 individuals \(fewest: 1\)"),
    (people, published_twice, "field ref: never repeats in the input, but 1 released rows repeat"),
    (people, published_twice, "not a generalization of the original: 1 of 10 released rows"),
    (
        people,
        payloads_of_two_classes_swapped,
        r"payloads stand in other boxes or windows .*: 2 rows have a payload that no .* brings \(release day1\)",
    ),
    (people, published_for_another, "1 payloads of records are missing; 1 released rows"),
    (ring, order_kept, r"[12] rows do not stand in the order of what they publish.*\(release whole\)"),
    (people, order_of_arrival, r"1 rows do not stand in the order .*\(release day1\)"),
    (ring, row_missing, "0 of 3 released rows and 1 of 4 records cannot be placed"),
    (ring, row_missing, "1 payloads of records are missing; 0 released rows"),
    (people, payload_altered, "the payload is not that of the input"),
    (people, two_releases_of_a_window, r"released more than once \(release day1b\)"),
    (people, two_parts_with_one_number, r"released more than once \(release day1b\)"),
    (ring, only_one_matching, r"2 records may be fewer than k = 2 rows \(fewest: 1\)"),
    (people, rejected_but_unknown, "1 rejected rows are not in the input"),
    (people, released_though_rejected, "1 released rows have a payload that the input has not"),
    (people, unreadable_not_rejected, "field when: 1 records with a missing or unreadable value"),
    (people, broken_line_unreported, "1 broken input lines, but 0 were rejected"),
    (people, wrong_name, r"file's name is not the id of the release in its rows \(release other\)"),
    (people, two_windows_in_a_file, "rows of one release name different windows"),
    (people, window_of_no_policy, "the release's window is none of the policy's"),
    (people, waited_too_long, "the release's window is none of the policy's"),
    (people, waited_too_long, "not a generalization of the original"),
    (people, start_too_old, r"window_start is older than any record .* \(release day1\)"),
    (
        people,
        individual_published,
        r"field who has role individual and is published \(release day1 and 1 more",
    ),
    (people, extra_field, "fields that the policy does not publish: position"),
    (people, field_missing, "fields that the policy publishes are missing: city"),
    (people, other_type, "fields of another type than the policy and the input say: ref"),
    (ring, empty_box, "field tint: a box that holds nothing"),
    (ring, ends_swapped, "field x: a range without two ends in order"),
    (ring, beyond_domain, "field tint: a set with values beyond the declared domain"),
    (people, range_beyond_domain, "field age: a range beyond the declared domain"),
    (people, counts_not_shared, "number of rows fewer than k = 2 share"),
]


@pytest.mark.parametrize(
    ("make", "plant", "message"),
    FAULTS,
    ids=[f"{plant.__name__}-{n}" for n, (_, plant, _) in enumerate(FAULTS)],
)
def test_a_planted_fault_is_found(
    make: Callable[[], Run], plant: Callable[[Run], None], message: str, tmp_path: Path
) -> None:
    """A run with one fault fails, for the reason that was planted, and no message holds a record's value."""
    run = make()
    plant(run)
    report = verdict(run, tmp_path)
    assert not report.passed
    text = "\n".join(report.failures)
    assert re.search(message, text), text
    assert not any(value in text for value in ("Bonn", "Kiel", "31", "1.50", "green", "n1", "not a time"))


def test_an_individual_in_two_classes_is_found(tmp_path: Path) -> None:
    """Rows of one person in two classes of a release: a payload that links them leaves fewer than k
    candidates."""
    run = people()
    run.lines = list(TWO_CLASSES)
    rows = run.releases["day1"]
    run.releases = {"day1": [*rows[:2], *rows[4:]]}
    run.rejected = []
    for row, ref in zip(run.releases["day1"], ("r1", "r2", "r3", "r4"), strict=True):
        row |= {"ref": ref, "amount": Decimal("1.00")}
    assert "an individual has rows in more than one class (release day1)" in verdict(run, tmp_path).failures


TWO_CLASSES = [
    "who,when,age,city,amount,ref,name",
    "a,2024-03-01 08:00:00,31,Bonn,1.00,r1,Ann",
    "b,2024-03-01 10:00:00,38,Kiel,1.00,r2,Bob",
    "b,2024-03-01 12:00:00,60,,1.00,r3,Cyd",
    "d,2024-03-01 13:00:00,130,Ulm,1.00,r4,Dan",
]


def test_numbered_releases_of_one_window_pass(tmp_path: Path) -> None:
    """Two releases of a window are what release numbers allow, when the metrics give them different ones."""
    run = people()
    two_releases_of_a_window(run)
    run.numbers["day1b"] = 7
    assert verdict(run, tmp_path).failures == ()


def test_nothing_but_releases_may_lie_there(tmp_path: Path) -> None:
    """Restricted files inside release/, and hidden ones, are a failure; a damaged release is one too."""
    policy, patterns, out = people().write(tmp_path)
    (out / "release/restricted").mkdir()
    (out / "release/.day1.avro.1.tmp").write_bytes(b"")
    data = (out / "release/day2.avro").read_bytes()
    (out / "release/day2.avro").write_bytes(data[:-30])
    (out / "release/day3.avro").write_bytes(b"nothing")
    failures = audit(policy, patterns, out).failures
    assert "release/ holds 2 entries that are not releases (folders, hidden files)" in failures
    assert "a damaged Avro file (release day2)" in failures
    assert "not an Avro file (release day3)" in failures
    assert "not audited further: some releases could not be read" in failures


@pytest.mark.parametrize("plant", [field_missing, other_type, None])
def test_nothing_is_said_over_a_release_that_cannot_be_read(
    plant: Callable[[Run], None] | None, tmp_path: Path
) -> None:
    """By its schema, or at all: what its rows would have to do with the input is not judged."""
    run = people()
    if plant is not None:
        plant(run)
    policy, patterns, out = run.write(tmp_path)
    if plant is None:
        path = out / "release/day2.avro"
        path.write_bytes(path.read_bytes()[:-30])
    failures = audit(policy, patterns, out).failures
    assert "not audited further: some releases could not be read" in failures
    assert not any("payload" in failure for failure in failures)


def test_wrong_places_are_refused(tmp_path: Path) -> None:
    """No input file, no release folder: an error that names the place, not a failed audit."""
    policy, patterns, out = ring().write(tmp_path)
    with pytest.raises(InputError, match="no file matches"):
        audit(policy, [str(tmp_path / "none*.csv")], out)
    with pytest.raises(InputError, match="no such folder"):
        audit(policy, patterns, out / "release")


def test_partitions_are_kept_apart(tmp_path: Path) -> None:
    """A row can only be of a record with its partition values, and a release holds one partition."""
    run = ring()
    run.policy = run.policy.replace("fields:", "partition_by: [land]\nfields:\n  land: {role: insensitive}")
    run.lines = [f"{line},{land}" for line, land in zip(run.lines, ("land", *"AABB"), strict=True)]
    run.schema["fields"].insert(-1, {"name": "land", "type": ["null", "string"]})
    whole = run.releases["whole"]
    for row, land in zip(whole, "AABB", strict=True):
        low, tint = (1.0, "red") if land == "A" else (3.0, "blue")
        row |= {"x": {"min": low, "max": low + 2, "nulls": False}, "tint": [tint], "land": land}
    for row, note in zip(whole, ("n2", "n1", "n4", "n3"), strict=True):
        row["note"] = note
    mixed = verdict(run.copy(), tmp_path / "mixed").failures
    assert any("one release holds rows of several partitions" in failure for failure in mixed)
    run.releases = {
        stem: [dict(row, release_id=stem) for row in whole if row["land"] == stem] for stem in ("A", "B")
    }
    assert verdict(run.copy(), tmp_path / "apart").failures == ()
    for row, land in zip((*run.releases["A"], *run.releases["B"]), "BBAA", strict=True):
        row |= {"land": land, "tint": ["red"] if land == "B" else ["blue"]}
    crossed = verdict(run, tmp_path / "crossed").failures
    assert any("not a generalization" in failure for failure in crossed)
