"""Roles by evidence: over feeds of twelve trades nothing of a person is drafted as published exactly."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.trade_feeds import LAST, TRADES, Feed, bank, census, loyalty, telco
from kanonflow.pipelines.fit.found_types import FoundType, found_types
from kanonflow.pipelines.fit.proposed_roles import Proposal, proposed_roles
from kanonflow.schemas.text_form import CsvForm

EXACT = ("sensitive", "insensitive")
FEW_QUESTIONS = 2
HIDDEN = ("person", "contact", "attribute", "where")


def proposed(feed: Feed, **more: str) -> Proposal:
    """What is proposed for the feed as a CSV file."""
    return proposed_roles(found_types(feed.table(), CsvForm())[0], 5, **more)


@cache
def of_trade(make: Callable[[], Feed], *, named: bool, soiled: bool = False) -> tuple[Feed, Proposal]:
    """A trade's feed, and what is proposed for it."""
    feed = make().soiled() if soiled else make()
    feed = feed if named else feed.nameless()
    return feed, proposed(feed)


def roles(feed: Feed | Proposal, **more: str) -> dict[str, str]:
    """Role by field, with a question mark in front of a proposed one."""
    proposal = proposed(feed, **more) if isinstance(feed, Feed) else feed
    return {
        name: ("" if drafted.sure else "?") + drafted.keys["role"]
        for name, drafted in proposal.fields.items()
    }


@pytest.mark.parametrize("make", TRADES, ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    ("named", "soiled"), [(True, False), (False, True)], ids=["clean", "nameless, soiled"]
)
def test_nothing_of_a_person_is_drafted_as_published(
    make: Callable[[], Feed], *, named: bool, soiled: bool
) -> None:
    """Person, contact data, attributes, places to the metre: neither as a role nor as a proposal; and with columns that
    are called c1, c2, ... no less, nor with blanks, words for nothing, ids as doubles, and umlauts."""
    feed, proposal = of_trade(make, named=named, soiled=soiled)
    found = roles(proposal)
    for name, truth in feed.truth.items():
        role = found[name].lstrip("?")
        if truth in HIDDEN:
            assert role not in EXACT, (name, truth)
        if truth == "contact":
            assert role == "identifier", name
        assert (role == "individual") == (truth == "person"), name
    assert proposal.asks_row == feed.rows_are_people


@pytest.mark.parametrize("make", TRADES, ids=lambda make: make.__name__)
def test_no_more_than_the_needed_questions(make: Callable[[], Feed]) -> None:
    """Two a feed at most, and what came with the row is mostly still published."""
    feed, proposal = of_trade(make, named=True)
    found = roles(proposal)
    assert sum(role.startswith("?") for role in found.values()) + proposal.asks_row <= FEW_QUESTIONS
    payload = [name for name, truth in feed.truth.items() if truth == "payload"]
    if not feed.rows_are_people:
        assert sum(found[name] in EXACT for name in payload) >= len(payload) - 1


def test_couples_who_share_an_address_are_two_people() -> None:
    """An e-mail address of a couple keeps neither birth nor sex; it is contact data, and no set of addresses."""
    found = roles(of_trade(bank, named=True)[1])
    assert (found["client"], found["email"], found["born"]) == ("individual", "identifier", "quasi")


def test_words_for_nothing_do_not_make_an_attribute_payload() -> None:
    """N/A in three of a hundred rows of a job, or in thirty: it is the people's all the same."""
    feed = bank()
    rng = np.random.default_rng(3)
    kept = {name: feed.cells[name] for name in ("client", "sex", "amount")}
    for share in (0.03, 0.3):
        gone = rng.random(3_000) < share
        job = ["N/A" if gone[row] else cell for row, cell in enumerate(feed.cells["job"])]
        assert roles(Feed("bank", {**kept, "job": job}, {}))["job"] == "quasi"


