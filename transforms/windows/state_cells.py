"""Cells of a runner's state, in groups: how a stateful DoFn's method declares them and is given them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

import apache_beam as beam
from apache_beam.transforms.userstate import StateSpec


class CellGroup(Protocol):
    """What stands for several cells of a key. SPECS: how they are declared, in the order in which they are given."""

    SPECS: ClassVar[tuple[StateSpec, ...]]

    def __init__(self, cells: Sequence[Any]) -> None: ...


def with_cells(
    **groups: type[CellGroup],
) -> Callable[[Callable[..., Iterator[Any]]], Callable[..., Iterator[Any]]]:
    """Declare groups of cells as arguments of a stateful DoFn's method, which is given one object for each group.

    method: a generator; its keyword-only arguments are the groups, by name.

    Beam reads from a method's signature which cells of state it needs: a default ``StateParam`` for each. It then gives
    ``process`` its arguments by position, and the callback of a timer by name. ``on_timer`` stands above
    ``with_cells``, for Beam compares the callback with what the class has under its name.
    """
    specs = [spec for group in groups.values() for spec in group.SPECS]
    declared = [
        inspect.Parameter(
            spec.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=beam.DoFn.StateParam(spec),
            annotation="Any",
        )
        for spec in specs
    ]

    def declare(method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        signature = inspect.signature(method)
        own = [each for each in signature.parameters.values() if each.name not in groups]

        # A generator itself: Beam checks the outputs of methods that return.
        @functools.wraps(method)
        def with_each_cell(*given: Any, **named: Any) -> Iterator[Any]:
            cells = iter(given[len(own) :] or [named.pop(spec.name) for spec in specs])
            made = {name: group([next(cells) for _ in group.SPECS]) for name, group in groups.items()}
            yield from method(*given[: len(own)], **named, **made)

        with_each_cell.__signature__ = signature.replace(parameters=[*own, *declared])  # type: ignore[attr-defined]
        return with_each_cell

    return declare
