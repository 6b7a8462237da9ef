"""Trees: the quasi-identifiers whose boxes are nodes, each a label that stands for all values below it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

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
        """What its leaves say."""
        assert quasi.hierarchy is not None
        return form.misfit_of_leaves(quasi.hierarchy) if form.leaf else super().misfit(quasi, form)

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
