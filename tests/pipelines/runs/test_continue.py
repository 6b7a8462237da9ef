"""``--continue``: runs that begin with the cohorts of an earlier one, over real files."""

from __future__ import annotations

import csv
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest

from kanonflow.pipelines.analysis.released_table import read_release
from kanonflow.pipelines.cli import main
from tests.nightly import as_another_run
from tests.pipelines.audit.good_runs import read

pytestmark = pytest.mark.thorough

NIGHTS = 10
POLICY = """
version: 1
k: 3
window: 1d
cohort: lasting
solver: {evaluations_per_row: 20, threads: 1}
fields:
  who: {role: individual}
  when: {role: time}
  age: {role: quasi, type: numeric, as: int}
  job: {role: quasi, type: categorical}
  height: {role: quasi, type: numeric, as: double}
  town: {role: insensitive}
  amount: {role: sensitive, as: "decimal(9,2)"}
partition_by: [town]
"""


def write_feed(folder: Path, nights: int, people: int = 40) -> None:
    """A file a night; everybody is there on the first, and about half on each other one. Towns keep their people."""
    rng = random.Random(3)
    known = [
        (
            f"p{who}",
            rng.randint(18, 80),
            rng.choice(["a", "b", "", "d"]),
            rng.uniform(1.5, 2.0),
            "AB"[who % 2],
        )
        for who in range(people)
    ]
    folder.mkdir()
    for night in range(nights):
        with (folder / f"{night:02}.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["who", "when", "age", "job", "height", "town", "amount"])
            for who, age, job, height, town in known:
                for _ in range(rng.randint(1, 3) if night == 0 or rng.random() < 0.5 else 0):
                    minute = rng.randrange(1440)
                    when = f"2024-03-{night + 1:02} {minute // 60:02}:{minute % 60:02}:00"
                    out.writerow([who, when, age, job, f"{height:.3f}", town, f"{rng.random() * 99:.2f}"])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Policy, secret and feed."""
    place = tmp_path_factory.mktemp("nights")
    (place / "policy.yaml").write_text(POLICY)
    for name, byte in (("secret", 7), ("other", 9)):
        (place / name).write_bytes(bytes(range(byte, byte + 40)))
        (place / name).chmod(0o600)
    write_feed(place / "in", NIGHTS)
    return place


def anonymize(place: Path, files: str, output: Path, *flags: str, policy: str = "policy.yaml") -> int:
    """The command; secret and policy are the place's."""
    secret = (
        () if any(flag.startswith("--secret") for flag in flags) else ("--secret-file", str(place / "secret"))
    )
    given = ["--policy", str(place / policy), "--input", str(place / "in" / files), "--output", str(output)]
    return main(["anonymize", *given, *secret, *flags])


def published(output: Path) -> Counter[str]:
    """Everything published but ids, as a multiset; a row says its day."""
    rows: Counter[str] = Counter()
    for path in (output / "release").glob("[!.]*"):
        for row in read(path)[1]:
            told = {name: row[name] for name in row if name not in ("release_id", "class_id")}
            # Readers differ in the object that says UTC.
            rows[repr(told).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc")] += 1
    return rows


def record(output: Path) -> dict[str, Any]:
    return json.loads((output / "restricted" / "run.json").read_text())


@pytest.fixture(scope="module")
def founded(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first night, which founds all cohorts."""
    output = tmp_path_factory.mktemp("first") / "out"
    assert anonymize(place, "00.csv", output) == 0
    return output


@pytest.fixture
def first(founded: Path, tmp_path: Path) -> Path:
    """The first night, which nobody has continued yet."""
    return as_another_run(founded, tmp_path / "founded")


def test_nights_that_continue_each_other_give_what_one_run_gives(
    place: Path, first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everybody is known from the first night and nothing waits: each night's boxes and payloads are the same, in one
    epoch, though each run has nothing of the earlier ones but the last directory. No row was rejected."""
    assert anonymize(place, "*.csv", tmp_path / "one") == 0
    assert "An epoch begins" in capsys.readouterr().err
    nightly, last = published(first), first
    for night in range(1, NIGHTS):
        output = tmp_path / f"night{night}"
        assert anonymize(place, f"{night:02}.csv", output, "--continue", str(last)) == 0
        shown = capsys.readouterr()
        assert "40 people are known from there" in shown.err
        assert "An epoch begins" not in shown.err
        assert not list((output / "restricted" / "rejected").iterdir())
        nightly += published(output)
        if last != first:
            shutil.rmtree(last)
        last = output
    assert nightly == published(tmp_path / "one")
    assert record(last)["epoch"] == record(first)["epoch"] != record(tmp_path / "one")["epoch"]


def test_newcomers_of_a_later_night_are_a_segment_of_their_own(
    place: Path, founded: Path, first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new directory has the earlier segments byte for byte, and one more of whoever came; two who are too few for
    a cohort are rejected, and the run says so."""
    write_feed(tmp_path / "in", 2, people=60)
    late = (tmp_path / "in" / "01.csv").read_text()
    (tmp_path / "in" / "01.csv").write_text(late.replace("2024-03-02", "2024-04-02"))
    (tmp_path / "policy.yaml").write_text(POLICY)
    shutil.copy(place / "secret", tmp_path / "secret")
    assert anonymize(tmp_path, "01.csv", tmp_path / "out", "--continue", str(first)) == 0
    for folder in (first / "restricted" / "cohorts").iterdir():
        here = tmp_path / "out" / "restricted" / "cohorts" / folder.name
        for path in folder.glob("000000.*"):
            assert (here / path.name).read_bytes() == path.read_bytes()
        assert (here / "000001.boxes.avro").exists()
    capsys.readouterr()
    lines = (place / "in" / "01.csv").read_text().splitlines()
    few = [line.replace("p", "q", 1) for line in lines[1:3]]
    (tmp_path / "in" / "few.csv").write_text("\n".join([*lines, *few]) + "\n")
    again = as_another_run(founded, tmp_path / "again")
    assert anonymize(tmp_path, "few.csv", tmp_path / "few", "--continue", str(again)) == 0
    assert "2 rows waited for other people" in capsys.readouterr().err


def test_a_run_that_resumes_has_its_epoch_and_its_cohorts(
    place: Path, first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether --continue is said again or not, and though the earlier directory is gone: the same files."""
    earlier = as_another_run(first, tmp_path / "earlier")
    output = tmp_path / "out"
    assert anonymize(place, "01.csv", output, "--continue", str(earlier)) == 0
    before = published(output)
    shutil.rmtree(earlier)
    for path in (output / "release").iterdir():
        path.unlink()
    assert anonymize(place, "01.csv", output, "--resume", "--continue", str(earlier)) == 0
    assert published(output) == before
    assert record(output)["epoch"] == record(first)["epoch"]


def test_a_run_may_continue_another_in_another_format(
    place: Path, first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has an output of its own: the rows are those that Avro would hold; both are read as one, and each is audited.
    What resumes it has its format."""
    avro, parquet, asked = tmp_path / "avro", tmp_path / "parquet", ("--release-format", "parquet")
    earlier = as_another_run(first, tmp_path / "earlier")
    assert anonymize(place, "01.csv", avro, "--continue", str(earlier)) == 0
    assert anonymize(place, "01.csv", parquet, "--continue", str(first), *asked) == 0
    assert published(parquet) == published(avro)
    assert {path.suffix for path in (parquet / "release").iterdir()} == {".parquet"}
    both, alone = read_release(first, parquet), read_release(first, avro)
    columns = [name for name in both.arrow().column_names if name not in ("release_id", "class_id")]
    assert both.arrow().select(columns).schema.equals(alone.arrow().select(columns).schema)
    assert len(both) == len(alone)
    assert len(set(both.arrow().column("epoch").to_pylist())) == 1
    given = ["--policy", str(place / "policy.yaml"), "--input", str(place / "in/01.csv")]
    given += ["--secret-file", str(place / "secret")]
    assert main(["verify", *given, "--release", str(parquet)]) == main(
        ["verify", *given, "--release", str(avro)]
    )
    capsys.readouterr()
    assert anonymize(place, "01.csv", parquet, "--resume") == 2
    assert "--release-format parquet goes on with it" in capsys.readouterr().err
    assert anonymize(place, "01.csv", parquet, "--resume", *asked) == 0


def changed(text: str, replacement: str) -> str:
    assert text in POLICY
    return POLICY.replace(text, replacement)


REFUSED: dict[str, tuple[str, str]] = {
    "individual": (
        changed("who: {role: individual}", "who: {role: identifier}\n  town: {role: individual}")
        .replace("  town: {role: insensitive}\n", "")
        .replace("partition_by: [town]\n", ""),
        "the individual",
    ),
    "quasi": (
        changed(
            "  height: {role: quasi, type: numeric, as: double}\n",
            "  height: {role: insensitive, accept_risk: tried}\n",
        ),
        "(height)",
    ),
    "type": (
        changed("age: {role: quasi, type: numeric, as: int}", "age: {role: quasi, type: categorical}"),
        "(age)",
    ),
    "partition_by": (changed("partition_by: [town]\n", ""), "partition_by"),
    "k": (changed("k: 3", "k: 4"), "cohorts of 3"),
    "domain": (changed("as: int}", "as: int, domain: [0, 40], outside: code}"), "field age has values"),
    "not lasting": (changed("cohort: lasting", "cohort: window"), "cohort: lasting"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_policy_that_does_not_fit_is_refused_by_name(
    place: Path, first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    """Exit code 2, the reason, and nothing is published."""
    policy, told = REFUSED[case]
    name = f"{case.replace(' ', '_')}.yaml"
    (place / name).write_text(policy)
    assert anonymize(place, "01.csv", tmp_path / "out", "--continue", str(first), policy=name) == 2
    assert told in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("release/*"))


def _no_run(output: Path, place: Path) -> tuple[str, ...]:
    (output / "nothing").mkdir(parents=True)
    return ("--continue", str(output / "nothing"))


def _itself(output: Path, place: Path) -> tuple[str, ...]:
    return ("--continue", str(output / "out"))


def _no_cohorts(output: Path, place: Path) -> tuple[str, ...]:
    (place / "window.yaml").write_text(changed("cohort: lasting", "cohort: window"))
    assert anonymize(place, "01.csv", output / "window", policy="window.yaml") == 0
    return ("--continue", str(output / "window"))


def _other_secret(output: Path, place: Path) -> tuple[str, ...]:
    return ("--continue", str(output / "first"), "--secret-file", str(place / "other"))


def _no_secret(output: Path, place: Path) -> tuple[str, ...]:
    return ("--continue", str(output / "first"), "--secret-env", "KANONFLOW_NO_SUCH")


def _damaged(output: Path, place: Path) -> tuple[str, ...]:
    path = next((output / "first" / "restricted" / "cohorts").glob("*/000000.people.avro"))
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema, rows = json.loads(reader.metadata["avro.schema"]), list(reader)
    rows[0]["cohort"], rows[-1]["cohort"] = rows[-1]["cohort"], rows[0]["cohort"]  # type: ignore[index,call-overload]
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows)
    return ("--continue", str(output / "first"))


def _another_run(output: Path, place: Path) -> tuple[str, ...]:
    shutil.copytree(output / "first" / "restricted" / "cohorts", output / "out" / "restricted" / "cohorts")
    (output / "out" / "restricted" / "cohorts").chmod(0o700)
    (output / "out" / "restricted").chmod(0o700)
    return ()


@pytest.mark.parametrize(
    ("begin", "told"),
    [
        (_no_run, "no restricted/run.json"),
        (_itself, "DIR is --output itself"),
        (_no_cohorts, "has no cohorts"),
        (_other_secret, "another secret"),
        (_no_secret, "is not set"),
        (_damaged, "do not come to the digest"),
        (_another_run, "holds cohorts of another run"),
    ],
)
def test_a_directory_that_cannot_be_continued_is_refused_by_name(
    place: Path,
    first: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    begin: Callable[[Path, Path], tuple[str, ...]],
    told: str,
) -> None:
    """Exit code 2 and what to do; nothing is published."""
    as_another_run(first, tmp_path / "first")
    flags = begin(tmp_path, place)
    capsys.readouterr()
    assert anonymize(place, "01.csv", tmp_path / "out", *flags) == 2
    assert told in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("release/*"))


def test_a_rotated_secret_goes_on_with_the_one_before(place: Path, first: Path, tmp_path: Path) -> None:
    """Everybody is known still, and the next run names both."""
    rotated = ("--secret-file", str(place / "other"), "--previous-secret", f"file:{place / 'secret'}")
    assert anonymize(place, "01.csv", tmp_path / "out", "--continue", str(first), *rotated) == 0
    for folder in (first / "restricted" / "cohorts").iterdir():
        here = tmp_path / "out" / "restricted" / "cohorts" / folder.name
        assert sorted(path.name for path in here.glob("*.people.avro")) == ["000000.people.avro"]
    assert record(tmp_path / "out")["secret"] == record(first)["secret"]
    assert len(record(tmp_path / "out")["secrets"]) == 2


def test_a_directory_is_continued_once(
    place: Path, first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second output is refused by name and publishes nothing; the first, when it is gone, begins again if told to."""
    assert anonymize(place, "01.csv", tmp_path / "one", "--continue", str(first)) == 0
    assert anonymize(place, "01.csv", tmp_path / "two", "--continue", str(first)) == 2
    assert "another run continues it already" in capsys.readouterr().err
    assert not list((tmp_path / "two").glob("release/*"))
    # Nor does the run itself go on beside the one that continues it.
    capsys.readouterr()
    arguments = ["--input", str(place / "in" / "00.csv"), "--policy", str(place / "policy.yaml")]
    secret = ["--secret-file", str(place / "secret")]
    assert main(["anonymize", *arguments, *secret, "--output", str(first), "--resume", "--quiet"]) == 2
    assert "another run continues its cohorts" in capsys.readouterr().err
    # Whether what is gone was published nobody can tell here: who knows that it was not says so.
    shutil.rmtree(tmp_path / "one")
    assert anonymize(place, "01.csv", tmp_path / "one", "--continue", str(first)) == 2
    assert "is not there any more" in capsys.readouterr().err
    (first / "restricted" / "continued_by.json").unlink()
    assert anonymize(place, "01.csv", tmp_path / "one", "--continue", str(first)) == 0


def test_the_audit_of_a_run_that_continues_another_passes(place: Path, first: Path, tmp_path: Path) -> None:
    """Who entered before has no row in this input, and stands in the cohorts all the same."""
    output = tmp_path / "next"
    assert anonymize(place, "01.csv", output, "--continue", str(first)) == 0
    policy, feed, secret = str(place / "policy.yaml"), str(place / "in" / "01.csv"), str(place / "secret")
    flags = ["--policy", policy, "--input", feed, "--release", str(output), "--secret-file", secret]
    assert main(["verify", *flags]) == 0
