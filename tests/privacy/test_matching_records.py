"""What a matching record shows to somebody who has the input and does not believe the pipeline."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.commands.matching_record_recipe import recipe_check
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.rows.elements import MatchingRecord
from kanonflow.transforms.secret.seeds import ReleaseSlot, Secret
from tests.pipelines.recorded_runs import SECRET, alter, record_files, recorded_run
from tests.transforms.window_rows import bound_policy, window_rows
from tests.windows_alone import release_window

pytestmark = pytest.mark.thorough

Change = Callable[[dict[str, Any]], None]


def failures(run: dict[str, Any], secret: Secret | None = None) -> str:
    """What the audit finds, a line each."""
    recipe = None if secret is None else recipe_check(secret)
    return "\n".join(audit(**run, matching_records=True, recipe=recipe).failures)


def test_an_honest_run_passes_with_and_without_the_secret(tmp_path: Path) -> None:
    """Forty windows: every equation holds, the ranks of the published factors are those of fair draws (false alarm
    below 1e-6), and the matchings are those that the secret draws."""
    run = recorded_run(tmp_path, 40)
    report = audit(**run, matching_records=True, recipe=recipe_check(SECRET))
    assert report.failures == ()
    assert (report.figures.matching_records, report.figures.draws) == (40, 40)
    assert failures(run) == ""


def test_a_matching_fixed_to_the_identity_is_found(tmp_path: Path) -> None:
    """Without the secret: forty windows whose matching records hold in every equation, each with the record of every
    slot on that slot. The published factor has the most such slots of its three each time (chance of that: 3^-40)."""
    run = recorded_run(tmp_path, 40, fixed=True)
    assert "the published matchings are no fair draws: their ranks by own" in failures(run)


def test_one_fixed_matching_is_found_with_the_secret(tmp_path: Path) -> None:
    """One window is too little for statistics, but the secret draws another matching."""
    run = recorded_run(tmp_path, 1, fixed=True)
    assert failures(run) == ""
    assert "the published matching is not the one that the secret draws" in failures(run, SECRET)


def test_another_secret_does_not_open_the_commitment(tmp_path: Path) -> None:
    """The auditor who is given another secret learns that it is another one."""
    assert "under another secret than the one given" in failures(recorded_run(tmp_path, 2), Secret(bytes(32)))


def _swap(name: str, one: int, other: int) -> Change:
    def change(record: dict[str, Any]) -> None:
        values = record[name]
        values[one], values[other] = values[other], values[one]

    return change


def _put(name: str, value: Any) -> Change:
    return lambda record: record.update({name: value})


def _same_member(record: dict[str, Any]) -> None:
    record["members"][0] = record["members"][1]


def _other_matching(record: dict[str, Any]) -> None:
    """Another factor of the same factorization, told as chosen and matched."""
    record["chosen"] = (record["chosen"] + 1) % 3
    record["matched"] = record["factors"][6 * record["chosen"] : 6 * record["chosen"] + 6]


def _records_swapped(record: dict[str, Any]) -> None:
    """Two records exchange their numbers: their boxes and payloads do not."""
    record["records"][0], record["records"][3] = record["records"][3], record["records"][0]


def _unknown_record(record: dict[str, Any]) -> None:
    record["records"][2] = bytes(32)


def _record_twice(record: dict[str, Any]) -> None:
    record["matched"][0] = record["matched"][1]


TAMPERED: list[tuple[Change, str]] = [
    (_swap("matched", 0, 1), "the published matching is not the chosen factor"),
    (_record_twice, "its matching is not perfect"),
    (_swap("members", 0, 17), "a slot has fewer than k individuals"),
    (_same_member, "a record is not a member of exactly 3 slots"),
    (_swap("factors", 0, 1), "not disjoint matchings along the edges"),
    (_swap("factors", 0, 6), "a factor is no perfect matching"),
    (_swap("row", 0, 1), "do not carry the payload of the record matched"),
    (_put("row", [0] * 6), "its places are not the rows of a release"),
    (_other_matching, "do not carry the payload of the record matched"),
    (_records_swapped, "boxes do not hold all of their members"),
    (_unknown_record, "1 of its records are not in the input"),
    (_put("policy_digest", bytes(32)), "made under another policy"),
    (_put("box_digest", bytes(32)), "other boxes than it vouches for"),
    (_put("content_digest", bytes(32)), "other rows than it vouches for"),
    (_put("window_end", 0), "its release, window, policy or k is another one"),
    (_put("release_id", "ab"), "its release, window, policy or k is another one"),
    (_put("structure", "classes"), "a damaged matching record"),
    (_put("chosen", 7), "a damaged matching record"),
    (_put("matched", [0, 1, 2, 3, 4, 99]), "a damaged matching record"),
]


@pytest.mark.parametrize(("change", "message"), TAMPERED, ids=[str(n) for n in range(len(TAMPERED))])
def test_a_tampered_matching_record_is_found(change: Change, message: str, tmp_path: Path) -> None:
    """One thing changed in one of two matching records is told, without the secret and without a record's value."""
    run = recorded_run(tmp_path, 2)
    alter(record_files(run)[0], change)
    found = failures(run)
    assert message in found, found
    assert "Bonn" not in found


def _factors_renamed(record: dict[str, Any]) -> None:
    """The same factorization with two factors exchanged: every equation holds."""
    factors = np.array(record["factors"]).reshape(3, 6)
    order = [1, 0, 2]
    record["factors"] = factors[order].ravel().tolist()
    record["chosen"] = order.index(record["chosen"])


