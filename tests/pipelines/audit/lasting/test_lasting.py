"""``cohort: lasting``: the audit passes honest runs, and finds each broken promise by a sentence."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.audit.lasting import lasting_groups
from kanonflow.pipelines.audit.lasting.lasting_groups import MOST_CANDIDATES
from kanonflow.pipelines.cli import main
from kanonflow.schemas.release_format import ReleaseFormat
from tests.pipelines.audit.good_runs import PLACES, change_record, change_rows, read, write
from tests.pipelines.audit.lasting_runs import (
    BY_SHOP,
    HEADER,
    POLICY,
    LastingRun,
    change_file,
    cohort_of,
    lines,
    make_run,
    owner_of,
)

pytestmark = pytest.mark.thorough

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module", params=ReleaseFormat)
def good_run(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> LastingRun:
    """Six days of 48 people, who first come on three of them; some move, and some values cannot be read."""
    return make_run(tmp_path_factory.mktemp("lasting") / "run", release_format=request.param)


@pytest.fixture
def run(good_run: LastingRun, tmp_path: Path) -> LastingRun:
    """A copy of the good run, to be spoiled."""
    shutil.copytree(good_run.out.parent, tmp_path / "run")
    folder = tmp_path / "run"
    return LastingRun(folder / "policy.yaml", folder / "rows.csv", folder / "out")


def found(run: LastingRun, says: str, **how: bool) -> None:
    """The audit says this of the run."""
    failures = run.judged(**how).failures
    assert any(says in failure for failure in failures), failures


# Honest runs


@pytest.mark.parametrize(("secret", "recorded"), [(False, False), (True, False), (True, True)])
def test_an_honest_run_passes(good_run: LastingRun, secret: bool, recorded: bool) -> None:
    """Also with values of known people that have changed since; every group's rows are told."""
    report = good_run.judged(secret=secret, recorded=recorded)
    assert report.failures == ()
    assert report.figures.cohorts is not None
    assert report.figures.epoch_candidates is not None
    assert report.figures.epoch_candidates >= 4
    assert report.figures.followed == (report.figures.classes if secret else None)


@pytest.mark.parametrize("release_format", ReleaseFormat)
def test_cells_that_are_no_value_pass(tmp_path: Path, release_format: ReleaseFormat) -> None:
    """Bytes that are not UTF-8 and NULs in attributes: rows of known people go out, those of others are rejected.

    A run from bytes to bytes, by the command, with matching records and the secret."""
    names = HEADER.split(",")
    cells = [line.encode().split(b",") for line in lines(moves=False)]
    known = 0
    for number, row in enumerate(cells):
        person, day = int(row[0][1:]), int(row[1][8:10])
        row[names.index("shop")] = b"one"
        if number % 7 == 0:
            row[names.index(("town", "age", "place", "born")[number % 4])] = (
                b"\0" if number % 2 else b"M\xfcller"
            )
            known += day > 4 and person % 16 > 2
    (tmp_path / "rows.csv").write_bytes(b"\n".join([HEADER.encode(), *map(b",".join, cells)]) + b"\n")
    (tmp_path / "policy.yaml").write_text(
        POLICY.replace("role: insensitive", "role: insensitive, accept_risk: a test") + "max_rejected: 1\n"
    )
    (tmp_path / "places.csv").write_text(PLACES)
    (tmp_path / "secret").write_bytes(bytes(range(1, 33)))
    (tmp_path / "secret").chmod(0o600)
    given = ["--policy", str(tmp_path / "policy.yaml"), "--input", str(tmp_path / "rows.csv")]
    given += ["--secret-file", str(tmp_path / "secret")]
    out = tmp_path / "out"
    asked = ["--matching-records", "--quiet", "--release-format", release_format]
    assert main(["anonymize", *given, "--output", str(out), *asked]) == 0
    assert main(["verify", *given, "--release", str(out), "--matching-records"]) == 0
    rejected = [row for path in (out / "restricted/rejected").glob("*.avro") for row in read(path)[1]]
    assert {row["reason"] for row in rejected} == {"bad_value"}
    assert not [row for row in rejected if row["row"]["when"] > "2024-03-05"]
    assert known > 10


