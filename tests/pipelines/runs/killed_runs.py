"""Runs of ``kanonflow anonymize`` that die at a chosen point, each in a process of its own, forked from one that has
everything loaded.

    python -m tests.pipelines.runs.killed_runs FOLDER PROTECT CASES     -> one JSON line a case

A run dies at the n-th file operation (just before or just after a file gets its name), or after some time.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import numpy as np

from kanonflow.pipelines import cli
from kanonflow.pipelines.audit import audit  # noqa: F401
from kanonflow.pipelines.commands import policy_location  # noqa: F401
from kanonflow.pipelines.options import options  # noqa: F401
from kanonflow.pipelines.runs import anonymize_files  # noqa: F401
from kanonflow.schemas.policy_source import read_policy
from kanonflow.solvers.warm_up import warm_up
from kanonflow.transforms.anonymize import KAnonymize  # noqa: F401
from kanonflow.transforms.files import create_if_absent
from kanonflow.transforms.protections.protection_of import protection_of

POLICY = """
version: 1
k: 3
protect: {protect}
window: 1d
max_delay: 2d
solver: {{evaluations_per_row: 4000, threads: 1}}
fields:
  number: {{role: insensitive, as: int, accept_risk: numbers of a test}}
  day: {{role: time}}
  who: {{role: individual}}
  age: {{role: quasi, type: numeric, as: int}}
  town: {{role: quasi, type: categorical}}
"""
DAYS = 4
ROWS = 160
DEADLINE_MS = 25


def afresh(protect: str) -> str:
    """The value of ``protect``, and for individuals the line that puts them together afresh in each window."""
    return "individual\ncohort: window" if protect == "individual" else protect


def write_inputs(folder: Path, protect: str) -> None:
    """A feed with a unique number a row, of people with several rows, a policy and a secret."""
    rng = np.random.default_rng(11)
    lines = [
        f"{number},2024-03-{1 + int(rng.integers(DAYS)):02}T{int(rng.integers(24)):02}:00:00Z,p{who},"
        f"{20 + who * 7 % 60},t{who % 5}"
        for number, who in enumerate(rng.integers(0, 40, ROWS))
    ]
    (folder / "in.csv").write_text("\n".join(["number,day,who,age,town", *lines]) + "\n")
    (folder / "p.yaml").write_text(POLICY.format(protect=afresh(protect)))
    (folder / "secret").write_bytes(bytes(range(100, 140)))
    (folder / "secret").chmod(0o600)


def arguments(folder: Path, output: Path) -> list[str]:
    """A run under a deadline that strikes."""
    places = ["--policy", "p.yaml", "--input", "in.csv", "--secret-file", "secret"]
    places = [part if part.startswith("--") else str(folder / part) for part in places]
    return ["anonymize", *places, "--output", str(output), "--quiet", "--deadline-ms", str(DEADLINE_MS)]


def forked(action: Callable[[], int]) -> int:
    """The exit code of an action in a process of its own; minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os._exit(action())
        os._exit(99)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def dying_at(operation: int, action: Callable[[], int]) -> Callable[[], int]:
    """The action, killed at its n-th file operation: naming a file is two, one before and one after."""

    def act() -> int:
        link, done = create_if_absent.os.link, 0

        def deadly(*positional: Any) -> None:
            nonlocal done
            done += 1
            if done == operation:
                os.kill(os.getpid(), signal.SIGKILL)
            link(*positional)
            done += 1
            if done == operation:
                os.kill(os.getpid(), signal.SIGKILL)

        os.link = deadly  # type: ignore[assignment]
        return action()

    return act


def dying_after(seconds: float, action: Callable[[], int]) -> Callable[[], int]:
    """The action, ended by the system's alarm, which nothing handles."""

    def act() -> int:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        return action()

    return act


def numbers(folder: Path) -> Iterator[int]:
    """The row numbers in the files of a folder."""
    for path in folder.glob("*.avro"):
        with path.open("rb") as stream:
            for record in fastavro.reader(stream):
                assert isinstance(record, dict)
                yield int(record["number"] if "number" in record else record["row"]["number"])


def case(folder: Path, number: int, rng: np.random.Generator, seconds: float) -> dict[str, Any]:
    """One to three deaths, then a run that ends; what is there then, and what ``verify`` says."""
    output = folder / f"out-{number}"
    run = arguments(folder, output)
    deaths = []
    for death in range(int(rng.integers(1, 4))):
        started = [*run, "--resume"]

        def action(given: list[str] = started) -> int:
            return cli.main(given)

        # A first run names more than 12 files; one that resumes finds some of them, and may live.
        if death == 0 or rng.random() < 0.5:
            deaths.append(forked(dying_at(int(rng.integers(1, 25 if death == 0 else 13)), action)))
        else:
            deaths.append(forked(dying_after(float(rng.random()) * seconds, action)))
    code = forked(lambda: cli.main([*run, "--resume"]))
    released = Counter(numbers(output / "release"))
    rejected = Counter(numbers(output / "restricted" / "rejected"))
    checked = [
        "--policy",
        str(folder / "p.yaml"),
        "--input",
        str(folder / "in.csv"),
        "--release",
        str(output),
    ]
    with contextlib.redirect_stdout(sys.stderr):
        audited = forked(lambda: cli.main(["verify", *checked]))
    return {
        "deaths": deaths,
        "code": code,
        "twice": sorted(row for row, count in (released + rejected).items() if count > 1),
        "missing": sorted(set(range(ROWS)) - set(released) - set(rejected)),
        "released": released.total(),
        "verify": audited,
    }


def main() -> None:
    """As the module says."""
    folder, protect, cases = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    write_inputs(folder, protect)
    warm_up(protection_of(read_policy(str(folder / "p.yaml"))).shape, ruled=False, hierarchies=False)
    rng = np.random.default_rng(17)
    for number in range(cases):
        print(json.dumps(case(folder, number, rng, 2.0)), flush=True)


if __name__ == "__main__":
    main()
