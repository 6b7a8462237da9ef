"""What a policy says of cohorts that last, where ``Policy`` has what other policies lack."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

from kanonflow.schemas.policy_fields import Field

T = TypeVar("T")


@dataclass(frozen=True)
class LastingPolicy:
    """The members of ``Policy`` of the same names: none of them is missing."""

    individual: Field
    time: Field
    window_ms: int
    cohort_size: int
    intake: int
    intake_share: float
    max_outdated: float

    def intake_of(self, entered: int) -> int:
        """How many newcomers are an intake where so many people have entered: ``intake``, or that share of these."""
        return max(self.intake, math.ceil(self.intake_share * entered))


def there(part: T | None) -> T:
    """The part. Raises LookupError: it is missing, so the policy is not one of cohorts that last."""
    if part is None:
        raise LookupError("the policy is not one of cohort: lasting")
    return part
