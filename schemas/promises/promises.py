"""Every promise, by the words that a policy and metrics have for it."""

from __future__ import annotations

from kanonflow.schemas.promises.lasting import Lasting
from kanonflow.schemas.promises.promise import Promise
from kanonflow.schemas.promises.row import Row
from kanonflow.schemas.promises.window import Window

PROMISES: tuple[Promise, ...] = (Lasting(), Window(), Row())
_BY_COHORT = {each.cohort: each for each in PROMISES if each.cohort is not None}
# Metrics of builds that knew no cohorts tell of none: people were put together in each window.
_BY_PROTECT = {each.protect: each for each in PROMISES}


def promise_of(protect: str, cohort: str | None) -> Promise:
    """The promise of those words. Raises KeyError: there is none."""
    return _BY_PROTECT[protect] if cohort is None else _BY_COHORT[cohort]


def promise_of_release(protect: object, epoch: object) -> Promise | None:
    """The promise of a release, which names no cohort: by whether it names an epoch; None: of no protection."""
    known = (each for each in PROMISES if (each.protect, each.epochs) == (protect, epoch is not None))
    return next(known, None)