def test_words_that_people_have_beside_something_else_are_nulls() -> None:
    """Of a bank's clients N/A and unknown; a country that is called NA, and a schooling "none", are kept by theirs."""
    assert of_trade(bank, named=True)[1].nulls == ("N/A", "unknown")
    rng = np.random.default_rng(3)
    who = rng.integers(150, size=2_000)
    cells = {
        "customer": [f"p{each}" for each in who],
        "sex": ["mf"[each % 2] for each in who],
        "country": [("NA", "CZ", "DE")[each % 3] for each in who],
        "schooling": [("none", "some")[each // 3 % 2] for each in who],
        "score": [f"{each:.2f}" for each in rng.random(2_000)],
    }
    assert proposed(Feed("namibia", cells, {})).nulls == ()


def test_a_household_is_no_person() -> None:
    """Sex and age differ within it as between; each row may be somebody of its own, which is asked once."""
    feed = census()
    # Not sorted by household, so that its number does not rise.
    order = np.random.default_rng(1).permutation(2_500)
    feed.cells.update({name: [column[row] for row in order] for name, column in feed.cells.items()})
    proposal = proposed(feed)
    assert proposal.asks_row
    assert any("serial is no person" in told and "sex" in told for told in proposal.told)
    assert not any(role.startswith("?") for role in roles(proposal).values())


def test_ids_that_nulls_have_made_doubles_are_ids() -> None:
    """From a file with types: a column of doubles that are whole is the person, and is read as whole numbers."""
    ids = np.repeat(np.arange(3_000.0, 3_200.0), 10)
    rng = np.random.default_rng(2)
    values = pa.array([None if rng.random() < 0.02 else value for value in ids], pa.float64())
    sex = pa.array(["mf"[int(value) % 2] for value in ids])
    score = pa.array(rng.normal(size=ids.size))
    columns = {
        "x1": FoundType("double", None, values),
        "x2": FoundType("string", None, sex),
        "x3": FoundType("double", None, score),
    }
    drafted = proposed_roles(columns, 5).fields["x1"]
    assert (drafted.keys["role"], drafted.keys["as"], drafted.sure) == ("individual", "long", True)


def test_of_a_card_and_its_holder_the_holder_is_the_person() -> None:
    """The coarser one, as long as it keeps what everybody has one of."""
    found = roles(of_trade(loyalty, named=True)[1])
    assert (found["member"], found["card"]) == ("individual", "identifier")


def test_what_a_few_people_share_is_no_person() -> None:
    """Incomes that hardly two have, in whole numbers: they keep birth and sex nearly as well, and not quite."""
    rng = np.random.default_rng(9)
    who = rng.integers(250, size=4_000)
    income = 100 * rng.integers(150, 900, size=250)
    cells = {
        "a": [f"P{each:04}" for each in who],
        "b": [f"{1940 + each * 7 % 60}-{1 + each % 12:02}-{1 + each % 28:02}" for each in who],
        "c": ["mf"[each * 5 % 2] for each in who],
        "d": [f"{income[each]}.00" for each in who],
    }
    found = roles(Feed("incomes", cells, {}))
    assert (found["a"], found["d"]) == ("individual", "quasi")


@pytest.mark.parametrize(
    ("values", "looks"),
    [
        ([*LAST, "Dvořák", "Křížová", "Müller", "Weiß", "O'Neill"], False),
        ([f"{last}, {first}." for first in "XYZ" for last in LAST[:10]], False),
        ([f"Dr. {last}" for last in LAST], False),
        (["Anna Nguyen", "Thi Lan Tran", "Minh Pham", "Hoa Le"], False),
        (
            ["王伟", "李娜", "张敏", "刘洋", "陈静"]
            + [f"王{sign}" for sign in "军磊强洁芳杰丽艳勇涛明超刚平辉鹏"],
            False,
        ),
        (["jan novak", "petr svoboda", "eva horakova", "thomas meyer", "julia weber"] * 4, True),
        (["NOVAK JAN", "SVOBODA PETR", "KLEIN EVA", "MEYER THOMAS", "WEBER JULIA"] * 4, True),
    ],
)
@pytest.mark.parametrize("steady", [True, False])
def test_names_of_people_are_never_published_unasked(values: list[str], *, looks: bool, steady: bool) -> None:
    """By a list of first names, else by their shape alone, in columns whose names say nothing: of people who keep
    them, or of others who were there. Neither as payload nor as known, unless somebody says so."""
    rng = np.random.default_rng(8)
    who = rng.integers(200, size=3_000)
    chosen = who if steady else rng.integers(10_000, size=3_000)
    cells = {
        "c1": [f"P{each}" for each in who],
        "c2": ["mf"[each % 2] for each in who],
        "c3": [values[each % len(values)] for each in chosen],
        "c4": [f"{value:.2f}" for value in rng.lognormal(3, 1, size=3_000)],
    }
    assert roles(Feed("names", cells, {}))["c3"] == ("identifier" if looks else "?identifier")


def test_what_data_cannot_tell_apart_is_asked() -> None:
    """Customers and shops without a name that says so, each with something of its own: both are asked about, and what
    either keeps is drafted as known."""
    rng = np.random.default_rng(5)
    customer, shop = rng.integers(150, size=3_000), rng.integers(80, size=3_000)
    cells = {
        "c1": [f"a{each}" for each in customer],
        "c2": [f"b{each}" for each in shop],
        "c3": [f"k{each * 7 % 5}" for each in customer],
        "c4": [f"z{each * 11 % 6}" for each in shop],
        "c5": [f"{value:.2f}" for value in rng.lognormal(3, 1, size=3_000)],
    }
    found = roles(Feed("two", cells, {}))
    assert {found["c1"], found["c2"]} == {"?individual", "?identifier"}
    assert found["c3"].lstrip("?") == found["c4"].lstrip("?") == "quasi"


def test_the_person_can_be_said() -> None:
    """--individual settles it, and the other fields are judged beside it."""
    found = roles(telco(), individual="msisdn")
    assert (found["msisdn"], found["subscriber"], found["tariff"]) == ("individual", "identifier", "quasi")


def test_a_row_a_person_asks_one_question() -> None:
    """Twenty-three attributes of people who come once each: none of them is asked about, and none is published."""
    rng = np.random.default_rng(7)
    cells = {"ID": [str(row + 1) for row in range(1_500)]}
    cells |= {
        name: [str(each) for each in rng.integers(1, 4, size=1_500)]
        for name in ("SEX", "EDUCATION", "MARRIAGE")
    }
    cells["AGE"] = [str(each) for each in rng.integers(21, 79, size=1_500)]
    cells["LIMIT"] = [str(10_000 * each) for each in rng.integers(1, 80, size=1_500)]
    for month in range(6):
        cells[f"PAY_{month}"] = [str(each) for each in rng.integers(-2, 8, size=1_500)]
        cells[f"BILL_{month}"] = [str(int(each)) for each in rng.normal(50_000, 30_000, size=1_500)]
        cells[f"PAID_{month}"] = [
            str(int(each)) for each in np.maximum(0, rng.normal(2_000, 3_000, size=1_500))
        ]
    cells["default"] = [str(each) for each in rng.integers(2, size=1_500)]
    feed = Feed("defaults", cells, {})
    for each in (feed, Feed("nameless", {f"c{n}": column for n, column in enumerate(cells.values())}, {})):
        proposal = proposed(each)
        found = roles(proposal)
        assert proposal.asks_row
        assert not any(role.startswith("?") for role in found.values())
        assert sorted(set(found.values())) == ["identifier", "quasi"]


@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("spelled", ["E{:04}", "{}", "{}.0"])
def test_ids_of_other_people_are_identifiers(spelled: str, *, steady: bool) -> None:
    """Of a manager, or of who was there: values of the field that says whom a row belongs to, whatever the column's
    name; of numbers close together that name decides, for a quantity could be any of them."""
    rng = np.random.default_rng(11)
    number = 40_000 + 13 * np.arange(300)
    who = rng.integers(300, size=4_000)
    other = (who % 20 if steady else rng.integers(20, size=4_000)) * 15
    cells = {
        "c1": [spelled.format(number[each]) for each in who],
        "c2": ["mf"[each % 2] for each in who],
        "c3": [f"{1950 + each % 50}-01-{1 + each % 28:02}" for each in who],
        "c4": [spelled.format(number[each]) for each in other],
        "c5": [f"{value:.2f}" for value in rng.lognormal(3, 1, size=4_000)],
    }
    assert roles(Feed("managers", cells, {}))["c4"] == "identifier"
    if spelled == "{}":
        cells |= {"c1": [str(each) for each in who], "manager": [str(each) for each in other]}
        cells["c4"] = [str(each % 60) for each in range(4_000)]
        found = roles(Feed("dense", cells, {}))
        assert (found["manager"], found["c4"]) == ("identifier", "sensitive")


def test_a_row_a_person_has_managers_among_the_rows() -> None:
    """Nobody comes back: a manager's number is one of the rows'."""
    rng = np.random.default_rng(12)
    cells = {
        "c1": [f"E{each:05}" for each in rng.permutation(2_000)],
        "c2": [f"E{each:05}" for each in rng.integers(60, size=2_000)],
        "c3": [str(each) for each in rng.integers(18, 66, size=2_000)],
    }
    assert roles(Feed("staff", cells, {})) == {"c1": "identifier", "c2": "identifier", "c3": "quasi"}
