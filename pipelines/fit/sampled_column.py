"""A column of a sample with all that roles are proposed by: its facts, its look, codes of its values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.pipelines.fit.found_types import FoundType
from kanonflow.pipelines.fit.value_looks import ColumnLook, column_look, without_null_words
from kanonflow.transforms.columns.column_facts import (
    DAYS,
    ColumnFacts,
    Shape,
    as_numbers,
    codes_of,
    column_facts,
    shape_of,
)
from kanonflow.transforms.risks.within_people import Keeping, keeping, names_people

NEAR_UNIQUE = 0.95
FEW_CATEGORIES = 50
_LEAST_ROWS = 20
_USUAL = 0.8


@dataclass(frozen=True)
class SampledColumn:
    """name: of the field. found: its type and values."""

    name: str
    found: FoundType

    @cached_property
    def values(self) -> pa.Array:
        """With null where a word for nothing stands, and where no number is."""
        values = without_null_words(self.found.values)
        if shape_of(values) is Shape.FLOATING:
            return pc.if_else(pc.fill_null(pc.is_nan(values), True), pa.scalar(None, values.type), values)
        return values

    @cached_property
    def speaks(self) -> NDArray[np.bool_]:
        """Rows that say something; bool (n,)."""
        return np.asarray(self.values.is_valid())

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """A number a value; int64 (n,)."""
        return codes_of(self.values)

    @cached_property
    def facts(self) -> ColumnFacts:
        """Figures of it."""
        return column_facts(self.name, self.values)

    @cached_property
    def look(self) -> ColumnLook:
        """What its values look like."""
        return column_look(self.name, self.found.values, self.found.cells)

    @property
    def shape(self) -> Shape:
        """What its values are."""
        return shape_of(self.found.values)

    @property
    def text(self) -> bool:
        """Whether it is text."""
        return self.shape is Shape.TEXT

    @cached_property
    def label(self) -> bool:
        """Whether a value can name somebody: text, whole numbers, and those that nulls have made floating."""
        if self.shape is Shape.FLOATING:
            numbers = as_numbers(self.values)
            return numbers is not None and bool(numbers.size) and bool((numbers == np.floor(numbers)).all())
        return self.shape in (Shape.TEXT, Shape.WHOLE)

    @cached_property
    def like_names(self) -> bool:
        """Whether it is words with capitals, as names of people are, and of places; or two to four signs of a script
        that has no capitals."""
        if not self.text:
            return False
        cells = pc.utf8_trim_whitespace(self.values.drop_null())
        words = pc.match_substring_regex(cells, r"^(\p{Lu}[\p{L}'’., -]+|\p{Lo}{2,4})$")
        return float(pc.mean(words).as_py() or 0.0) >= _USUAL

    @property
    def days(self) -> bool:
        """Whether it is days or instants."""
        return self.shape in DAYS

    @property
    def near_unique(self) -> bool:
        """Whether nearly every row has a value of its own, and there are enough of them to say so."""
        return self.facts.of_rows >= NEAR_UNIQUE and self.facts.rows - self.facts.nulls >= _LEAST_ROWS

    @cached_property
    def rising(self) -> bool:
        """Whether whole numbers never fall from row to row, as one that is given to each does."""
        numbers = as_numbers(self.values) if self.label and not self.text else None
        if numbers is None or self.facts.distinct <= FEW_CATEGORIES:
            return False
        return float((numbers[1:] >= numbers[:-1]).mean()) >= 0.99

    def within(self, who: SampledColumn) -> Keeping:
        """How it varies within the values of another."""
        return keeping(self.codes, who.codes, self.speaks & who.speaks)

    def names(self, who: SampledColumn) -> float:
        """Of its values on several rows, the share whose rows are all of one value of another."""
        return names_people(self.codes, who.codes, self.speaks & who.speaks)
