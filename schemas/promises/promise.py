"""What a protection is to whoever reads a policy, a release, or a page: what it promises, and what it asks for.

How it is kept stands in ``transforms/protections``, how it is judged in ``pipelines/audit/protections.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from kanonflow.schemas.policy_fields import RULES_OF_VALUES, Per
from kanonflow.schemas.policy_parts import PolicyParts

OF_LASTING = (
    "cohort_size",
    "intake",
    "intake_share",
    "max_outdated",
    "split_by",
    "people",
    "against",
    "renew",
    "publish_member",
    "publish_group",
)
"""Members of a policy that no protection has unless it says so (``Promise.members``)."""
_RESTS_ON = (
    "Each row is released once: one policy, one secret, one run, no copies in the input. Of rows that are released"
    " again fewer than {k} candidates are left, and of some only one. A release of them in another place is not"
    " seen from here.",
    "The quasi-identifiers are classified as such: a field that somebody can look up, and that is published as it"
    " is, can tell whose row it is.",
    "The payload must not point at the attributes: who can tell from a published value which of the"
    " {k} it belongs to guesses better than 1/{k}.",
    "The secret of the run stays secret, and restricted/ stays inside.",
)
_NOT_COVERED = (
    "It bounds how well rows can be assigned to people. It is no finding that the data are anonymous in the sense"
    " of the GDPR: that depends on who the readers are, what they can know, and what the payload says.",
    "What all candidates have in common is certain for each of them.",
    "Each match that a reader knows leaves one candidate fewer.",
)
"""Of every promise."""


def left_out(policy: PolicyParts) -> dict[str, None]:
    """Of ``OF_LASTING``, what a file of such a policy may say that one of another protection must not."""
    said = tuple(key for key in OF_LASTING[-6:] if getattr(policy, key))
    return dict.fromkeys((*OF_LASTING[:3], *said))


class Alternative(NamedTuple):
    """A policy of this protection beside one that is explained. change: the keys of a policy file that make it of that
    one, {} of that itself. told: what it promises, in a line."""

    name: str
    change: Mapping[str, Any]
    told: str


class Promise(ABC):
    """What varies by protection wherever no row is released.

    protect, cohort: how a policy says it, and metrics tell it. whose: what a row is assigned to, in words; units: what
    is put together.
    of_people: whether all rows of a person are protected together. epochs: whether it is promised over the releases of
    an epoch, which they name; then who came once is known for good, and runs go on from each other.
    members: of ``OF_LASTING``, those that such a policy has. group_columns: columns of a release, of type long, that
    name the group of each row. evidence: whether it is proved, or tested.
    per: what a rule for sensitive values that a release has to meet says it is about; None: nothing else is meant.
    no_plan: why partitions cannot be cut into shards by a plan, in words; None: they can.
    candidates, over_releases: words of a page, for the people of whom a person's rows are, and for what several
    releases leave of them.
    """

    protect: ClassVar[str]
    cohort: ClassVar[str | None] = None
    whose: ClassVar[str] = "person"
    units: ClassVar[str] = "individuals"
    of_people: ClassVar[bool] = True
    epochs: ClassVar[bool] = False
    members: ClassVar[tuple[str, ...]] = ()
    group_columns: ClassVar[tuple[str, ...]] = ()
    candidates: ClassVar[str]
    evidence: ClassVar[str] = (
        "an argument in prose, and tests. No proof checker has seen it: tested, not proved. So are"
        " diversity, closeness, and every measure of risk and of readers."
    )
    over_releases: ClassVar[str] = "over five releases, not promised"
    no_plan: ClassVar[str | None] = None
    per: ClassVar[Per | None] = None

    @abstractmethod
    def said(self, k: int) -> str:
        """The promise."""

    @abstractmethod
    def limits(self, k: int) -> tuple[str, ...]:
        """What it is not, beside what no promise covers, a sentence or two each."""

    def premises(self, k: int) -> Mapping[str, tuple[str, ...]]:
        """What the promise rests on, what it is not, and what shows it: sentences by their heading."""
        return {
            "What the promise rests on": tuple(each.format(k=k) for each in _RESTS_ON),
            "What it does not cover": (*(each.format(k=k) for each in _NOT_COVERED), *self.limits(k)),
            "What shows that it is kept": (f"It is shown by {self.evidence}",),
        }

    @abstractmethod
    def covered(self, policy: PolicyParts) -> tuple[str, ...]:
        """What ``policy check`` says that the policy covers, and what it does not."""

    def warnings(self, policy: PolicyParts) -> tuple[str, ...]:
        """What a run says before it begins."""
        return ()

    def waits(self, policy: PolicyParts) -> tuple[str, ...]:
        """Who waits for what, where that is worth a word."""
        if policy.max_delay_ms == 0 and policy.window_ms is not None:
            return ("max_delay is 0: rows of a window with too few individuals are rejected, none waits.",)
        return ()

    def waiting_ms(self, policy: PolicyParts) -> int:
        """How long after the end of its own window a row may wait at most, in ms."""
        return policy.max_delay_ms

    def defaults(self, policy: PolicyParts) -> Mapping[str, Any]:
        """``members`` where the policy leaves them open."""
        return {}

    def rules(self, policy: PolicyParts) -> Iterator[str]:
        """Mistakes in what such a policy says, beside those of any policy."""
        for key in OF_LASTING:
            if key not in self.members and getattr(policy, key) not in (None, ()):
                yield f"{key}: belongs to cohort: lasting; leave it out, or say cohort: lasting"
        for field in policy.fields:
            for rule, key in ((getattr(field, key), key) for key in RULES_OF_VALUES):
                if rule is not None and rule.per is Per.EPOCH:
                    yield (
                        f"fields.{field.name}.{key}.per: epoch belongs to cohort: lasting, for nothing else has one;"
                        " leave it out: every class of every release meets the rule (per: release)"
                    )

    def left_open(self, policy: PolicyParts) -> Mapping[str, None]:
        """Those of ``members`` that are as the policy would have them if it did not say them: they go with others."""
        return {}

    def room_for(self, policy: PolicyParts, people: int) -> Mapping[str, Any]:
        """What else a file must say where so many people are put together at least, and it says another number."""
        return {}

    def intakes(self, policy: PolicyParts) -> Mapping[str, Mapping[str, Any]]:
        """By name, other numbers of newcomers who wait for each other, as changes of the file, {} of the policy's."""
        return {}

    def clauses(self, policy: PolicyParts) -> Mapping[str, Mapping[str, Any]]:
        """By name, readers who know more of whom rows may be dropped, as changes of the file, {} of the policy's."""
        return {}

    def alternatives(self, policy: PolicyParts) -> Iterator[Alternative]:
        """Policies of this protection to try beside a policy of any. policy: a valid one."""
        yield from ()
