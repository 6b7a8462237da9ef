"""Small worlds through the product's step and through the model of ``proofs/Step.v``, and what both come to.

A world says of each person and window which row it has, or none. The model is given what the product's founding and
merging answered; what it asked them is compared with what the product did, and with their answers to the same
question in every other world: an answer may follow from nothing else.
"""

from __future__ import annotations

import copy
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
class Course:
    """A world on its way: what the product holds of it, and what each step came to so far.

    trails: of each person, what came. homes: of each person the cohort, ``(step, number)``; numbers: of the product's
    cohorts the same. waits: rows. last: groups of the last release. founded, merged: all answers.
    """

    partition: PartitionInMemory
    trails: World
    homes: list[tuple[int, int] | None]
    numbers: dict[int, tuple[int, int]] = field(default_factory=dict)
    waits: list[int] = field(default_factory=list)
    last: list[tuple[tuple[int, int], int]] = field(default_factory=list)
    founded: list[tuple[int, int, int]] = field(default_factory=list)
    merged: list[tuple[int, int, int, int]] = field(default_factory=list)
    facts: list[StepFacts] = field(default_factory=list)

    def fork(self) -> Course:
        """The same, to be led elsewhere: what a partition holds is never changed, but replaced or added to."""
        other = copy.copy(self)
        other.partition = copy.copy(self.partition)
        for held in (other, other.partition):
            for name, value in vars(held).items():
                if isinstance(value, (list, dict)):
                    setattr(held, name, value.copy())
        return other


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

    def begun(self) -> Course:
        """Before the first step."""
        people = self.rules.people
        return Course(PartitionInMemory(self._step, KEY), ((),) * people, homes=[None] * people)

    def run(self, world: World) -> tuple[list[StepFacts], str]:
        """What the product comes to in a world, and the world with its answers as the model's program reads it."""
        course = self.begun()
        for window in range(self.rules.windows):
            self.go_on(course, [trail[window] for trail in world])
        return self.ended(course)

    def walk(self, course: Course, last: int) -> Iterator[Course]:
        """All courses of so many windows that begin with this one, one of those that are equal but for who is called
        what: of people with equal trails so far the order of what comes says nothing. What they have in common is
        done once."""
        if len(course.facts) == last:
            yield course
            return
        alike = [len(list(same)) for _, same in itertools.groupby(course.trails)]
        ways = [itertools.combinations_with_replacement(range(3), people) for people in alike]
        for chosen in itertools.product(*map(list, ways)):
            longer = course.fork()
            self.go_on(longer, list(itertools.chain.from_iterable(chosen)))
            yield from self.walk(longer, last)

    def ended(self, course: Course) -> tuple[list[StepFacts], str]:
        """What ``run`` returns, of a course whose windows have all come."""
        while len(course.facts) < self.rules.steps:
            self.go_on(course, [])
        for result in course.partition.finish():
            raise AssertionError(f"a step after all that could be due: {result.metrics['window_end']}")
        return course.facts, self._line(course)

    def go_on(self, course: Course, came: Sequence[int]) -> None:
        """One step. came: of each person 0, 1 or 2; nothing: the feed has ended."""
        rules, step = self.rules, len(course.facts) + 1
        new = [rules.number(person, step - 1, payload) for person, payload in enumerate(came) if payload]
        if new:
            # The number of the first hour of all feeds is that of no window: they are counted from 1970.
            course.partition.arrive(START // HOUR + step - 1, self._rows.take(pa.array(new)))
        if came:
            course.trails = tuple(
                (*trail, payload) for trail, payload in zip(course.trails, came, strict=True)
            )
        result, answered = self._fire(course.partition, step)
        homes = course.homes
        if result is None:
            shown = ",".join(map(_home, homes))
            waiting = ",".join(_owned(rules, course.waits))
            course.facts.append(StepFacts(shown, NOTHING, NOTHING, NOTHING, "", "", waiting))
            return
        here = sorted({*course.waits, *new})
        pool = self._enter(step, result, answered, course)
        gone = [_number(record["row"]) for record in result.rejected]
        self.dropped += sum(record["reason"] == KNOWN_OTHERWISE for record in result.rejected)
        course.waits = [] if result.warm.waiting is None else _numbers(result.warm.waiting)
        counts, groups, out = NOTHING, NOTHING, ""
        if result.release is not None:
            here = [number for number in here if number not in gone]
            counts, groups, out = self._groups(step, result, course, here)
        course.facts.append(
            StepFacts(
                ",".join(map(_home, homes)),
                pool,
                counts,
                groups,
                out,
                ",".join(_owned(rules, gone)),
                ",".join(_owned(rules, course.waits)),
            )
        )

    def _fire(
        self, partition: PartitionInMemory, step: int
    ) -> tuple[WindowResult | None, tuple[Segment, tuple[int, ...]] | None]:
        """What is due in a step, and what founding answered in it, also where no release came of it (``against``); and
        whom of those who were asked about an intake had put together before that came to nothing."""
        answers: list[tuple[Segment, tuple[int, ...]]] = []

        def recorded(*of: Any, **named: Any) -> Founded:
            made = found(*of, **named)
            answers.append((made.segment, tuple(of[0].tried.tolist())))
            return made

        results: list[WindowResult] = []
        with patch.object(intake, "found", recorded):
            while (
                action := self._step.due(partition.clock)
            ) is not None and action.at <= START + step * HOUR:
                results += partition.fire()
        assert [_step_of(result) for result in results] in ([], [step])
        return (results[0] if results else None), (answers[-1] if answers else None)

    def _enter(
        self,
        step: int,
        result: WindowResult,
        answered: tuple[Segment, tuple[int, ...]] | None,
        course: Course,
    ) -> str:
        if answered is None:
            return NOTHING
        segment, tried = answered
        of = dict(zip(segment.people.tolist(), segment.cohort.tolist(), strict=True))
        entered = [person for person, digest in enumerate(self._digests.tolist()) if digest in of]
        cohorts = [of[digest] for digest in self._digests.tolist() if digest in of]
        answer = [(step, p, cohort - min(cohorts)) for p, cohort in zip(entered, cohorts, strict=True)]
        course.founded += answer
        self._remember(("found", step, *entered, *tried), tuple(answer))
        if result.segment is None:
            self.undone += 1
            return NOTHING
        for (_, person, number), cohort in zip(answer, cohorts, strict=True):
            course.homes[person] = course.numbers[cohort] = (step, number)
        return ",".join(map(str, entered))

    def _groups(
        self,
        step: int,
        result: WindowResult,
        course: Course,
        here: Sequence[int],
    ) -> tuple[str, str, str]:
        assert result.release is not None
        assert result.warm.roster is not None
        found, homes = result.warm.roster.last, course.homes
        made = [
            (course.numbers[int(cohort)], int(group))
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
        asked = "|".join((known, ",".join(f"{_home(c)}={group}" for c, group in course.last), counts))
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
        course.merged += [(step, *cohort, group) for cohort, group in made]
        course.last = made
        self._remember(("merge", step, asked), groups)
        return asked, groups, ",".join(sorted(out))

    def _remember(self, question: tuple[Any, ...], answer: Any) -> None:
        if self.answered.setdefault(question, answer) != answer:
            self.differing.append(question)

    def _line(self, course: Course) -> str:
        rules, founded, merged = self.rules, course.founded, course.merged
        policy = [rules.k, rules.cohort_size, rules.intake, rules.percent, rules.delay, rules.known, rules.k]
        words = [rules.people, *policy, rules.steps]
        for step in range(1, rules.steps + 1):
            words += [step, 0]
        for step in range(1, rules.steps + 1):
            for person, trail in enumerate(course.trails):
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
    return differing_runs(product, worlds, [product.run(world) for world in worlds], program)


def differing_runs(
    product: Product, worlds: Sequence[World], runs: Sequence[tuple[list[StepFacts], str]], program: Path
) -> list[str]:
    """The same, of what the product came to in them."""
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
