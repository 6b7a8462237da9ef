"""Parameters that are a solver's own: the fields of a frozen dataclass with a default each, chosen by name.

What every solver is told stands in the task (loss, seed, threads); fields of these names are no parameters.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, TypeVar, cast

from kanonflow.solvers.problem.errors import BudgetError

Value = bool | int | float | str
Parameters = Mapping[str, Value]
NO_PARAMETERS: Parameters = MappingProxyType({})

_OF_THE_TASK = frozenset({"loss", "seed", "threads", "start"})
_SAID = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
Of = TypeVar("Of")


def parameter_defaults(of: type[Any]) -> dict[str, Value]:
    """What a solver's parameters are where nobody chooses, by name."""
    return {each.name: cast(Value, each.default) for each in fields(of) if each.name not in _OF_THE_TASK}


def chosen(of: type[Of], choices: Parameters, **by_task: Any) -> Of:
    """The parameters of a solver: those of ``choices`` that are its own, the others at their defaults.

    by_task: fields that the task says. Raises BudgetError, naming all mistakes, for a value of another kind than the
    default, and as the dataclass does for one out of its range.
    """
    own = {
        name: (choices[name], default) for name, default in parameter_defaults(of).items() if name in choices
    }
    mistakes = [
        f"{name} must be {_SAID[type(default)]}"
        for name, (value, default) in own.items()
        if not _of_kind(value, default)
    ]
    if mistakes:
        raise BudgetError("; ".join(mistakes))
    return of(**{name: value for name, (value, _) in own.items()}, **by_task)


def _of_kind(value: Value, default: Value) -> bool:
    """A whole number is a number, and true is none."""
    if isinstance(value, bool) or isinstance(default, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    return isinstance(
        value, int if isinstance(default, int) else (int, float) if isinstance(default, float) else str
    )


def unknown_parameters(solvers: Iterable[type[Any] | None], choices: Parameters) -> dict[str, str]:
    """Names that are no parameter of any of the solvers: each with what may be meant, in words."""
    names = [name for each in solvers if each is not None for name in parameter_defaults(each)]
    said = {}
    for name in choices:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            said[name] = f"did you mean {near[0]}?" if near else f"it has {', '.join(names) or 'none'}"
    return said
