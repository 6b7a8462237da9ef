"""A run that renews: a new epoch of the people whom the run before knows, and what readers of both are left with."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from kanonflow.pipelines.audit import chain
from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.audit.followed_share import WHOLE, FollowedShare
from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.pipelines.cli import main
from kanonflow.schemas.renew import RenewedCohorts
from kanonflow.transforms.roster import renewal
from tests.pipelines.audit.good_runs import read

pytestmark = pytest.mark.thorough

POLICY = """
version: 1
k: 3
window: 1d
cohort: lasting
cohort_size: {size}
solver: {{evaluations_per_row: 20, threads: 1}}
fields:
  who: {{role: individual}}
  when: {{role: time}}
  age: {{role: quasi, type: numeric, as: int}}
  job: {{role: quasi, type: categorical}}
  amount: {{role: sensitive, as: "decimal(9,2)", accept_risk: rows of a test}}
{more}
"""
PEOPLE = 48


class Place:
    """A folder with a secret, files of nights, and a file of people."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "secret").write_bytes(bytes(range(7, 47)))
        (folder / "secret").chmod(0o600)

    def night(self, number: int, people: int = PEOPLE, moved: int = 0) -> Path:
        """Two rows of everybody on a day of March."""
        path = self.folder / f"{number}.csv"
        with path.open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(("who", "when", "age", "job", "amount"))
            for who in range(people):
                for row in (0, 1):
                    when = f"2024-03-{number + 1:02} {(who + row) % 24:02}:00:00"
                    out.writerow(
                        (f"p{who}", when, self.age(who, moved), "abcd"[who % 4], f"{who + row}.{number}5")
                    )
        return path

    @staticmethod
    def age(who: int, moved: int = 0) -> int:
        """Of a person; moved: everybody's is another."""
        return 20 + (who * 7 + moved * 13 * (who % 5)) % 60

    def people(self, moved: int, people: int = PEOPLE) -> Path:
        """What is known of everybody now."""
        path = self.folder / "people.csv"
        with path.open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(("who", "age", "job"))
            out.writerows((f"p{who}", self.age(who, moved), "abcd"[who % 4]) for who in range(people))
        return path

    def policy(self, more: str = "", size: int = 3, name: str = "policy.yaml") -> str:
        path = self.folder / name
        path.write_text(POLICY.format(more=more, size=size))
        return str(path)

    def run(self, policy: str, night: int, *flags: str) -> int:
        given = ["--policy", policy, "--input", str(self.folder / f"{night}.csv")]
        given += ["--output", str(self.out(night)), "--secret-file", str(self.folder / "secret"), "--quiet"]
        return main(["anonymize", *given, *flags])

    def out(self, night: int) -> Path:
        return self.folder / f"out{night}"

    def after(self, night: int) -> tuple[str, str]:
        return ("--continue", str(self.out(night - 1)))

    def verify(self, policy: str, *nights: int) -> int:
        given = ["--policy", policy]
        given += [word for each in nights for word in ("--input", str(self.folder / f"{each}.csv"))]
        given += ["--release", *(str(self.out(each)) for each in nights)]
        return main(["verify", *given, "--secret-file", str(self.folder / "secret")])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """With two nights, the first of which has run."""
    made = Place(tmp_path)
    for night in range(3):
        made.night(night)
    assert made.run(made.policy(), 0) == 0
    return made


def cohorts(output: Path) -> dict[int, int]:
    """The cohort of each person, by digest."""
    found = {}
    for path in output.glob("restricted/cohorts/*/*.people.avro"):
        found |= {row["person"]: row["cohort"] for row in read(path)[1]}
    return found


def ages(output: Path) -> Counter[int]:
    """The frozen values of everybody."""
    return Counter(
        row["age"] for path in output.glob("restricted/cohorts/*/*.people.avro") for row in read(path)[1]
    )