def test_late_rows_pass(tmp_path: Path) -> None:
    """Rows that came after their window was released, of people who are known and of people who are not."""
    told = lines()
    late = {line for number, line in enumerate(told) if number % 9 == 0}
    run = make_run(tmp_path / "late", told, late=late.__contains__)
    spans = {row["window_end"] - row["window_start"] for path in run.releases for row in read(path)[1]}
    assert len(spans) > 1
    assert run.judged(recorded=True).failures == ()


def test_a_run_that_goes_on_passes(tmp_path: Path) -> None:
    """With rows of newcomers who wait for an intake, and days that have not come."""
    run = make_run(tmp_path / "open", stop_after=4)
    report = run.judged(waiting=True)
    assert report.failures == ()
    assert report.figures.waiting
    assert not any("left out of an intake" in line for line in report.checked)


def test_a_row_whose_time_cannot_be_read_is_never_over(tmp_path: Path) -> None:
    """While a run goes on it may wait to be rejected: nobody can say that it is due."""
    run = make_run(tmp_path / "open", stop_after=4)
    with run.source.open("a") as file:
        file.write("p1,no time,40,170.0,1980-01-01,A,Breda,1.0,n0,r9000,s1\n")
    assert run.judged(waiting=True).failures == ()


def test_rows_whose_time_is_over_are_out(tmp_path: Path) -> None:
    """Also while a run goes on: a row is missing in a release of days ago, and can come with no later one."""
    run = make_run(tmp_path / "open", stop_after=5)
    change_file(run.releases[0], lambda _, rows: rows.pop())
    found(run, "records whose time is over are neither released nor rejected", waiting=True)


def test_of_other_people_nothing_is_followed(run: LastingRun) -> None:
    """Nobody of the input entered: not a row, group or person."""
    told = run.source.read_text().splitlines()
    run.source.write_text("\n".join([told[0], *(f"q{line[1:]}" for line in told[1:])]) + "\n")
    report = run.judged()
    assert not report.passed
    figures = report.figures
    assert (figures.followed, figures.rows_followed, figures.people_followed) == (0, 0, 0)


def test_people_of_two_partitions_are_found(tmp_path: Path) -> None:
    """Partitions have cohorts of their own; people who come to both stand in two."""
    run = make_run(tmp_path / "shops", policy=BY_SHOP)
    assert len({path.parent for path in run.segments("people")}) == 2
    assert run.judged(recorded=True).failures == ()
    first = {path.parent: path for path in reversed(run.segments("people"))}
    one, other = first.values()
    again = read(one)[1][0]["person"]
    change_file(other, lambda _, people: people[0].update(person=again))
    found(run, "1 people entered in two partitions", secret=False)
    # Whoever accepts the risk where the feed is parted has said so.
    text = run.policy.read_text()
    run.policy.write_text(
        text.replace("shop: {role: insensitive}", "shop: {role: insensitive, accept_risk: known}")
    )
    told = run.judged(secret=False).failures
    assert not any("two partitions" in failure for failure in told)


def test_forgotten_people_pass(run: LastingRun) -> None:
    """Their frozen values are gone, their place stays, and so does the box; values that stay are told."""

    def forget(_: Any, people: Rows) -> None:
        names = [name for name in people[0] if name not in ("person", "cohort", "forgotten")]
        for row in people[::5]:
            row.update(dict.fromkeys(names), forgotten=True)

    for path in run.segments("people"):
        change_file(path, forget)
    assert run.judged(recorded=True).failures == ()
    change_file(run.segments("people")[0], lambda _, people: people[0].update(town="A"))
    found(run, "who are forgotten still have frozen values")


def test_rows_that_many_records_are_like_are_followed(tmp_path: Path) -> None:
    """Rows that are all alike: which cohorts a group consists of is told by boxes, people and counts."""
    told = [",".join([*line.split(",")[:7], "1.0", "n0", "", "s0"]) for line in lines(days=3, moves=False)]
    assert Counter(line.split(",")[1][:10] for line in told).most_common()[-1][1] > MOST_CANDIDATES
    report = make_run(tmp_path / "alike", told).judged()
    assert report.failures == ()
    assert report.figures.followed == report.figures.classes
    assert report.verdict == "passed in full"


