"""What a solver refuses, and why."""

from __future__ import annotations


class SolverError(Exception):
    """Base of the solvers' errors; ``exit_code`` is what a command ends with."""

    exit_code = 3


class TableError(SolverError):
    """The encoded table is malformed."""


class StructureError(SolverError):
    """A graph or partition breaks one of its invariants."""


class InfeasibleError(SolverError):
    """No structure with k distinct individuals exists for these records."""


class NotDiverseError(InfeasibleError):
    """The sensitive values of these records cannot meet what is asked of them, however they are grouped."""


class BudgetError(SolverError):
    """A budget or a method's parameter is out of range, or a method's name is unknown."""

    exit_code = 2


class UnservedError(BudgetError):
    """A method cannot take this table: it is too large for it, or has attributes that it does not know.

    The message names the limit and an alternative.
    """
