"""What is proposed for cells that do not fit reads them."""

import dataclasses

import pyarrow as pa
import pytest

from kanonflow.schemas.proposed_forms import NULL_WORDS, proposed_form
from tests.schemas.test_expected_forms import column


@pytest.mark.parametrize("word", ["k.A.", "n/a", "-"])
def test_words_for_nothing_and_signs_are_proposed_together(word: str) -> None:
    """As an export in German has them: groups of three digits, and a word where nothing is known."""
    assert word in NULL_WORDS
    bound = column("decimal(12,2)")
    bound = dataclasses.replace(bound, form=dataclasses.replace(bound.form, decimal=","))
    found = proposed_form(pa.array(["1.234,56", word, word, word]), bound)
    assert found is not None
    assert found.render("x") == f'csv: {{thousands: ".", nulls: ["{word}"]}} (100% of them)'


def test_a_word_that_is_not_on_the_list_is_not_told() -> None:
    """It may be somebody's value."""
    assert proposed_form(pa.array(["Anna", "Anna"]), column("int")) is None
