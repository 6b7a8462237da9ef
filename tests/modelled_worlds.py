"""Small worlds through the product's step and through the model of ``proofs/Step.v``, and what both come to.

A world says of each person and window which row it has, or none. The model is given what the product's founding and
merging answered; what it asked them is compared with what the product did, and with their answers to the same
question in every other world: an answer may follow from nothing else.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.protections import intake
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.release.ledger import KNOWN_OTHERWISE
from kanonflow.transforms.roster.founding import Founded, found
from kanonflow.transforms.roster.roster import Segment
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from kanonflow.transforms.windows.step import PartitionStep
from tests.lasting_feeds import EPOCH, KEY, lasting_policy
from tests.small_feeds import HOUR, SECRET, START, bound_feed, canonical, row

PAYLOADS = ("10.5", "20.5")

World = tuple[tuple[int, ...], ...]
"""Of each person, of each window: 0 no row, 1 or 2 a row with that payload."""


class StepFacts(NamedTuple):
    """What a step comes to: as text, in the form of the model's program.

    homes: the cohort of each person, ``step.number``. pool: who founding was asked of. counts: what merging was asked.
    groups, out, rejected, waits: of cohorts, and of rows.
    """

    homes: str
    pool: str
    counts: str
    groups: str
    out: str
    rejected: str
    waits: str


NOTHING = "-"


@dataclass(frozen=True)
class Rules:
    """Of a policy, counted in windows. known: for a reader of so many windows rows are dropped; 0: none are."""

    people: int
    windows: int
    k: int = 2
    cohort_size: int = 2
    intake: int = 3
    percent: int = 0
    delay: int = 1
    known: int = 0

    @property
    def steps(self) -> int:
        """Until nothing waits any more."""
        return self.windows + self.delay

    def policy(self) -> Policy:
        """The same, as the product has it."""
        return lasting_policy(
            k=self.k,
            cohort_size=self.cohort_size,
            intake=self.intake,
            intake_share=self.percent / 100,
            max_delay=f"{self.delay}h",
            **({"against": {"known_windows": {"count": self.known, "drop": True}}} if self.known else {}),
        )

    def worlds(self) -> Iterator[World]:
        """All of them: 3 ** (people * windows)."""
        trails = itertools.product(range(3), repeat=self.windows)
        return itertools.product(list(trails), repeat=self.people)

    def representatives(self) -> Iterator[World]:
        """One of each set of worlds that are equal but for who is called what: trails in order."""
        trails = itertools.product(range(3), repeat=self.windows)
        return itertools.combinations_with_replacement(list(trails), self.people)

    def random(self, rng: np.random.Generator) -> World:
        """One of them."""
        drawn = rng.integers(3, size=(self.people, self.windows))
        return tuple(tuple(map(int, trail)) for trail in drawn)

    def number(self, person: int, window: int, payload: int) -> int:
        """Of a row."""
        return (person * self.windows + window) * 2 + payload - 1


@dataclass
class Product:
    """The product's step over worlds. alike: how many people each have equal quasi-identifiers; 1: none do.

    answered: of each question to founding and merging, the answer. differing: questions that were answered in two ways.
    dropped: rows, for a reader who knows more. undone: intakes that were tried and came to nothing by that.
    """

    rules: Rules
    alike: int = 2
    answered: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    differing: list[tuple[Any, ...]] = field(default_factory=list)
    dropped: int = 0
    undone: int = 0

    def __post_init__(self) -> None:
        rules = self.rules
        self._bound = bound_feed(rules.policy())
        self._step = PartitionStep(self._bound, SECRET, 1, time=lambda: 0.0, epoch=EPOCH)
        names = [f"p{person}" for person in range(rules.people)]
        self._digests = person_digests(names, SECRET.lasting.derive("partition", "people"))
        cells = itertools.product(range(rules.people), range(rules.windows), (1, 2))
        records = []
        for person, window, payload in cells:
            look = {"age": str(20 + 10 * (person // self.alike)), "job": "clerk"} if self.alike > 1 else {}
            number = rules.number(person, window, payload)
            records.append(row(number, person, window + 0.5, amount=PAYLOADS[payload - 1], **look))
        self._rows = canonical(records, self._bound)

    def run(self, world: World) -> tuple[list[StepFacts], str]:
        """What the product comes to in a world, and the world with its answers as the model's program reads it."""
        rules = self.rules
        partition = PartitionInMemory(self._step, KEY)
        for window in range(rules.windows):
            here = [
                rules.number(person, window, trail[window])
                for person, trail in enumerate(world)
                if trail[window]
            ]
            if here:
                # The number of the first hour of all feeds is that of no window: they are counted from 1970.
                partition.arrive(START // HOUR + window, self._rows.take(pa.array(here)))
        facts: list[StepFacts] = []
        founded: list[tuple[int, int, int]] = []
        merged: list[tuple[int, int, int, int]] = []
        homes: list[tuple[int, int] | None] = [None] * rules.people
        numbers: dict[int, tuple[int, int]] = {}
        waits: list[int] = []
        results, tried = self._finish(partition)
        at = {_step_of(result): result for result in results}
        assert len(at) == len(results)
        last: list[tuple[tuple[int, int], int]] = []
        for step in range(1, rules.steps + 1):
            result = at.pop(step, None)
            if result is None:
                shown = ",".join(map(_home, homes))
                facts.append(
                    StepFacts(shown, NOTHING, NOTHING, NOTHING, "", "", ",".join(_owned(rules, waits)))
                )
                continue
            new = [
                rules.number(person, step - 1, trail[step - 1])
                for person, trail in enumerate(world)
                if step <= rules.windows and trail[step - 1]
            ]
            here = sorted({*waits, *new})
            pool = self._enter(step, result, tried.get(step), homes, numbers, founded)
            gone = [_number(record["row"]) for record in result.rejected]
            self.dropped += sum(record["reason"] == KNOWN_OTHERWISE for record in result.rejected)
            waits = [] if result.warm.waiting is None else _numbers(result.warm.waiting)
            counts, groups, out = NOTHING, NOTHING, ""
            if result.release is not None:
                here = [number for number in here if number not in gone]
                counts, groups, out, last = self._groups(step, result, homes, numbers, here, last, merged)
            facts.append(
                StepFacts(
                    ",".join(map(_home, homes)),
                    pool,
                    counts,
                    groups,
                    out,
                    ",".join(_owned(rules, gone)),
                    ",".join(_owned(rules, waits)),
                )
            )
        assert not at, "a step after all that could be due"
        return facts, self._line(world, founded, merged)

    def _finish(
        self, partition: PartitionInMemory
    ) -> tuple[list[WindowResult], dict[int, tuple[Segment, tuple[int, ...]]]]:
        """All results, and what founding answered in each step, also where no release came of it (``against``); and
        whom of those who were asked about an intake had put together before that came to nothing."""
        answers: list[tuple[Segment, tuple[int, ...]]] = []

        def recorded(*of: Any, **named: Any) -> Founded:
            made = found(*of, **named)
            answers.append((made.segment, tuple(of[0].tried.tolist())))
            return made

        results, tried = [], {}
        with patch.object(intake, "found", recorded):
            for result in partition.finish():
                results.append(result)
                if answers:
                    tried[_step_of(result)] = answers.pop()
        return results, tried

    def _enter(
        self,
        step: int,
        result: WindowResult,
        answered: tuple[Segment, tuple[int, ...]] | None,
        homes: list[tuple[int, int] | None],
        numbers: dict[int, tuple[int, int]],
        founded: list[tuple[int, int, int]],
    ) -> str:
        if answered is None:
            return NOTHING
        segment, tried = answered
        of = dict(zip(segment.people.tolist(), segment.cohort.tolist(), strict=True))
        entered = [person for person, digest in enumerate(self._digests.tolist()) if digest in of]
        cohorts = [of[digest] for digest in self._digests.tolist() if digest in of]
        answer = [(step, p, cohort - min(cohorts)) for p, cohort in zip(entered, cohorts, strict=True)]
        founded += answer
        self._remember(("found", step, *entered, *tried), tuple(answer))
        if result.segment is None:
            self.undone += 1
            return NOTHING
        for (_, person, number), cohort in zip(answer, cohorts, strict=True):
            homes[person] = numbers[cohort] = (step, number)
        return ",".join(map(str, entered))

    def _groups(
        self,
        step: int,
        result: WindowResult,
        homes: Sequence[tuple[int, int] | None],
        numbers: dict[int, tuple[int, int]],
        here: Sequence[int],
        last: list[tuple[tuple[int, int], int]],
        merged: list[tuple[int, int, int, int]],
    ) -> tuple[str, str, str, list[tuple[tuple[int, int], int]]]:
        assert result.release is not None
        assert result.warm.roster is not None
        found = result.warm.roster.last
        made = [
            (numbers[int(cohort)], int(group))
            for cohort, group in zip(found.cohorts, found.groups, strict=True)
        ]
        of = dict(made)
        table = from_ipc(result.release.ipc)
        released = _numbers(table)
        owner = self.rules.windows * 2
        rows: dict[tuple[int, int], list[int]] = {}
        for number in here:
            home = homes[number // owner]
            if home is not None:
                rows.setdefault(home, []).append(number // owner)
        counts = ",".join(f"{_home(c)}={len(rows[c])}/{len(set(rows[c]))}" for c, _ in made)
        known = ",".join(map(_home, homes))
        asked = "|".join((known, ",".join(f"{_home(c)}={group}" for c, group in last), counts))
        groups = ",".join(f"{_home(c)}={group}" for c, group in made)
        out = []
        classes: dict[int, set[int]] = {}
        for number, label in zip(released, table.column("class_id").to_pylist(), strict=True):
            home = homes[number // owner]
            assert home is not None
            classes.setdefault(label, set()).add(of[home])
            out.append(f"{number // owner}:{of[home]}:{number}")
        # Payload is dealt out within a group, so which row is whose cannot be told; but each group is one class.
        assert all(len(group) == 1 for group in classes.values())
        merged += [(step, *cohort, group) for cohort, group in made]
        self._remember(("merge", step, asked), groups)
        return asked, groups, ",".join(sorted(out)), made

    def _remember(self, question: tuple[Any, ...], answer: Any) -> None:
        if self.answered.setdefault(question, answer) != answer:
            self.differing.append(question)

    def _line(
        self,
        world: World,
        founded: Sequence[tuple[int, int, int]],
        merged: Sequence[tuple[int, int, int, int]],
    ) -> str:
        rules = self.rules
        policy = [rules.k, rules.cohort_size, rules.intake, rules.percent, rules.delay, rules.known, rules.k]
        words = [rules.people, *policy, rules.steps]
        for step in range(1, rules.steps + 1):
            words += [step, 0]
        for step in range(1, rules.steps + 1):
            for person, trail in enumerate(world):
                payload = trail[step - 1] if step <= rules.windows else 0
                words += [1, step, rules.number(person, step - 1, payload)] if payload else [0]
        words += [len(founded), *itertools.chain.from_iterable(founded)]
        words += [len(merged), *itertools.chain.from_iterable(merged)]
        return " ".join(map(str, words))


def modelled(lines: Iterable[str], program: Path) -> list[list[StepFacts]]:
    """What the model comes to in each world."""
    made = subprocess.run(
        [program], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True
    )
    return [
        [
            StepFacts(*step.split(";"))._replace(
                out=",".join(sorted(filter(None, step.split(";")[4].split(","))))
            )
            for step in line.split(" ")
        ]
        for line in made.stdout.splitlines()
    ]


def differences(product: Product, worlds: Sequence[World], program: Path) -> list[str]:
    """Worlds in which the two differ, each with the step and both; and questions that were answered in two ways."""
    runs = [product.run(world) for world in worlds]
    models = modelled((line for _, line in runs), program)
    differ = [f"two answers to {question}" for question in product.differing]
    for world, (facts, _), model in zip(worlds, runs, models, strict=True):
        for step, (ours, theirs) in enumerate(zip(facts, model, strict=True), 1):
            if ours != theirs:
                differ.append(f"{world}, step {step}:\n  product {ours}\n  model   {theirs}")
    return differ


def tools() -> str | None:
    """What is missing to check the proofs and to build the model's program; None: nothing."""
    missing = [name for name in ("coqc", "ocamlfind", "ocamlopt") if shutil.which(name) is None]
    return (
        f"needs {', '.join(missing)} (apt-get install coq libcoq-mathcomp-algebra ocaml-findlib)"
        if missing
        else None
    )


def _step_of(result: WindowResult) -> int:
    return int((result.metrics["window_end"] - START) // HOUR)


def _home(cohort: tuple[int, int] | None) -> str:
    return NOTHING if cohort is None else f"{cohort[0]}.{cohort[1]}"


def _owned(rules: Rules, numbers: Sequence[int]) -> list[str]:
    return [f"{number // (rules.windows * 2)}:{number}" for number in sorted(numbers)]


def _number(values: dict[str, Any]) -> int:
    return int(values["reference"][1:])


def _numbers(table: pa.Table) -> list[int]:
    return [int(text[1:]) for text in table.column("reference").to_pylist()]