def shared(one: dict[int, int], other: dict[int, int]) -> Counter[int]:
    """How many people share both cohorts of each person, counted by themselves."""
    together: dict[tuple[int, int], int] = Counter((one[who], other[who]) for who in one)
    return Counter(together[one[who], other[who]] for who in one)


def facts(output: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((output / "renewal.json").read_text())
    return told


def epoch(output: Path) -> str:
    return str(json.loads((output / "restricted" / "run.json").read_text())["epoch"])


def rows_out(*outputs: Path) -> int:
    return sum(len(read(path)[1]) for output in outputs for path in (output / "release").glob("*.avro"))


def test_cohorts_are_kept_and_their_boxes_are_of_new_values(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """The refresh: who is together stays together, in a new epoch, under what the file of people says now."""
    place.people(moved=1)
    policy = place.policy("people: people.csv")
    assert place.run(policy, 1, *place.after(1), "--renew") == 0
    capsys.readouterr()
    assert place.verify(policy, 1) == 0
    assert (
        "what readers of several epochs are left with (renewal.json): the runs before"
        in capsys.readouterr().out
    )
    assert cohorts(place.out(1)) == cohorts(place.out(0))
    assert ages(place.out(1)) == Counter(place.age(who, 1) for who in range(PEOPLE)) != ages(place.out(0))
    assert epoch(place.out(1)) != epoch(place.out(0))
    assert facts(place.out(1))["least"] >= 3
    assert rows_out(place.out(0), place.out(1)) == 4 * PEOPLE
    for page in ("certificate.html", "restricted/report.html"):
        assert "The epoch began with a renewal (cohorts: kept)." in (place.out(1) / page).read_text()
    assert place.verify(policy, 0, 1) == 0
    assert "the runs before the renewal" not in capsys.readouterr().out


def test_what_a_search_leaves_is_told_before_it_is_done(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody is left with fewer than two people without a reason in the policy; with one it is done, and counted."""
    place.people(moved=1)
    policy = place.policy("people: people.csv\nrenew: {cohorts: searched}")
    assert place.run(policy, 1, *place.after(1), "--renew") == 2
    told = capsys.readouterr().err
    assert "min_peers = 2" in told
    assert "accept_risk" in told
    assert not any(place.out(1).glob("release/*.avro"))
    accepted = place.policy("people: people.csv\nrenew: {cohorts: searched, accept_risk: nobody has both}")
    assert place.run(accepted, 1, *place.after(1), "--renew") == 0
    counted = shared(cohorts(place.out(0)), cohorts(place.out(1)))
    assert facts(place.out(1))["least"] == min(counted)
    mean = sum(size * count for size, count in counted.items()) / PEOPLE
    assert facts(place.out(1))["mean"] == pytest.approx(mean, abs=0.05)
    # Why it is accepted is nobody's business but the owner's.
    assert facts(place.out(1))["accepted"] is True
    record = place.out(1) / "restricted" / "run.json"
    public = [path for path in place.out(1).rglob("*") if path.is_file() and "restricted" not in path.parts]
    assert "nobody has both" in record.read_text()
    assert not any(b"nobody has both" in path.read_bytes() for path in public)
    assert place.verify(accepted, 0, 1) == 0


def test_blocks_stay_together_over_all_epochs(place: Place) -> None:
    """Two renewals: over three epochs each person shares every cohort with a block of three or more."""
    place.people(moved=1)
    policy = place.policy(
        "people: people.csv\nrenew: {cohorts: blocks, min_peers: 3}", size=6, name="blocks.yaml"
    )
    assert place.run(policy, 1, *place.after(1), "--renew") == 0
    assert place.verify(policy, 1) == 0
    place.people(moved=2)
    assert place.run(policy, 2, *place.after(2), "--renew") == 0
    one, two, three = (cohorts(place.out(night)) for night in range(3))
    assert min(Counter(three.values()).values()) >= 6
    together = Counter((one[who], two[who], three[who]) for who in one)
    least = min(together[one[who], two[who], three[who]] for who in one)
    assert least >= 3
    assert facts(place.out(2))["least"] == least
    assert len({epoch(place.out(night)) for night in range(3)}) == 3
    assert place.verify(policy, 2) == 0
    assert place.verify(policy, 1, 2) == 0


def test_a_run_after_a_renewal_goes_on_in_its_epoch(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """With newcomers, who enter in cohorts of their own; what was renewed is still told."""
    place.people(moved=1)
    policy = place.policy("people: people.csv\nrenew: {cohorts: blocks}")
    place.night(2, people=PEOPLE + 9)
    assert place.run(policy, 1, *place.after(1), "--renew") == 0
    assert place.run(policy, 2, *place.after(2)) == 0
    assert epoch(place.out(2)) == epoch(place.out(1))
    assert facts(place.out(2)) == facts(place.out(1))
    before, now = cohorts(place.out(1)), cohorts(place.out(2))
    assert {who: now[who] for who in before} == before
    assert len(now) == PEOPLE + 9
    by_cohort = defaultdict(set)
    for who, cohort in now.items():
        by_cohort[cohort].add(who in before)
    assert all(len(kinds) == 1 for kinds in by_cohort.values())
    assert place.verify(policy, 0, 1, 2) == 0
    assert re.search(r"runs of the chain +3\n", capsys.readouterr().out)


def test_a_renewal_that_begins_again_is_the_same(place: Place) -> None:
    """A run that ended before it released anything begins its epoch with the same number and cohorts."""
    policy = place.policy("renew: {cohorts: blocks}")
    assert place.run(policy, 1, *place.after(1), "--renew") == 0
    first = {path.name: path.read_bytes() for path in place.out(1).glob("restricted/cohorts/*/*")}
    # As if it had ended before anything but the cohorts was there.
    for name in ("release", "restricted/metrics", "restricted/rejected", "restricted/slots"):
        shutil.rmtree(place.out(1) / name, ignore_errors=True)
    for name in ("run.json", "ended"):
        (place.out(1) / "restricted" / name).unlink(missing_ok=True)
    assert place.run(policy, 1, *place.after(1), "--renew") == 0
    assert {path.name: path.read_bytes() for path in place.out(1).glob("restricted/cohorts/*/*")} == first
    assert place.verify(policy, 0, 1) == 0


def test_flags_that_do_not_fit_are_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a run to continue, without new values for cohorts that stay, on a run that began without it."""
    policy = place.policy()
    assert place.run(policy, 1, "--renew") == 2
    assert "--continue" in capsys.readouterr().err
    assert place.run(policy, 1, *place.after(1), "--renew") == 2
    assert "name one (people:)" in capsys.readouterr().err
    assert place.run(policy, 1, *place.after(1)) == 0
    assert place.run(policy, 1, *place.after(1), "--resume", "--renew") == 2
    assert "began without it" in capsys.readouterr().err


def test_shards_are_renewed_each_by_itself(tmp_path: Path) -> None:
    """People keep their shard whatever a file says of them now, and the audit of both epochs agrees."""
    place = Place(tmp_path)
    for night in range(3):
        place.night(night)
    place.people(moved=0)
    policy = place.policy("people: people.csv\nrenew: {cohorts: blocks, min_peers: 3}", size=6)
    plan, feed = str(tmp_path / "plan.json"), str(tmp_path / "0.csv")
    made = ["plan", "--policy", policy, "--input", feed, "--shards", "2", "--accept-small", "--output", plan]
    assert main(made) == 0
    assert place.run(policy, 0, "--plan", plan) == 0
    place.people(moved=1)
    assert place.run(policy, 1, *place.after(1), "--renew", "--plan", plan) == 0
    assert place.verify(policy, 1) == 0
    assert place.run(policy, 2, *place.after(2), "--plan", plan) == 0
    assert place.verify(policy, 0, 1, 2) == 0
    assert len(list(place.out(1).glob("restricted/cohorts/*/together.avro"))) == 2


@pytest.mark.parametrize("form", ["searched", "blocks"])
def test_cohorts_that_the_gate_refuses_are_not_laid_down(
    place: Place, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever a search comes to: cohorts of one person each go nowhere."""

    def apart(people: Any, peers: int) -> Any:
        return np.arange(people.old.size)

    policy = place.policy(f"renew: {{cohorts: {form}, accept_risk: a test}}")
    with patch.dict(renewal._FORMS, {RenewedCohorts(form): apart}):
        assert place.run(policy, 1, *place.after(1), "--renew") == 2
    assert "the gate refused the cohorts of a partition: a new cohort has 1 people" in capsys.readouterr().err
    assert not list(place.out(1).glob("restricted/cohorts/*/*"))
    assert place.run(policy, 1, *place.after(1), "--renew") == 0


@pytest.mark.parametrize("renews", [True, False])
def test_cohorts_of_before_may_be_smaller_than_those_of_now(place: Place, *, renews: bool) -> None:
    """``cohort_size`` is for who enters: the audit asks k of cohorts that came with an earlier run, renewed or not."""
    place.night(1, people=70)
    place.people(moved=1)
    policy = place.policy("people: people.csv" if renews else "", size=6)
    assert place.run(policy, 1, *place.after(1), *["--renew"] * renews) == 0
    assert min(Counter(cohorts(place.out(1)).values()).values()) == 3
    assert place.verify(policy, 1) == 0


@pytest.mark.parametrize("form", ["kept", "blocks"])
def test_who_was_forgotten_keeps_a_place_or_is_in_no_cohort(place: Place, form: str) -> None:
    """In cohorts that are kept their boxes hold what they held; else those people come as strangers."""
    forgotten = [f"p{who}" for who in range(0, PEOPLE, 17)]
    names = place.folder / "gone.txt"
    names.write_text("".join(f"{name}\n" for name in forgotten))
    secret = ["--secret-file", str(place.folder / "secret")]
    assert main(["forget", str(place.out(0)), "--individual-file", str(names), *secret]) == 0
    (place.folder / "people.csv").write_text(
        "who,age,job\n" + "".join(f"p{who},{place.age(who, 1)},{'abcd'[who % 4]}\n" for who in range(1, 12))
    )
    policy = place.policy(f"people: people.csv\nrenew: {{cohorts: {form}}}")
    assert place.run(policy, 1, *place.after(1), "--renew") == 0
    (segment,) = place.out(1).glob("restricted/cohorts/*/000000.people.avro")
    assert len(read(segment)[1]) == (PEOPLE if form == "kept" else PEOPLE - len(forgotten))
    assert place.verify(policy, 0, 1) == 0


def forged(place: Place, change: str) -> None:
    """Take something of what the renewal in night 1 says, and put it otherwise."""
    told = place.out(1) / "renewal.json"
    record = place.out(1) / "restricted" / "run.json"
    (folder,) = place.out(1).glob("restricted/cohorts/*/")
    if change == "told":
        told.write_text(told.read_text().replace('"least": 3', '"least": 4'))
    elif change == "missing":
        told.unlink()
    elif change == "a file of the epoch before":
        record.write_text(record.read_text().replace('"1.csv"', '"0.csv"'))
    elif change == "an id of the epoch before":
        old, new = (sorted((place.out(night) / "release").glob("*.avro"))[0] for night in (0, 1))
        new.rename(new.with_name(old.name))
    elif change == "fewer, not accepted":
        told.write_text(told.read_text().replace('"min_peers": 2', '"min_peers": 4'))
    elif change == "another epoch":
        record.write_text(record.read_text().replace(epoch(place.out(0)), "0" * 16))
    elif change == "together":
        (folder / "together.avro").unlink()
    elif change == "an older pool":
        (folder / "carried.state").unlink()
    elif change == "fewer people":
        people = next(place.out(0).glob("restricted/cohorts/*/*.people.avro"))
        there = folder / "000000.people.avro"
        boxes = "boxes".join(there.name.split("people"))
        there.chmod(0o600)
        (folder / boxes).chmod(0o600)
        there.write_bytes(people.read_bytes())
        (folder / boxes).write_bytes(people.with_name(boxes).read_bytes())


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("told", "another number of people than readers"),
        ("missing", "renewal.json is missing"),
        ("another epoch", "it renewed another epoch"),
        ("together", "together.avro does not say"),
        ("a file of the epoch before", "1 files were read in two epochs"),
        ("an id of the epoch before", "1 ids stand for a release of two runs"),
        ("fewer, not accepted", "fewer than min_peers, and nobody has accepted that"),
        ("an older pool", "carried over is not what it began its epoch with"),
        ("fewer people", "frozen values that neither"),
    ],
)
def test_forged_renewals_are_found(
    place: Place, change: str, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each thing that a renewal says is held against the run before."""
    place.people(moved=1)
    policy = place.policy("people: people.csv")
    assert place.run(policy, 1, *place.after(1), "--renew") == 0
    assert place.verify(policy, 0, 1) == 0
    capsys.readouterr()
    forged(place, change)
    assert place.verify(policy, 0, 1) == 1
    assert found in capsys.readouterr().out


def test_the_verdict_over_epochs_is_that_of_the_epoch_that_was_followed_least(place: Place) -> None:
    """The first of two was followed in part: so was the whole, whatever came of the second."""
    place.people(moved=1)
    policy = place.policy("people: people.csv")
    assert place.run(policy, 1, *place.after(1), "--renew") == 0
    part, judged = FollowedShare(900, 1000, 1000), iter([FollowedShare(900, 1000, 1000), WHOLE])

    def audited(*of: Any, **checks: Any) -> AuditReport:
        return replace(audit(*of, **checks), followed=next(judged))

    outputs = [str(place.out(night)) for night in (0, 1)]
    with patch.object(chain, "audit", audited):
        report = chain.audit_chain(Path(policy), [str(place.folder / "[01].csv")], outputs)
    assert report.passed
    assert report.followed == part
    assert report.verdict == "passed in part"


def test_nothing_may_wait_where_a_reader_has_a_say_in_it(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of too few people wait; under ``against`` with drop that hangs on cohorts, so only kept ones go on."""
    against = "max_delay: 2d\nintake: 3\nagainst: {known_windows: {count: 1, drop: true}, max_dropped: 1}"
    few = place.folder / "few.csv"
    head, *lines = (place.folder / "0.csv").read_text().splitlines()
    late = [line.replace("2024-03-01", "2024-03-02") for line in lines[:2]]
    few.write_text("\n".join([head, *lines, *late]) + "\n")
    own = ["--secret-file", str(place.folder / "secret"), "--quiet", "--carry"]
    given = [
        "--policy",
        place.policy(against),
        "--input",
        str(few),
        "--output",
        str(place.folder / "carried"),
    ]
    assert main(["anonymize", *given, *own]) == 0
    place.people(moved=1)
    capsys.readouterr()
    for form, code in (("blocks", 2), ("kept", 0)):
        renewing = place.policy(f"{against}\npeople: people.csv\nrenew: {{cohorts: {form}}}")
        given = ["--policy", renewing, "--input", str(place.folder / "2.csv"), "--output", str(place.out(2))]
        renew = ["--continue", str(place.folder / "carried"), "--renew"]
        assert main(["anonymize", *given, *own, *renew]) == code
        if code:
            assert "2 rows wait there" in capsys.readouterr().err


def test_runs_of_two_epochs_are_judged_over_files_that_can_be_told_apart(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is not given is named, by the run that read it."""
    place.people(moved=1)
    policy = place.policy("people: people.csv")
    assert place.run(policy, 1, *place.after(1), "--renew") == 0
    (place.folder / "0.csv").rename(place.folder / "zero.csv")
    given = ["--policy", policy, "--input", str(place.folder / "[z12]*.csv")]
    assert main(["verify", *given, "--release", str(place.out(0)), str(place.out(1))]) == 2
    assert "0.csv" in capsys.readouterr().err