def test_groups_that_could_change_places_are_left_open(tmp_path: Path) -> None:
    """People who are all alike, and rows too: who stands where is not told, and the verdict says so. With matching
    records it is."""
    alike = [
        ",".join([line.split(",")[0], line.split(",")[1], "40,170.0,1980-01-01,A,Breda,1.0,n0", "", "s0"])
        for line in lines(days=3, moves=False)
    ]
    run = make_run(tmp_path / "alike", alike)
    report = run.judged()
    assert report.failures == ()
    assert report.verdict == "passed in part"
    open_ = (report.figures.classes or 0) - (report.figures.followed or 0)
    assert open_ > 0
    assert any(f"of {open_} groups" in line for line in report.not_checked)
    assert run.judged(recorded=True).verdict == "passed in full"


def test_the_report_says_what_was_checked(good_run: LastingRun) -> None:
    """Text and JSON list it; without the secret the list is shorter, and what is left open longer."""
    full, bare = good_run.judged(), good_run.judged(secret=False)
    assert len(full.checked) > len(bare.checked)
    assert all(f"  - {line}" in full.render() for line in full.checked)
    assert any("no secret given (--secret-file)" in line for line in bare.not_checked)
    assert not any("no secret given" in line for line in full.not_checked)


def test_a_run_that_goes_on_from_cohorts_passes(run: LastingRun) -> None:
    """Its first release and the rows of that are another run's: who entered with it is known here, and judged on."""
    first = run.releases[0]
    gone = {row["ref"] for row in read(first)[1]}
    first.unlink()
    for place in ("metrics", "matching_records"):
        (run.out / f"restricted/{place}/{first.stem}.avro").unlink()
    told = run.source.read_text().splitlines()
    run.source.write_text("\n".join(line for line in told if line.split(",")[9] not in gone) + "\n")
    (run.segments("people")[0].parent / "continued.json").write_text('{"segments": 1}')
    report = run.judged()
    assert report.failures == ()
    assert report.verdict == "passed in full"
    assert report.figures.people_known == 48


def test_what_a_run_leaves_for_the_next_is_told(run: LastingRun) -> None:
    """No rows, where it says so; nothing, where it says nothing of it."""
    assert run.judged(secret=False).figures.carried_out is None
    (run.out / "restricted/carried").mkdir(mode=0o700)
    assert run.judged(secret=False).figures.carried_out == 0


# Cohorts and segments


def test_a_person_in_two_cohorts_is_found(run: LastingRun) -> None:
    """Somebody of the first intake enters once more with the second."""
    first, second = run.segments("people")[:2]
    again = read(first)[1][0]["person"]
    change_file(second, lambda _, people: people[0].update(person=again))
    found(run, "1 people entered more than once: they stand in two cohorts", secret=False)


def test_a_cohort_that_is_too_small_is_found(run: LastingRun) -> None:
    """One of a cohort of cohort_size stands in another."""

    def move(_: Any, people: Rows) -> None:
        sizes = Counter(row["cohort"] for row in people)
        small = min(sizes, key=lambda cohort: (sizes[cohort], cohort))
        other = next(cohort for cohort in sizes if cohort != small)
        next(row for row in people if row["cohort"] == small)["cohort"] = other

    change_file(run.segments("people")[0], move)
    found(run, "1 cohorts have fewer people than cohort_size = 4 (fewest: 3)", secret=False)


def test_a_segment_that_does_not_follow_is_found(run: LastingRun) -> None:
    """The second segment names another chain before it."""

    def other(schema: dict[str, Any], _: Rows) -> None:
        schema["kanonflow"]["before"] = "00" * 32

    for part in ("people", "boxes"):
        change_file(run.segments(part)[1], other)
    found(run, "a segment of cohorts does not follow the one before it", secret=False)


def test_a_segment_of_other_content_is_found(run: LastingRun) -> None:
    """A corner of a box is altered: the chain of digests is another."""
    change_file(run.segments("boxes")[0], lambda _, boxes: boxes[0].update(age=(boxes[0]["age"] or 0) + 1))
    found(run, "whose chain does not follow from what is in it", secret=False)
    found(run, "field age: the boxes of 1 cohorts are not the hulls", secret=False)


