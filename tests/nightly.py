"""Chains of nightly runs over a made-up feed: people who come and go, newcomers too few for a night's intake."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kanonflow.pipelines.cli import main
from tests.pipelines.audit.good_runs import read

HEADER = "who,when,age,job,shop,amount,ref"
POLICY = """
version: 1
name: nights
k: 3
window: 1d
max_delay: 2d
cohort: lasting
intake: 6
max_rejected: 1
solver: {evaluations_per_row: 20, threads: 1}
partition_by: [shop]
fields:
  who: {role: individual}
  when: {role: time}
  age: {role: quasi, type: numeric, as: int, domain: [0, 120]}
  job: {role: quasi, type: categorical}
  shop: {role: insensitive, accept_risk: made up}
  amount: {role: sensitive, as: "decimal(9,2)", accept_risk: made up}
  ref: {role: insensitive, accept_risk: made up}
"""
PEOPLE = 30
JOBS = ("baker", "clerk", "nurse", "smith")


@dataclass(frozen=True)
class Nights:
    """A place with a policy, a secret and a file a night, in/1.csv and so on; outputs of runs are beside them."""

    place: Path

    def anonymize(self, files: str, output: str, *flags: str) -> int:
        """One run; flags name outputs by ``@NAME``."""
        told = [str(self.place / flag[1:]) if flag.startswith("@") else flag for flag in flags]
        given = ["--policy", str(self.place / "policy.yaml"), "--input", str(self.place / "in" / files)]
        given += ["--output", str(self.place / output), "--secret-file", str(self.place / "secret")]
        return main(["anonymize", *given, "--quiet", *told])

    def chain(self, nights: int, *flags: str) -> list[str]:
        """So many nights, each continuing the one before; the names of their outputs."""
        for night in range(1, nights + 1):
            before = ("--continue", f"@out{night - 1}") if night > 1 else ()
            assert self.anonymize(f"{night}.csv", f"out{night}", *before, *flags) == 0
        return [f"out{night}" for night in range(1, nights + 1)]

    def verify(self, files: str, *outputs: str, secret: bool = True, flags: Sequence[str] = ()) -> int:
        """The audit of one output, or of several as a whole."""
        given = ["--policy", str(self.place / "policy.yaml"), "--input", str(self.place / "in" / files)]
        given += ["--secret-file", str(self.place / "secret")] if secret else []
        return main(["verify", *given, *flags, "--release", *(str(self.place / name) for name in outputs)])

    def releases(self, *outputs: str) -> Counter[tuple[str, ...]]:
        """Every release as its rows without ids, sorted; how often there is such a one."""
        found: Counter[tuple[str, ...]] = Counter()
        for name in outputs:
            for path in (self.place / name / "release").glob("[!.]*"):
                rows = ({**row, "release_id": None, "class_id": None} for row in read(path)[1])
                found[tuple(sorted(map(repr, rows)))] += 1
        return found


def night_lines(night: int, shops: int = 1) -> list[str]:
    """Rows of one day of March 2024: of some who are known, and of one or two newcomers, who then come often."""
    rng = random.Random(night)
    lines = []
    for who in range(PEOPLE + 2 * night):
        first = max(1, (who - PEOPLE) // 2 + 1)
        if night < first or (night > first and rng.random() < 0.4):
            continue
        turns = range(rng.randint(1, 2))
        lines += [line(who, night, rng.randrange(1440), f"n{night}-{who}-{turn}", shops) for turn in turns]
    return lines


def line(who: int, day: int, minute: int, ref: str, shops: int = 1) -> str:
    """One row; what a person is follows from the number."""
    own = random.Random(1000 + who)
    age, job = own.randint(18, 80), own.choice(JOBS)
    when = f"2024-03-{day:02} {minute // 60:02}:{minute % 60:02}:00"
    return f"p{who:02},{when},{age},{job},s{who % shops},{minute / 7:.2f},{ref}"


def nights_of(place: Path, files: Iterable[Sequence[str]], policy: str = POLICY) -> Nights:
    """Write policy, secret and a file of lines for each night."""
    (place / "in").mkdir(parents=True)
    (place / "policy.yaml").write_text(policy)
    (place / "secret").write_bytes(bytes(range(31, 71)))
    (place / "secret").chmod(0o600)
    for night, lines in enumerate(files, 1):
        (place / "in" / f"{night}.csv").write_text("\n".join([HEADER, *lines]) + "\n")
    return Nights(place)


def as_another_run(output: Path, target: Path) -> Path:
    """A copy of an output as if another run had made it there: a plain copy is refused where both go on."""
    shutil.copytree(output, target)
    path = target / "restricted/run.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"identity": {"id": target.name, "output": str(target.resolve())}}))
    return target
