"""Mistakes in what a policy says of its text: each is told by its field, with the mend, and what is right passes."""

from __future__ import annotations

import pytest

from kanonflow.schemas.text_form import CsvForm, Fold, TextForm, csv_form, rules_of_csv, rules_of_form


@pytest.mark.parametrize(
    ("form", "told"),
    [
        (CsvForm(delimiter=";;"), "csv.delimiter: must be one sign"),
        (CsvForm(delimiter="x"), "csv.delimiter: must be one sign"),
        (CsvForm(delimiter="\n"), "csv.delimiter: must be one sign"),
        (CsvForm(quote="''"), "csv.quote: must be one sign other than the delimiter"),
        (CsvForm(delimiter="|", quote="|"), "csv.quote: must be one sign other than the delimiter"),
        (CsvForm(encoding="klingon"), "csv.encoding: unknown"),
        (CsvForm(encoding="rot13"), "csv.encoding: unknown"),
        (CsvForm(encoding="hex"), "csv.encoding: unknown"),
        (CsvForm(encoding="utf-8\0"), "csv.encoding: unknown"),
        (CsvForm(encoding=""), "csv.encoding: unknown"),
        (CsvForm(decimal=";"), "csv.decimal: must be '.' or ','"),
        (CsvForm(thousands="*"), "csv.thousands: must be one of"),
        (CsvForm(decimal=",", thousands=","), "csv.thousands: must be one of"),
        (CsvForm(thousands="."), "csv.thousands: must be one of"),
    ],
)
def test_a_mistake_in_csv_is_told(form: CsvForm, told: str) -> None:
    """Each alone, by the key it stands under."""
    (found,) = rules_of_csv(form)
    assert found.startswith(told)


@pytest.mark.parametrize(
    "form",
    [
        CsvForm(),
        CsvForm(quote=""),
        CsvForm(encoding="cp1250", decimal=",", thousands="."),
        CsvForm(encoding="utf-16", thousands=" "),
        csv_form(delimiter="tab"),
        csv_form(delimiter="semicolon"),
    ],
)
def test_what_people_write_passes(form: CsvForm) -> None:
    """A delimiter's name is no mistake, and neither is a quote that means nothing."""
    assert not list(rules_of_csv(form))


def test_all_mistakes_of_csv_are_told_at_once() -> None:
    """One line each."""
    form = CsvForm(delimiter="ab", encoding="?", decimal=";", thousands="*", quote="qq")
    assert [line.split(":")[0] for line in rules_of_csv(form)] == [
        f"csv.{key}" for key in ("delimiter", "quote", "encoding", "decimal", "thousands")
    ]


@pytest.mark.parametrize(
    ("form", "of", "told"),
    [
        (TextForm(format="%d.%m.%Y"), "text", "x.format: belongs to dates and times"),
        (TextForm(timezone="Europe/Prague"), "days", "x.timezone: belongs to times"),
        (TextForm(timezone="Europe/Nowhere"), "instants", "x.timezone: unknown"),
        (TextForm(timezone="../etc/passwd"), "instants", "x.timezone: unknown"),
        (TextForm(fold=Fold.FIRST), "instants", "x.fold: belongs to a timezone"),
        (TextForm(format="epoch_ms"), "days", "x.format: epoch_ms gives instants"),
        (TextForm(format="%d.%m.%Q"), "days", "x.format: of the directives only"),
        (TextForm(format="%d.%m.%Y%"), "days", "x.format: of the directives only"),
        (TextForm(format="%d.%m.%Y %d"), "days", "x.format: says a directive twice"),
        (TextForm(format="%d.%m"), "days", "x.format: must say the year"),
        (TextForm(format="%d.%m.%y %Y"), "days", "x.format: must say the year"),
        (TextForm(format="%m/%Y"), "days", "x.format: must say the year"),
        (TextForm(format="%Y-%m-%d %I:%M"), "instants", "x.format: hours are %H, or %I with %p"),
        (TextForm(format="%Y-%m-%d %M"), "instants", "x.format: %M needs what it is a part of"),
        (TextForm(format="%Y-%m-%d %H:%S"), "instants", "x.format: %S needs what it is a part of"),
        (TextForm(format="%Y-%m-%d %H:%M.%f"), "instants", "x.format: %f needs what it is a part of"),
        (TextForm(format="%Y-%m-%d %z"), "days", "x.format: %z gives instants"),
    ],
)
def test_a_mistake_in_a_field_is_told(form: TextForm, of: str, told: str) -> None:
    """Each alone, by the field and its key."""
    (found,) = rules_of_form("x", form, instants=of == "instants", days=of == "days")
    assert found.startswith(told)


@pytest.mark.parametrize(
    ("form", "of"),
    [
        (TextForm(), "text"),
        (TextForm(format="%d.%m.%Y"), "days"),
        (TextForm(format="%b %d, %Y 100%%"), "days"),
        (TextForm(format="%m/%d/%y %I:%M %p"), "instants"),
        (TextForm(format="epoch_s"), "instants"),
        (TextForm(timezone="Europe/Prague", fold=Fold.SECOND), "instants"),
    ],
)
def test_what_dates_look_like_passes(form: TextForm, of: str) -> None:
    """Forms that people's files have."""
    assert not list(rules_of_form("x", form, instants=of == "instants", days=of == "days"))
