"""``--renew``: a run that continues another in a new epoch, with the people whom that one knows.

    OUT/restricted/cohorts/PARTITION/together.avro   who of its people shared every cohort so far
    OUT/renewal.json                                 public: what who links the epochs is left with (``renewal_file``)

All of it is worked out before anything is laid down or released. What waits in the pool, and rows that wait, go on as
in any chain: whether a row waits hangs on counts of a whole partition, which exchanging two people's rows leaves as
they are; where ``against`` has a say in it, nothing may wait.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.chains.renewal_file import left_words
from kanonflow.schemas.avro_schema import epoch_text
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.renew import Renew, RenewedCohorts
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import read_whole
from kanonflow.transforms.lineage.committed_rosters import (
    BOXES,
    CARRIED,
    CONTINUED,
    PEOPLE,
    TOGETHER,
    segment_file,
)
from kanonflow.transforms.publishing.gate import GateError
from kanonflow.transforms.publishing.gate_frozen import check_cohorts
from kanonflow.transforms.release.cohorts import people_in
from kanonflow.transforms.roster.cohort_files import FrozenValues, files_of_renewal, frozen_values
from kanonflow.transforms.roster.continued import Continued
from kanonflow.transforms.roster.pool import quasi_schema
from kanonflow.transforms.roster.renewal import Renewal, RenewalError, renewed, together_file, together_of
from kanonflow.transforms.roster.roster import Roster
from kanonflow.transforms.secret.seeds import Secret, people_key
from kanonflow.transforms.windows.chain import CarriedState, carried_from_bytes
from kanonflow.transforms.windows.expected_people import PeopleFile
from kanonflow.transforms.windows.renewed_state import renewed_state

RENEWED = "renewed"
"""In run.json: the epoch that ended, and how."""


@dataclass(frozen=True)
class _Values:
    """What a file of people says now. people: uint64, digests, sorted; rows: in their order, the quasi-identifiers."""

    people: NDArray[np.uint64]
    rows: pa.Table


@dataclass(frozen=True)
class RenewalFacts:
    """What is told of a renewal, over all partitions.

    cohorts, min_peers: as the policy says it. accepted: whether it says why fewer are accepted. people: in cohorts.
    refreshed: of whom a file of people has values now. dropped: who had been forgotten. least, mean: people, himself
    among them, whom who links all epochs is left with. alone, fewer: how many are left with nobody else, and with fewer
    than ``min_peers``. staying: mean share of the others of a person's old cohort that are in his new one. before,
    after: GCP of old boxes and new, of the values now.
    """

    cohorts: str
    min_peers: int
    accepted: bool
    people: int
    refreshed: int
    dropped: int
    least: int
    mean: float
    alone: int
    fewer: int
    staying: float
    before: float
    after: float

    def note(self) -> str:
        """For the terminal."""
        gone = f"; {self.dropped:,} who had been forgotten are in no cohort any more" if self.dropped else ""
        return (
            f"--renew: an epoch ends, and another begins with its {self.people:,} people (cohorts: {self.cohorts}),"
            f" {self.refreshed:,} of them with values of the file of people{gone}. The boxes of cohorts lose"
            f" {self.after:.4f}, where those of before would lose {self.before:.4f}. {left_words(self.public())}"
        )

    def public(self) -> dict[str, Any]:
        """What ``renewal.json`` has: what follows from cohorts alone, without a count of people."""
        public: dict[str, Any] = {"cohorts": self.cohorts, "min_peers": self.min_peers, "least": self.least}
        public |= {"mean": round(self.mean, 1), "alone": round(self.alone / self.people, 3)}
        public |= {"fewer": round(self.fewer / self.people, 3), "kept": round(self.staying, 2)}
        return public | {"accepted": self.accepted}


class Renewing:
    """What a run renews of the one that it continues.

    rule: of the policy. bound: that, bound to the feed. before: the epoch that ends; epoch: the one that begins.
    place: of the run that ends, in its chain. people: whose values count now; None: nobody's are new.

    Raises RenewalError: cohorts that are kept would have no new values.
    """

    def __init__(
        self,
        rule: Renew | None,
        bound: BoundPolicy,
        secret: Secret,
        before: int,
        epoch: int,
        people: PeopleFile | None,
    ) -> None:
        self._rule = rule or Renew()
        self._bound, self._secret = bound, secret
        self._before, self.epoch = before, epoch
        if people is None and self.keeps:
            raise RenewalError(
                "--renew: keeps all cohorts, and takes new values of their people from a file: name one (people:), or"
                " say which cohorts are wanted (renew: {cohorts: blocks} or {cohorts: searched})"
            )
        self._values = None if people is None else self._of_file(people)
        self._made: list[tuple[Renewal, int]] = []

    @property
    def keeps(self) -> bool:
        """Whether all cohorts stay: what was counted of them goes on."""
        return self._rule.cohorts is RenewedCohorts.KEPT

    def _of_file(self, people: PeopleFile) -> _Values:
        name = self._bound.policy.cohorts.individual.name
        person, digests = people_in(people.rows.column(name), people_key(self._secret))
        first = np.unique(digests[person], return_index=True)[1]
        rows = people.rows.select(quasi_schema(self._bound).names).cast(quasi_schema(self._bound))
        return _Values(digests[person][first], rows.take(pa.array(first)).combine_chunks())

    def files(self, folder: str, name: str, cohorts: Continued) -> dict[str, bytes]:
        """The files of a partition; ``continued.json`` last. folder, name: of its old ones, and what they hold.

        Raises StateError: a file is damaged. RenewalError: nobody can be put together so.
        """
        roster = cohorts.roster
        if not cohorts.segments:
            return self._handed_on(cohorts, None)
        values, forgotten = self._now(folder, roster, cohorts)
        together = storage.join(folder, TOGETHER)
        words = self._secret.lasting.derive("search", "renewal", epoch_text(self.epoch), bytes.fromhex(name))
        before = read_whole(together) if storage.exists(together) else None
        renewal = renewed(
            roster,
            values.rows,
            forgotten,
            together_of(before, roster),
            self._bound,
            self.epoch,
            cohorts=self._rule.cohorts,
            peers=self._rule.min_peers,
            seed=int.from_bytes(words[:8], "big") >> 1,
            threads=self._bound.policy.solver.threads or os.cpu_count() or 1,
        )
        # Kept cohorts may be smaller than the policy would make them now, and are of k or the run is refused.
        least = self._bound.policy.k if self.keeps else self._bound.policy.cohorts.cohort_size
        try:
            check_cohorts(renewal.segment, renewal.values, ~renewal.forgotten, self._bound, least)
        except GateError as error:
            raise RenewalError(f"--renew: the gate refused the cohorts of a partition: {error}") from None
        self._made.append((renewal, values.people.size))
        boxes = read_whole(storage.join(folder, segment_file(len(cohorts.segments) - 1, BOXES)))
        frozen = FrozenValues(renewal.values, renewal.forgotten)
        made = files_of_renewal(renewal.segment, frozen, boxes, epoch_text(self._before), self._bound)
        files = {segment_file(0, PEOPLE): made.people, segment_file(0, BOXES): made.boxes}
        files[TOGETHER] = together_file(renewal)
        return files | self._handed_on(cohorts, renewal)

    def _now(self, folder: str, roster: Roster, cohorts: Continued) -> tuple[_Values, NDArray[np.bool_]]:
        """What is known now of everybody of a roster (``people``: who is in the file), and of whom nothing is."""
        parts = [
            frozen_values(read_whole(storage.join(folder, segment_file(number, PEOPLE))), self._bound)
            for number in range(len(cohorts.segments))
        ]
        order = np.argsort(np.concatenate([each.people for each in cohorts.segments]), kind="stable")
        rows = pa.concat_tables([part.values for part in parts]).take(pa.array(order))
        rows = rows.cast(quasi_schema(self._bound))
        forgotten = np.concatenate([part.forgotten for part in parts])[order]
        if self._values is None:
            return _Values(np.empty(0, dtype=np.uint64), rows.combine_chunks()), forgotten
        named = np.flatnonzero(np.isin(roster.people, self._values.people))
        pick = np.arange(roster.people.size)
        pick[named] = pick.size + np.searchsorted(self._values.people, roster.people[named])
        rows = pa.concat_tables([rows, self._values.rows]).take(pa.array(pick))
        forgotten[named] = False
        return _Values(roster.people[named], rows.combine_chunks()), forgotten

    def _handed_on(self, cohorts: Continued, renewal: Renewal | None) -> dict[str, bytes]:
        """What was carried over, and ``continued.json``: last, for a partition is begun once that is there."""
        files: dict[str, bytes] = {}
        if cohorts.carried is not None:
            state = carried_from_bytes(cohorts.carried)
            self._refuse_waiting(state)
            state = renewed_state(state, renewal, self.epoch, self._bound, keeps=self.keeps)
            files[CARRIED] = state.to_bytes()
        began = {"segments": int(renewal is not None), "groups": None, "carried": bool(files)}
        return files | {CONTINUED: json.dumps(began).encode()}

    def _refuse_waiting(self, state: CarriedState) -> None:
        """Raise RenewalError if rows wait of which ``against`` had a say: that hangs on who was in which cohort."""
        own = state.warm.roster
        if not self.keeps and state.warm.waiting_rows and own is not None and own.items is not None:
            raise RenewalError(
                f"--renew: {state.warm.waiting_rows:,} rows wait there, and whether rows wait hangs on cohorts where"
                " rows are dropped for a reader (against). End their waiting by one run without --carry, or keep the"
                " cohorts (renew: {cohorts: kept})"
            )

    def facts(self) -> RenewalFacts:
        """What all partitions came to. Raises RenewalError: nobody is known, or some are left with too few."""
        rule, made = self._rule, [renewal for renewal, _ in self._made]
        if not made:
            raise RenewalError(
                "--renew: nobody has entered there, so there is nothing to renew; leave it out"
            )
        left = np.concatenate([each.left for each in made])
        sizes = np.array([each.left.size for each in made])
        facts = RenewalFacts(
            str(rule.cohorts),
            rule.min_peers,
            rule.accept_risk is not None,
            int(left.size),
            sum(count for _, count in self._made),
            sum(each.dropped for each in made),
            int(left.min()),
            float(left.mean()),
            int((left == 1).sum()),
            int((left < rule.min_peers).sum()),
            float(np.concatenate([each.staying for each in made]).mean()),
            float(np.average([each.before for each in made], weights=sizes)),
            float(np.average([each.after for each in made], weights=sizes)),
        )
        if facts.fewer and not facts.accepted:
            raise RenewalError(
                f"--renew: {left_words(facts.public())} Nothing was released. Say renew: {{cohorts: kept}} or"
                " {cohorts: blocks}, which leave as many as they promise, or why it is accepted (renew: {accept_risk:"
                " ...})"
            )
        return facts

    def record(self) -> Mapping[str, Any]:
        """What run.json has of it."""
        return {RENEWED: {"before": epoch_text(self._before), "cohorts": str(self._rule.cohorts)}}


def epoch_after(secret: Secret, before: int, place: int) -> int:
    """The epoch that a renewal begins, 63 bits: the same if the run begins again. place: of the run that begins."""
    words = secret.lasting.derive("epoch", "renewal", epoch_text(before), place)
    return int.from_bytes(words[:8], "big") >> 1
