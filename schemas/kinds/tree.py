"""Trees: the quasi-identifiers whose boxes are nodes, each a label that stands for all values below it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa

from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.kinds.form import Form
from kanonflow.schemas.kinds.kind import Kind
from kanonflow.schemas.policy_fields import Quasi
from kanonflow.schemas.tree import Tree


class TreeKind(Kind):
    """``type: hierarchy``: a tree whose leaves are listed."""

    def rules_of_tree(self, where: str, quasi: Quasi) -> Iterator[str]:
        """It is there, and nothing that it says already is said again."""
        yield from super().rules_of_tree(where, replace(quasi, hierarchy=None))
        if quasi.hierarchy is None:
            yield f"{where}.hierarchy: missing; name its file (a row a value, the value first, separated by ;)"
        if quasi.domain is not None:
            yield f"{where}.domain: the values of a hierarchy are its domain; leave it out"
        if quasi.grid != "auto":
            yield f"{where}.grid: a hierarchy has no grid; leave it out"

    def kept(self, form: Form) -> pa.DataType:
        """Instants as their day, which is a leaf."""
        return form.as_leaf

    def misfit(self, quasi: Quasi, form: Form) -> str | None:
        """Days need a hierarchy of days, decimals one of decimals of their digits."""
        assert quasi.hierarchy is not None
        if pa.types.is_decimal(form.arrow):
            return _misfit_of_digits(quasi.hierarchy, form.arrow.scale)
        if form.fraction:
            return (
                "type: hierarchy needs exact values; add as: decimal(9,2), with the digits of its step, or use"
                " type: numeric"
            )
        if form.arrow != pa.date32():
            return super().misfit(quasi, form)
        if quasi.hierarchy.of_days:
            return None
        return (
            "its hierarchy is not one of days; build it, as in {calendar: [month, year], domain: [1920-01-01, "
            "2010-12-31]}, or write a row a day that begins with it, as in 1984-05-30;1984-05;1984;*"
        )

    def categories(self, quasi: Quasi) -> tuple[str, ...] | None:
        """The leaves."""
        return None if quasi.hierarchy is None else quasi.hierarchy.leaves

    def tree(self, quasi: Quasi) -> Tree | None:
        """The hierarchy."""
        return quasi.hierarchy

    def expected(self, quasi: Quasi) -> str:
        """A leaf."""
        return "a value of its hierarchy"

    def published(self, name: str, arrow: pa.DataType) -> pa.Field:
        """The label of a node; null: all values are null."""
        return pa.field(name, pa.string())


def _misfit_of_digits(hierarchy: Hierarchy, scale: int) -> str | None:
    """Leaves are matched as text, and that of a decimal has all its digits."""
    ending = re.compile(rf"-?\d+\.\d{{{scale}}}" if scale else r"-?\d+")
    if all(map(ending.fullmatch, hierarchy.leaves)):
        return None
    step = format(Decimal(1).scaleb(-scale), "f")
    return (
        f"its hierarchy is not one of decimals of {scale} digits; build it with step: {step}, as in {{widths: [1, 5],"
        f" domain: [0, 100], step: {step}}}, or name the digits of its step, as in as: decimal(9,1) of 0.1"
    )