@pytest.mark.parametrize("part", ["people", "boxes"])
def test_a_missing_file_is_found(run: LastingRun, part: str) -> None:
    """A segment lacks one of its two files."""
    run.segments(part)[0].unlink()
    found(run, "segments of cohorts lack a file, or are missing", secret=False)


def test_missing_cohorts_are_found(run: LastingRun) -> None:
    """All of restricted/cohorts, and one segment after the last release that needs it."""
    for part in ("people", "boxes"):
        run.segments(part)[-1].unlink()
    found(run, "its metrics tell another people_known than its cohorts", secret=False)
    found(run, "carry the payload of people who had not entered by then")
    shutil.rmtree(run.out / "restricted/cohorts")
    found(run, "restricted/cohorts is missing", secret=False)


def test_another_epoch_is_found(run: LastingRun) -> None:
    """In a segment, in the metrics of a release, in a release's schema."""
    change_record(
        run.out / f"restricted/metrics/{run.releases[0].stem}.avro",
        lambda told: told.update(epoch="0" * 15 + "1"),
    )
    found(run, "name 2 epochs", secret=False)


def test_releases_of_two_formats_are_found(run: LastingRun) -> None:
    """One of a run's releases comes in another format: it was not this run that wrote it."""
    path = run.releases[1]
    write(path.with_suffix({".avro": ".parquet", ".parquet": ".avro"}[path.suffix]), *read(path))
    path.unlink()
    found(run, "releases of several formats, where a run has one", secret=False)


def test_an_epoch_in_a_release_is_known_and_compared(run: LastingRun) -> None:
    """The epoch among a schema's properties is no strange property, and must be that of the cohorts."""
    for epoch, passes in ((f"{0x1234ABCD5678:016x}", True), ("0" * 16, False)):
        for path in run.releases:
            change_file(path, lambda schema, _, epoch=epoch: schema["kanonflow"].update(epoch=epoch))
        assert (run.judged(secret=False).failures == ()) == passes
    found(run, "name 2 epochs", secret=False)


def test_what_lies_among_the_cohorts_is_counted(run: LastingRun) -> None:
    """Beside the folders of partitions, and within one: whoever reads the report looks for two."""
    for place in (run.out / "restricted/cohorts", run.segments("people")[0].parent):
        (place / "notes.txt").touch(mode=0o600)
    found(run, "restricted/cohorts holds 2 entries that are no segments", secret=False)


# Who entered, and when


def test_who_was_never_there_is_found(run: LastingRun) -> None:
    """A stranger stands in the place of somebody who entered."""
    change_file(run.segments("people")[0], lambda _, people: people[0].update(person=12345))
    found(run, "1 people entered before any row of theirs was there")


def test_a_frozen_value_of_nobody_is_found(run: LastingRun) -> None:
    """A frozen value that no row of the person had."""
    change_file(run.segments("people")[0], lambda _, people: people[0].update(town="Z"))
    found(run, "field town: 1 people have a frozen value that no row of theirs had")


def test_an_intake_too_early_is_found(run: LastingRun) -> None:
    """The policy asks for more newcomers than waited, and none had to leave."""
    run.policy.write_text(POLICY.replace("intake: 12", "intake: 40"))
    found(run, "intakes before as many newcomers waited as the policy asks for")


def test_an_intake_put_off_is_found(run: LastingRun) -> None:
    """The policy asks for fewer newcomers than waited through a release."""
    waited = [
        told["pool"]
        for path in run.releases
        for told in read(run.out / f"restricted/metrics/{path.stem}.avro")[1]
        if not told["people_entered"]
    ]
    assert max(waited) >= 4
    run.policy.write_text(POLICY.replace("intake: 12", "intake: 4"))
    found(run, "an intake that was due was put off")


def test_somebody_left_out_is_found(tmp_path: Path) -> None:
    """A person who had been seen enters with nobody."""
    run = make_run(tmp_path / "run")
    extra = "p999,2024-03-01 03:00:00,40,170.0,1980-01-01,A,Breda,1.0,n0,r99999,s0"
    run.source.write_text(run.source.read_text() + extra + "\n")
    found(run, "an intake that left out people who had been seen")


# Groups


