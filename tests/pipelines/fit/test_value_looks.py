"""What values look like: contact data and documents by their values, and what only resembles them is none."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kanonflow.pipelines.fit.value_looks import Look, column_look, without_null_words

LOOKS = {
    Look.EMAIL: ["a@b.cz", "eva.nova@mail.example", "x+y@host.co.uk", "n1@d.org", "z_z@d.org"],
    Look.PHONE: ["+420 601 123 456", "(02) 4455-6677", "0041 44 668 18 00", "030/901 820 11", "+1-202-555-0143"],
    Look.IBAN: ["DE89 3704 0044 0532 0130 00", "GB29NWBK60161331926819", "CZ6508000000192000145399",
                "FR1420041010050500013M02606", "NL91ABNA0417164300"],
    Look.CARD: ["4111 1111 1111 1111", "5500005555555559", "4012888888881881", "6011000990139424", "5105105105105100"],
    Look.IP: ["10.0.0.1", "192.168.7.99", "2001:db8::1", "172.16.3.4", "8.8.4.4"],
    Look.MAC: ["00:1B:44:11:3A:B7", "00:1b:44:11:3a:b8", "00-1B-44-11-3A-B9", "001b.4411.3ac0", "00:1B:44:11:3A:C1"],
    Look.URL: ["https://a.example/x?y=1", "http://b.example", "www.c.example/d", "https://e.example/f", "ftp://g.example/h"],
    Look.UUID: [f"6ba7b81{n}-9dad-11d1-80b4-00c04fd430c8" for n in range(6)],
    Look.ADDRESS: ["12 Main Road", "Lange Gasse 7", "Na Hrázi 14/2", "221b Baker Street", "Hauptplatz 3"],
    Look.SEX: ["F", "M"],
}  # fmt: skip


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name.lower())
def test_values_say_it_whatever_the_column_is_called(look: Look) -> None:
    """By patterns and check digits; words for nothing among them change nothing."""
    values = pa.array([*LOOKS[look], "N/A", None, "unknown"] * 3)
    found = column_look("c7", values)
    assert (found.look, found.by_values) == (look, True)


@pytest.mark.parametrize(
    "values",
    [
        [f"{n * 7.31:.2f}" for n in range(1_000, 1_200)],
        [f"2024-03-{1 + n % 28:02}" for n in range(60)],
        [f"item {n}" for n in range(400)],
        [f"shop {n}" for n in range(25)],
        [str(40_000_000 + 7_919 * n) for n in range(300)],
        [f"{n % 24:02}:{n % 60:02}:00" for n in range(200)],
        ["gold", "silver", "basic"],
        [f"C{n:05}" for n in range(300)],
    ],
    ids=["prices", "days", "items", "shops", "numbers", "times", "levels", "codes"],
)
def test_what_only_resembles_contact_data_is_none(values: list[str]) -> None:
    """Prices are no phone numbers, days neither, and goods with numbers are no addresses."""
    assert column_look("c7", pa.array(values)).look is None


def test_phone_numbers_that_read_as_numbers_are_phone_numbers() -> None:
    """With blanks between its groups +420 601 123 456 reads as a whole number: how it was written tells."""
    cells = pa.array([f"+420 601 123 {n}" for n in range(400, 460)])
    numbers = pa.array([420_601_123_000 + n for n in range(400, 460)])
    assert column_look("c7", numbers, cells).look is Look.PHONE
    assert column_look("c7", numbers).look is None


@pytest.mark.parametrize(
    ("name", "look"),
    [
        ("DatumNarozeni", Look.BIRTH),
        ("datum_narozeni", Look.BIRTH),
        ("dateOfBirth", Look.BIRTH),
        ("Geburtsdatum", Look.BIRTH),
        ("PLZ", Look.POSTCODE),
        ("numéro de passeport", Look.DOCUMENT),
        ("passport_no", Look.DOCUMENT),
        ("Příjmení", Look.NAME),
        ("ville", Look.PLACE),
        ("Verwendungszweck", Look.FREE_TEXT),
        ("merchant_name", None),
        ("product", None),
        ("stage", None),
    ],
)
def test_names_of_columns_say_something_in_several_languages(name: str, look: Look | None) -> None:
    """Where the values do not; a name of goods is no name of people."""
    found = column_look(name, pa.array(["x1", "y2", "z3", "q4", "r5", "s6"] * 4))
    assert (found.look, found.by_values) == (look, False)


def test_words_for_nothing_are_nothing() -> None:
    """In any case, with blanks around."""
    kept = without_null_words(pa.array(["N/A", " n/a ", "Unknown", "-", "", None, "nurse"]))
    assert kept.to_pylist() == [None] * 6 + ["nurse"]
