"""A kind of quasi-identifier: what only it knows of its declaration, its values and its column in a release."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.kinds.form import Ends, Form
from kanonflow.schemas.policy_fields import Domain, Field, Outside, Quasi, ScaleName
from kanonflow.schemas.tree import Tree


class Kind:
    """What all kinds share. ``in_ranges``: whether a box is a range, which has a grid and can be coded beyond its ends.
    ``labels``: whether the values are labels, which elements of a pipeline may give as whole numbers and booleans.
    ``dated``: whether the values are days or instants."""

    in_ranges = False
    dated = False
    labels = True

    def read_domain(
        self, value: list[Any] | tuple[Any, ...], mistakes: list[str], where: str
    ) -> Domain | None:
        """The domain as a policy has it written; None, with a mistake, where it is wrong."""
        texts = tuple(item for item in value if isinstance(item, str))
        if len(texts) == len(value):
            return texts
        mistakes.append(f"{where}domain: must list texts (put numbers, dates and yes/no in quotes)")
        return None

    def rules_of_tree(self, where: str, quasi: Quasi) -> Iterator[str]:
        """Mistakes in what a policy says of a hierarchy."""
        if quasi.hierarchy is not None:
            yield (
                f"{where}.hierarchy: belongs to type: hierarchy, and this is type: {quasi.type}; whole numbers may "
                "have that type too"
            )
        said = [name for name in ("of", "lengths", "size") if getattr(quasi, name) is not None]
        if said:
            yield f"{where}.{said[0]}: belongs to type: prefix, and this is type: {quasi.type}; leave it out"

    def rules_of_domain(self, where: str, domain: Domain) -> Iterator[str]:
        """Mistakes in a declared domain."""
        yield from ()

    def rules_of_grid(self, where: str, grid: object) -> Iterator[str]:
        """Mistakes in a grid."""
        yield from ()

    def rules_of_outside(self, where: str, quasi: Quasi) -> Iterator[str]:
        """Mistakes in what is said of values outside of the domain."""
        if quasi.outside is Outside.CODE:
            if quasi.domain is None:
                yield f"{where}.outside: code needs a domain to cut to"
            if not self.in_ranges:
                yield f"{where}.outside: code works for numeric and date only; a category has no nearest one"

    def rules_of_scale(self, where: str, quasi: Quasi) -> Iterator[str]:
        """Mistakes in what is said of the scale of widths."""
        if (quasi.scale, quasi.quantiles, quasi.log_from) != (ScaleName.LINEAR, None, None):
            yield (
                f"{where}.scale: belongs to type: numeric, with its quantiles and log_from, and this is"
                f" type: {quasi.type}; leave it out"
            )

    def rules_of_value(self, where: str, value: Form) -> Iterator[str]:
        """Mistakes in the type that ``as`` gives."""
        yield from ()

    def type_of_text(self, field: Field) -> pa.DataType | None:
        """The type of a field whose values are text and that says no other; None: what its format says."""
        return None

    def kept(self, form: Form) -> pa.DataType:
        """The type that values of a form are kept as."""
        return form.in_box

    def misfit(self, quasi: Quasi, form: Form) -> str | None:
        """Why a column of a form cannot be of this kind; None: it can."""
        mistake = f"type: {quasi.type} needs text, whole numbers or booleans; use type: numeric or date"
        return form.unfit() or (None if form.label else mistake)

    def ends(self, where: str, quasi: Quasi, form: Form, mistakes: list[str]) -> Ends | None:
        """The declared domain in units, with mistakes in it and in the grid; None: none is declared, or has ends."""
        return None

    def categories(self, quasi: Quasi) -> tuple[str, ...] | None:
        """All values that are declared, as canonical text; None: they are not listed."""
        return None

    def tree(self, quasi: Quasi) -> Tree | None:
        """What its labels are nodes of; None: its boxes are no labels."""
        return None

    def has_texts(self, quasi: Quasi) -> bool:
        """Whether there are texts that are no values of the domain."""
        return self.categories(quasi) is not None

    def unlisted(self, quasi: Quasi, texts: pa.StringArray) -> NDArray[np.bool_]:
        """Of canonical texts, which are no values of the domain, bool (n,); of a null False. O(n)."""
        categories = self.categories(quasi)
        listed = pc.is_in(texts, value_set=pa.array(categories, pa.string()))
        return np.asarray(pc.and_(texts.is_valid(), pc.invert(listed)))

    def expected(self, quasi: Quasi) -> str:
        """What a value of the domain is, in words."""
        return "a value of its declared domain (outside: code takes numbers and dates beyond it as its end)"

    def width_unit(self, quasi: Quasi, form: Form) -> str:
        """What the width of a box is told in."""
        return "values"

    def told(self, quasi: Quasi) -> dict[str, Any]:
        """What a release's schema tells beside the type, so that its column can be read."""
        return {}

    def published(self, name: str, arrow: pa.DataType) -> pa.Field:
        """The column of a release."""
        return pa.field(name, pa.list_(arrow), nullable=False)


class Ranges(Kind):
    """Kinds whose boxes are ranges."""

    in_ranges = True
    labels = False

    def ends(self, where: str, quasi: Quasi, form: Form, mistakes: list[str]) -> Ends | None:
        """In units of the form."""
        mistakes += form.grid_mistakes(where, quasi.grid)
        return None if quasi.domain is None else form.ends(where, quasi.domain, mistakes)

    def width_unit(self, quasi: Quasi, form: Form) -> str:
        """That of the form."""
        return form.width_unit

    def told(self, quasi: Quasi) -> dict[str, Any]:
        """The grid, whether its ends mean "this or beyond", and by what its widths count unless by difference."""
        grid = format(quasi.grid.normalize(), "f") if isinstance(quasi.grid, Decimal) else quasi.grid
        scale = {} if quasi.scale is ScaleName.LINEAR else {"scale": str(quasi.scale)}
        return {"grid": grid, "outside": str(quasi.outside)} | scale

    def published(self, name: str, arrow: pa.DataType) -> pa.Field:
        """Its ends, and whether a null is among the values."""
        ends = [pa.field("min", arrow), pa.field("max", arrow)]
        kind = pa.struct([*ends, pa.field("nulls", pa.bool_(), nullable=False)])
        return pa.field(name, kind, nullable=False)