def with_two_cohorts(run: LastingRun) -> tuple[Path, int, set[str]]:
    """A release and a group of several cohorts in it; and the people of one of its cohorts."""
    owner, cohort = owner_of(run), cohort_of(run)
    for path in run.releases:
        groups: dict[int, set[int]] = {}
        for row in read(path)[1]:
            groups.setdefault(row["class_id"], set()).add(cohort[owner[row["ref"]]])
        for group, cohorts in groups.items():
            if len(cohorts) > 1:
                one = min(cohorts)
                return path, group, {name for name, own in cohort.items() if own == one}
    raise AssertionError("no group has two cohorts")


def widen(rows: Rows, group: int) -> None:
    """One more step of the grid."""
    for row in rows:
        if row["class_id"] == group:
            row["age"]["min"] -= 5


def first_group(run: LastingRun) -> int:
    rows = read(run.releases[0])[1]
    return int(next(row["class_id"] for row in rows if row["age"]["min"] >= 5))


def present_only(run: LastingRun) -> tuple[Path, int, int, int]:
    """A group whose people with rows span less of ``age`` than its cohorts: release, group, and their hull."""
    cells = [line.split(",") for line in run.source.read_text().splitlines()[1:]]
    age = {row[9]: min(max(int(row[2]), 0), 100) for row in cells}
    for path in run.releases:
        rows = read(path)[1]
        for group in sorted({row["class_id"] for row in rows}):
            own = [row for row in rows if row["class_id"] == group]
            ages = [age[row["ref"]] for row in own]
            low, high = min(ages) // 5 * 5, -(-max(ages) // 5) * 5
            if (low, high) != (own[0]["age"]["min"], own[0]["age"]["max"]) and low < high:
                return path, int(group), low, high
    raise AssertionError("every group's box is the hull of who is there")


@pytest.mark.parametrize("recorded", [False, True])
def test_a_box_of_those_present_is_found(run: LastingRun, recorded: bool) -> None:
    """A box that leaves out a member of a cohort who has no row in the window."""
    path, group, low, high = present_only(run)

    def narrow(rows: Rows) -> None:
        for row in rows:
            if row["class_id"] == group:
                row["age"].update(min=low, max=high)

    change_rows(path, narrow)
    found(run, "does not hold the frozen boxes of all of their cohorts")
    if recorded:
        found(run, "boxes do not hold the frozen boxes of all of their cohorts", recorded=True)


def test_a_grown_box_is_found(run: LastingRun) -> None:
    """A box one step wider than its cohorts."""
    group = first_group(run)
    change_rows(run.releases[0], lambda rows: widen(rows, group))
    found(run, "field age: an end that is not the line of its grid")


def test_a_payload_in_another_group_is_found(run: LastingRun) -> None:
    """Two rows of different groups of a release exchange their payloads."""

    def swap(rows: Rows) -> None:
        one = rows[0]
        other = next(row for row in rows if row["class_id"] != one["class_id"])
        for name in ("amount", "note", "ref"):
            one[name], other[name] = other[name], one[name]

    change_rows(run.releases[0], swap)
    failures = run.judged().failures
    sayings = (
        "rows of one cohort stand in two groups",
        "frozen boxes of all",
        "cohort stands in another group",
    )
    assert any(says in failure for failure in failures for says in sayings), failures
    found(run, "2 rows do not carry the payload of the record matched to them", recorded=True)


def test_a_cohort_torn_apart_is_found(run: LastingRun) -> None:
    """The rows of one cohort leave their group for one of their own, under the same box."""
    path, group, people = with_two_cohorts(run)
    owner = owner_of(run)

    def tear(rows: Rows) -> None:
        mine = [row for row in rows if row["class_id"] == group and owner[row["ref"]] in people]
        assert len(mine) > 1
        mine[0]["class_id"] = 77

    change_rows(path, tear)
    found(run, "rows of one cohort stand in two groups of a release")
    found(run, "groups have rows of fewer than k = 3 people")
    found(run, "its groups are not those of the release", recorded=True)