OPENED: list[tuple[Change, str]] = [
    (_factors_renamed, "not the one that the secret draws"),
    (_put("seed_commitment", "00" * 32), "seed commitment does not open"),
    (_put("release_no", 9), "its release id is not that of its slot"),
    (_put("partition", "00" * 16), "its partition is not that of its records"),
]


@pytest.mark.parametrize(("change", "message"), OPENED, ids=[str(n) for n in range(len(OPENED))])
def test_the_secret_finds_what_equations_cannot(change: Change, message: str, tmp_path: Path) -> None:
    """A matching record that holds in every equation, but is not what the secret gives."""
    run = recorded_run(tmp_path, 1)
    alter(record_files(run)[0], change)
    assert failures(run) == ""
    assert message in failures(run, SECRET)


def test_every_release_has_one_matching_record(tmp_path: Path) -> None:
    """One missing, one of no release, two of one slot."""
    run = recorded_run(tmp_path, 3)
    first, second, third = record_files(run)
    with second.open("rb") as stream:
        told: Any = next(iter(fastavro.reader(stream)))
    alter(third, lambda record: record.update({name: told[name] for name in ("window_end", "release_no")}))
    first.rename(first.with_name("other.avro"))
    found = failures(run)
    assert "1 releases without a matching record" in found
    assert "1 matching records of releases that are not there" in found
    assert "two matching records name the same release slot" in found


def test_a_released_row_that_changed_is_found(tmp_path: Path) -> None:
    """The release file says something else than its matching record vouches for."""
    run = recorded_run(tmp_path, 2)
    path = next((run["release_dir"] / "release").glob("*.avro"))
    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        schema, rows = reader.writer_schema, list(reader)
    rows[0]["age"]["max"] += 1
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, rows)
    found = failures(run)
    assert "other rows than it vouches for" in found
    assert "other boxes than it vouches for" in found


def matching_record_of(rows: pa.Table, *, matching_records: bool = True) -> tuple[MatchingRecord | None, Any]:
    """The matching record and the release of one window, as the pipeline makes them."""
    result = release_window(
        rows,
        bound_policy(),
        WarmState(),
        SECRET,
        ReleaseSlot(b"p", 86_400_000, 0),
        matching_records=matching_records,
    )
    assert result.release is not None
    return result.matching_record, result.release


def test_the_matching_record_of_a_retry_is_byte_identical() -> None:
    """The same rows in another order, as a retry may see them: the same matching record, byte for byte."""
    rows = window_rows(120, 3, bound_policy())
    shuffled = rows.take(pa.array(np.random.default_rng(5).permutation(120)))
    assert matching_record_of(rows) == matching_record_of(shuffled)


def test_a_matching_record_changes_nothing_that_is_published() -> None:
    """The release is the same bytes with and without one; without the flag there is none."""
    rows = window_rows(120, 3, bound_policy())
    made, with_one = matching_record_of(rows)
    none, without = matching_record_of(rows, matching_records=False)
    assert none is None
    assert made is not None
    assert with_one == without


def _rows_exchanged(record: dict[str, Any]) -> None:
    """Two places of a class exchange record and row: every equation holds, but nobody drew that."""
    kept = [label for label in record["groups"] if label >= 0]
    one, other = [place for place, label in enumerate(kept) if label == 0][:2]
    _swap("matched", one, other)(record)
    _swap("row", one, other)(record)


def test_matching_records_are_restricted_and_only_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run with --matching-records writes one file a release that only its owner may read; a resumed one writes what
    is missing, the same bytes; the audit passes with the secret, for cohorts that last. A run without writes none."""
    from kanonflow.pipelines.cli import main

    base = ["demo", "--rows", "900", "--days", "6", "--quiet", "--threads", "1", "--evaluations", "5"]
    main([*base, "--output", str(tmp_path / "plain")])
    assert not (tmp_path / "plain/restricted/matching_records").exists()
    out = tmp_path / "certified"
    main([*base, "--output", str(out), "--matching-records"])
    files = sorted((out / "restricted/matching_records").iterdir())
    first = [path.read_bytes() for path in files]
    files[1].unlink()
    main([*base, "--output", str(out), "--matching-records", "--resume"])
    assert [path.read_bytes() for path in files] == first
    assert [path.name for path in files] == sorted(path.name for path in (out / "release").iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    policy = Path(__file__).parents[2] / "policies/transactions.yaml"
    asked = ["verify", "--policy", str(policy), "--input", str(out / "feed/*"), "--release", str(out)]
    secret = ["--secret-file", str(out / "restricted/secret")]
    assert main([*asked, "--matching-records", *secret]) == 0
    # What an earlier build wrote, and how it was asked for.
    (out / "restricted/matching_records").rename(out / "restricted/certificates")
    capsys.readouterr()
    assert main([*asked, "--certificates", *secret]) == 0
    assert "note: --certificates is called --matching-records now" in capsys.readouterr().err
    (out / "restricted/certificates").rename(out / "restricted/matching_records")
    # Without them it takes a secret too, which tells whose rows are whose in cohorts that last.
    assert main([*asked, "--secret-file", str(out / "restricted/secret")]) == 0
    alter(files[1], _rows_exchanged)
    assert main([*asked, "--matching-records"]) == 0
    assert main([*asked, "--matching-records", "--secret-file", str(out / "restricted/secret")]) == 1
    files[0].unlink()
    assert main([*asked, "--matching-records"]) == 1
