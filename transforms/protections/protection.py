"""What a protection is: the object that the step of a partition holds, and that a window is released by.

    lasting    people are put together once, in cohorts that stay           cohort: lasting
    window     closed classes, of people or of rows, anew in each window    cohort: window; rules for sensitive values
    row        a graph over rows, anew in each window                       protect: row
    levels     closed classes of equal labels, at levels of hierarchies     solver: ola, kgen, ...

``protection_of`` has the one of a policy. Whatever differs between them is said here; nobody else asks which it is.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.promises.promise import Promise
from kanonflow.transforms.protections.window_parts import WindowParts
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.stages import Admitted, Before, Left, Publication, Solved
from kanonflow.transforms.release.warm_state import WarmState

A = TypeVar("A", bound=Admitted)
S = TypeVar("S", bound=Solved)


class Protection(Protocol, Generic[A, S]):
    """A protection. Its stages are handed on to each other, so they may hold more than others ask of them.

    shape: of what it asks a solver for, as solvers name it: row_graph, classes, lattice_node.
    merges: whether windows are released with the kernels of merging.
    lasts: whether what it leaves is never forgotten, and is handed on to the run that continues this one.
    expiry: what is done when the time of late and waiting rows is over, of the actions of ``step``: they are rejected
    (``expire``), or that is a reason for a release (``release waiting``).
    """

    shape: str
    merges: bool
    lasts: bool
    expiry: str

    def answer(self, promise: Promise) -> str:
        """What a window is put together to, in a word or two."""

    def refusals(self, policy: Policy) -> list[str]:
        """What of the policy's solver cannot serve it, and how to mend that."""

    def parts(self, due: Due, rows: pa.Table | None, warm: WarmState) -> WindowParts | None:
        """How a window is cut that is too large for one release; None: it is not. rows: new ones."""

    def left_by(self, rows: pa.Table, bound: BoundPolicy) -> WarmState:
        """What rows of earlier windows leave that a release does not hang on: where a dry run begins in the middle."""

    def admit(self, due: Due, rows: pa.Table, before: Before) -> A:
        """Which rows can be released together. rows: canonical rows in canonical order."""

    def solve(self, due: Due, admitted: A, before: Before) -> S:
        """An answer over admitted rows, and the rows that it leaves out."""

    def leave(
        self, due: Due, before: Before, admitted: A, solved: S, publication: Publication | None
    ) -> Left:
        """What the next release goes on from. publication: None: nothing went out."""
