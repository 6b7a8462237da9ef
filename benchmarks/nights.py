"""Thirty nights of sparkov, chained: is the chain one run of thirty days, and does its audit pass?

The rows of each day are a file. Each night's run continues the one before (``--continue``, ``--carry``); every fifth is
killed (SIGKILL) while it runs, at a time drawn anew, and goes on with ``--resume``. Beside it one run reads all files.

    equal       releases of the chain that the one run has too, row for row, but for the ids
    verified    each night by itself, and all as a whole, with the secret
    exported    rows in one data set
    swapped     two people of some cohorts, evenly over all that were founded in any night, exchange all their rows in
                the input files: the chain comes to the same boxes, groups and windows, release by release

The example policy: k = 5, windows of a day, rows may wait for two more.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import fastavro

from benchmarks.data_sets import SPARKOV, MissingDataError, data_path
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish

POLICY = Path(__file__).parents[1] / "policies" / "sparkov.yaml"
COLUMNS = (
    "nights",
    "kills",
    "rows",
    "releases",
    "equal",
    "verified",
    "exported rows",
    "swapped pairs",
    "boxes same",
)
_NAMES = (
    "cc_num",
    "gender",
    "city",
    "state",
    "zip",
    "lat",
    "long",
    "city_pop",
    "job",
    "dob",
    "first",
    "last",
    "street",
)
Release = tuple[str, ...]


class Nights:
    """A folder with a policy, a secret and a file a night; runs of it."""

    def __init__(self, place: Path, source: Path, nights: int) -> None:
        self.place, self.nights = place, nights
        (place / "policy.yaml").write_bytes(POLICY.read_bytes())
        (place / "secret").write_bytes(bytes(range(5, 45)))
        (place / "secret").chmod(0o600)
        self.days = _days(source, nights)
        self.write("in", {})

    def write(self, folder: str, other: Mapping[str, Mapping[str, str]]) -> None:
        """A file a night. other: people, by number, who take the place of another, as the cells that are theirs."""
        (self.place / folder).mkdir()
        for number, rows in enumerate(self.days, 1):
            with (self.place / folder / f"{number:02}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, rows[0].keys())
                writer.writeheader()
                writer.writerows({**row, **other.get(row["cc_num"], {})} for row in rows)

    def run(self, files: str, output: str, *flags: str, kill: float | None = None) -> float:
        """Seconds of one run; killed after so many seconds, it goes on."""
        began = time.perf_counter()
        command = self._command(
            "anonymize", files, "--output", str(self.place / output), "--quiet", "--carry", *flags
        )
        if kill is not None:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                process.wait(kill)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
            if process.returncode == 0:
                return time.perf_counter() - began
            if (self.place / output / "restricted" / "run.json").exists():
                command = [*[each for each in command if each not in flags], "--resume"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began

    def chain(self, folder: str, prefix: str, kills: Sequence[int] = (), seed: int = 1) -> list[str]:
        """All nights, one continuing the other."""
        rng = random.Random(seed)
        before: tuple[str, ...] = ()
        for night in range(1, self.nights + 1):
            kill = rng.uniform(1.5, 6.0) if night in kills else None
            seconds = self.run(f"{folder}/{night:02}.csv", f"{prefix}{night}", *before, kill=kill)
            print(f"{prefix}{night}: {seconds:.1f} s{' (killed and resumed)' if kill else ''}", flush=True)
            before = ("--continue", str(self.place / f"{prefix}{night}"))
        return [f"{prefix}{night}" for night in range(1, self.nights + 1)]

    def verified(self, files: str, *outputs: str) -> bool:
        """Whether the audit passes."""
        names = [str(self.place / output) for output in outputs]
        done = subprocess.run(
            self._command("verify", files, "--release", *names), capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(f"{outputs}: {done.stdout[:2000]}{done.stderr[-500:]}", flush=True)
        return done.returncode == 0

    def exported(self, outputs: Sequence[str]) -> int:
        """Rows of all of them in one data set."""
        names = [str(self.place / output) for output in outputs]
        target = self.place / "all.csv"
        command = [sys.executable, "-m", "kanonflow.pipelines.cli", "export", *names, "--to", "csv"]
        subprocess.run([*command, "--output", str(target)], check=True, stdout=subprocess.DEVNULL)
        with target.open(newline="", encoding="utf-8") as file:
            return sum(1 for _ in csv.DictReader(file))

    def releases(self, outputs: Sequence[str], leave_out: Sequence[str] = ()) -> Counter[Release]:
        """Every release as its sorted rows, without ids and some columns."""
        found: Counter[Release] = Counter()
        without = {"release_id", "class_id", *leave_out}
        for output in outputs:
            for path in (self.place / output / "release").glob("[!.]*"):
                with path.open("rb") as stream:
                    rows = [
                        {name: row[name] for name in row if name not in without}
                        for row in fastavro.reader(stream)
                    ]  # type: ignore[union-attr]
                found[tuple(sorted(map(repr, rows)))] += 1
        return found

    def _command(self, name: str, files: str, *flags: str) -> list[str]:
        given = ["--policy", str(self.place / "policy.yaml"), "--input", str(self.place / files)]
        given += ["--secret-file", str(self.place / "secret")]
        return [sys.executable, "-m", "kanonflow.pipelines.cli", name, *given, *flags]


def _days(source: Path, nights: int) -> list[list[dict[str, str]]]:
    days: dict[str, list[dict[str, str]]] = defaultdict(list)
    with gzip.open(source, "rt", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            day = row["trans_date_trans_time"][:10]
            if day not in days and len(days) == nights:
                break
            days[day].append(row)
    return list(days.values())


def exchanged(nights: Nights, output: str, pairs: int) -> dict[str, dict[str, str]]:
    """The cells that people of one cohort take over from each other, for two people of each of some cohorts.

    output: of the last night, which knows the cohorts of all.
    """
    people = {row["cc_num"]: {name: row[name] for name in _NAMES} for day in nights.days for row in day}
    cohort_of = cohorts(nights, output, list(people))
    members: dict[int, list[str]] = defaultdict(list)
    for name, cohort in sorted(cohort_of.items()):
        members[cohort].append(name)
    other: dict[str, dict[str, str]] = {}
    founded = [members[cohort] for cohort in sorted(members)]
    for names in founded[:: max(1, len(founded) // max(1, pairs))][:pairs]:
        one, two = names[:2]
        other |= {one: people[two], two: people[one]}
    return other


def cohorts(nights: Nights, output: str, people: Sequence[str]) -> dict[str, int]:
    """The cohort of each person who entered by the end of a run."""
    import numpy as np
    import pyarrow as pa

    from kanonflow.pipelines.audit.read.person_digests import digests_of_codes
    from kanonflow.pipelines.audit.read.values import CodeBook
    from kanonflow.schemas.bound_policy import bind
    from kanonflow.schemas.policy_source import read_policy
    from kanonflow.transforms.secret.seeds import Secret, people_key

    policy = read_policy(str(nights.place / "policy.yaml"))
    columns = pa.schema([(name, pa.string()) for name in nights.days[0][0]])
    book = CodeBook(bind(policy, columns, text=True, source="in").column("cc_num"))
    book.codes_of_texts(people)
    key = people_key(Secret((nights.place / "secret").read_bytes()))
    digests = digests_of_codes(book, key).view(np.int64).tolist()
    entered: dict[int, int] = {}
    for path in (nights.place / output / "restricted" / "cohorts").glob("*/*.people.avro"):
        with path.open("rb") as stream:
            entered |= {row["person"]: row["cohort"] for row in fastavro.reader(stream)}  # type: ignore[index, misc]
    return {name: entered[digest] for name, digest in zip(people, digests, strict=True) if digest in entered}


def measure(table: ResultTable, source: Path, place: Path, nights: int, pairs: int) -> None:
    """One row of the table."""
    feed = Nights(place, source, nights)
    kills = range(3, nights + 1, 5)
    outputs = feed.chain("in", "out", kills)
    feed.run("in/*.csv", "whole")
    chained, whole = feed.releases(outputs), feed.releases(["whole"])
    equal = (chained & whole).total() / max(whole.total(), chained.total())
    print(f"{chained.total()} and {whole.total()} releases, {equal:.3f} equal", flush=True)
    as_one = feed.verified("in/*.csv", *outputs)
    exported = feed.exported(outputs)
    print(f"the whole verified: {as_one}; exported {exported} of {sum(map(len, feed.days))} rows", flush=True)
    verified = sum(feed.verified(f"in/{night:02}.csv", output) for night, output in enumerate(outputs, 1))
    print(f"{verified} nights verified", flush=True)
    payload = [name for name in feed.days[0][0] if name not in _NAMES]
    payload = [*payload, *(name.replace(" ", "_") for name in payload)]
    same: float | None = None
    if pairs:
        other_cells = exchanged(feed, outputs[-1], pairs)
        pairs = len(other_cells) // 2
        feed.write("swapped", other_cells)
        other = feed.releases(feed.chain("swapped", "swap"), payload)
        boxes = feed.releases(outputs, payload)
        same = (boxes & other).total() / boxes.total()
    table.rows.append(
        (
            nights,
            len(kills),
            sum(map(len, feed.days)),
            chained.total(),
            equal,
            f"{verified} of {nights}, {'and' if as_one else 'NOT'} the whole",
            exported,
            pairs,
            same,
        )
    )


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Nights of sparkov, chained.")
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument(
        "--pairs", type=int, default=10, help="of people who exchange their trails; 0: no second chain"
    )
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("nights", __doc__ or "")
    table = findings.table("Nights of sparkov", COLUMNS)
    try:
        with tempfile.TemporaryDirectory() as work:
            measure(table, data_path(SPARKOV), Path(work), arguments.nights, arguments.pairs)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    sys.exit(main())