def test_a_wrong_window_is_found(run: LastingRun) -> None:
    """A group that says it is a day older than its rows."""
    group = int(read(run.releases[2])[1][0]["class_id"])

    def older(rows: Rows) -> None:
        for row in rows:
            if row["class_id"] == group:
                row["window_start"] = row["window_start"].replace(day=row["window_start"].day - 1)

    change_rows(run.releases[2], older)
    found(run, "have a window that is not that of their rows")


def test_a_fault_does_not_hide_another(run: LastingRun) -> None:
    """In one release a row of nobody, and a group that says it is a day older: both are told, and nothing of the
    release counts as followed. What the release's other rows say is judged without the row that nobody brought."""
    path = run.releases[2]
    rows = read(path)[1]
    odd, other = (
        rows[0]["class_id"],
        next(row["class_id"] for row in rows if row["class_id"] != rows[0]["class_id"]),
    )

    def spoil(rows: Rows) -> None:
        next(row for row in rows if row["class_id"] == odd)["amount"] = 12345.0
        for row in rows:
            if row["class_id"] == other:
                row["window_start"] = row["window_start"].replace(day=row["window_start"].day - 1)

    change_rows(path, spoil)
    found(run, "1 rows carry a payload that no record of their group's window brings")
    found(run, "1 groups have a window that is not that of their rows")
    report = run.judged()
    assert not any("no choice of whole cohorts" in failure for failure in report.failures)
    assert report.figures.rows_followed == report.figures.rows - len(rows)


def test_rows_of_a_group_differ_in_nothing_but_payload(run: LastingRun) -> None:
    """A box or a window that one row of a group has alone; a number that comes again."""

    def lonely(rows: Rows) -> None:
        rows[0]["age"] = {"min": 0, "max": 100, "nulls": False}
        rows[-1]["window_start"] = rows[-1]["window_start"].replace(day=1)

    last = run.releases[-1]
    change_rows(last, lonely)
    found(run, "groups whose rows have different boxes", secret=False)
    found(run, "groups whose rows name different windows", secret=False)
    again = read(run.releases[0])[1][0]["class_id"]
    change_rows(last, lambda rows: rows[0].update(class_id=again))
    found(run, "have a class_id that stands in another release too", secret=False)


def test_a_release_that_was_made_before_its_rows_came_is_found(run: LastingRun) -> None:
    """The metrics tell an end before that of a group's window."""
    change_record(
        run.out / f"restricted/metrics/{run.releases[-1].stem}.avro",
        lambda told: told.update(window_end=told["window_end"].replace(day=told["window_end"].day - 1)),
    )
    found(run, "groups have a window that their release cannot hold rows of", secret=False)


def test_work_is_linear_in_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many records have a row's payload, it is looked for among a fixed number of them, or not at all."""
    counted: list[int] = []

    def counting(*arguments: Any) -> Any:
        made = candidates(*arguments)
        counted.append(len(made[0].unit))
        return made

    candidates: Callable[..., Any] = lasting_groups._candidates
    monkeypatch.setattr(lasting_groups, "_candidates", counting)
    told = [
        ",".join([*line.split(",")[:7], line.split(",")[7][:1], "n0", "", "s0"])
        for line in lines(moves=False)
    ]
    report = make_run(tmp_path / "few", told).judged()
    assert report.failures == ()
    assert 0 < counted[0] <= MOST_CANDIDATES * report.figures.rows


def test_a_run_that_ended_before_anybody_entered_is_judged(tmp_path: Path) -> None:
    """No release, and cohorts of nobody: the audit fails in words, and not with an error of its own."""
    (tmp_path / "policy.yaml").write_text(
        "version: 1\nk: 3\nwindow: 1d\nmax_delay: 1d\nfields:\n  who: {role: individual}\n  when: {role: time}\n"
        "  age: {role: quasi, type: numeric, as: int}\n"
    )
    (tmp_path / "in.csv").write_text("who,when,age\n" + "".join(f"p{n},2024-03-01,{n}\n" for n in range(9)))
    for name in ("release", "restricted", "restricted/cohorts", "restricted/cohorts/00"):
        (tmp_path / "out" / name).mkdir(parents=True, mode=0o700)
    report = audit(tmp_path / "policy.yaml", [str(tmp_path / "in.csv")], tmp_path / "out")
    assert not report.passed
    assert any("nothing was released" in failure for failure in report.failures)
