"""Feeds of twelve trades, with planted dirt and contact data, and what each field is in truth.

person     whom a row belongs to              contact   reaches or names somebody, or may say anything
attribute  somebody's, the same in all rows   payload   came with the row
time       of the row                         row       a number of the row or of a part of somebody's rows
where      a place of the row, to the metre
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa

FIRST = """
Anna Marie Jakub Petr Thomas Julia Eva Lucie Michael Sophie Karel Hans Laura Martin Paul Elena Carlos Giulia
Pierre Marek Olga Ivan Sara David Emma Felix Nicole Robert Helena Peter
""".split()  # noqa: SIM905
LAST = """
Novak Svoboda Dvorak Miller Smith Meyer Schulz Rossi Garcia Martin Kowalski Horak Weber Fischer Wagner Becker
Hoffmann Koch Richter Klein Wolf Neumann Schwarz Zimmermann Braun Krueger Hofmann Hartmann Lange Werner
""".split()  # noqa: SIM905
TOWNS = """
Praha Brno Ostrava Plzen Liberec Olomouc Zlin Jihlava Tabor Kolin Cheb Most
""".split()  # noqa: SIM905
JOBS = """
teacher nurse driver clerk engineer cook farmer plumber lawyer baker tailor painter welder miner pilot actor
smith guard judge sailor
""".split()  # noqa: SIM905
START = datetime(2025, 3, 1, 6)


@dataclass(frozen=True)
class Feed:
    """cells: text of each column, as CSV has it. truth: what each field is. rows_are_people: nobody comes back."""

    name: str
    cells: dict[str, list[str]]
    truth: dict[str, str]
    rows_are_people: bool = False

    def table(self) -> pa.Table:
        """As read from a CSV file."""
        return pa.table({name: pa.array(column, pa.string()) for name, column in self.cells.items()})

    def soiled(self, seed: int = 1) -> Feed:
        """The same as a worse export: blanks behind cells, words for nothing in other spellings, ids as doubles, days
        with the day first, umlauts."""
        rng = np.random.default_rng(seed)
        return Feed(
            self.name,
            {name: _soiled(column, self.truth[name], rng) for name, column in self.cells.items()},
            self.truth,
            self.rows_are_people,
        )

    def nameless(self) -> Feed:
        """The same, its columns named c1, c2, ..."""
        names = {name: f"c{place}" for place, name in enumerate(self.cells, 1)}
        return Feed(
            self.name,
            {names[name]: column for name, column in self.cells.items()},
            {names[name]: kind for name, kind in self.truth.items()},
            self.rows_are_people,
        )


def _soiled(column: list[str], kind: str, rng: np.random.Generator) -> list[str]:
    nothing_said = ("", "N/A", "unknown")
    present = [cell for cell in column if cell not in nothing_said]
    if kind == "attribute" and all(re.fullmatch(r"\d{4}-\d\d-\d\d", cell) for cell in present):
        column = [
            ".".join(reversed(cell.split("-"))) if cell not in nothing_said else cell for cell in column
        ]
    if kind in ("person", "row") and all(cell.isdecimal() for cell in present):
        column = [f"{cell}.0" if cell else cell for cell in column]
    nothing, blanks = rng.random(len(column)), rng.random(len(column))
    words = rng.choice(["", "NULL", "n/a", "-", "None"], size=len(column))
    spelled = []
    for row, cell in enumerate(column):
        if kind in ("contact", "attribute") and "@" not in cell and cell not in nothing_said:
            cell = cell.translate(_UMLAUTS)
        gone = kind not in ("time", "where") and nothing[row] < (0.005 if kind == "person" else 0.02)
        spelled.append(str(words[row]) if gone else cell + " " * int(blanks[row] < 0.03))
    return spelled


_UMLAUTS = str.maketrans({"o": "ö", "z": "ž", "e": "ě"})


class _Made:
    """People, rows and cells of one feed, from one seed."""

    def __init__(self, seed: int, people: int, rows: int, days: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.people, self.rows = people, rows
        self.who = self.rng.integers(people, size=rows)
        self.at = [
            START + timedelta(seconds=int(each))
            for each in np.sort(self.rng.integers(days * 86_400, size=rows))
        ]

    def own(self, make: Callable[[int], object], dirt: float = 0.0) -> list[str]:
        """A value a person; dirt: share of rows with nothing, or a word for it."""
        values = [str(make(person)) for person in range(self.people)]
        return self.dirty([values[person] for person in self.who], dirt)

    def each(self, make: Callable[[int], object], dirt: float = 0.0) -> list[str]:
        """A value a row."""
        return self.dirty([str(make(row)) for row in range(self.rows)], dirt)

    def dirty(self, values: list[str], dirt: float) -> list[str]:
        bad = self.rng.random(len(values)) < dirt
        words = self.rng.choice(["", "N/A", "unknown"], size=len(values))
        return [str(words[row]) if bad[row] else value for row, value in enumerate(values)]

    def pick(self, values: list[str]) -> Callable[[int], str]:
        return lambda _: str(self.rng.choice(values))

    def birth(self, _: int) -> str:
        return f"{self.rng.integers(1935, 2006)}-{self.rng.integers(1, 13):02}-{self.rng.integers(1, 29):02}"

    def name(self, _: int) -> str:
        return f"{self.rng.choice(FIRST)} {self.rng.choice(LAST)}"

    def email(self, pair: int) -> str:
        return f"{LAST[pair % len(LAST)].lower()}.{pair}@mail.example"

    def phone(self, _: int) -> str:
        return (
            f"+420 {self.rng.integers(600, 800)} {self.rng.integers(100, 999)} {self.rng.integers(100, 999)}"
        )

    def stamp(self, row: int) -> str:
        return f"{self.at[row]:%Y-%m-%d %H:%M:%S}"

    def money(self, _: int) -> str:
        return f"{self.rng.lognormal(3, 1):.2f}"

    def sentence(self, _: int) -> str:
        return " ".join(
            self.rng.choice(JOBS + [town.lower() for town in TOWNS], size=self.rng.integers(5, 12))
        )

    def street(self, _: int) -> str:
        return f"{self.rng.choice(LAST)} street {self.rng.integers(1, 200)}"

    def uuid(self, _: int) -> str:
        return str(
            uuid.UUID(int=int(self.rng.integers(1 << 62)) << 60 | int(self.rng.integers(1 << 60)), version=4)
        )


def _truth(text: str) -> dict[str, str]:
    """ "person: a; contact: b c;" by field."""
    parts = (part.split(":") for part in text.strip(" ;").split(";"))
    return {name: kind.strip() for kind, names in parts for name in names.split()}


def _luhn(body: str) -> str:
    digits = [int(digit) for digit in body]
    total = sum(
        sum(divmod(2 * digit, 10)) if place % 2 == 0 else digit
        for place, digit in enumerate(reversed(digits))
    )
    return body + str(-total % 10)


def _iban(number: int) -> str:
    body = f"0800{number:016}"
    return f"CZ{98 - int(body + '123500') % 97:02}{body}"


def bank(times: int = 1) -> Feed:
    """Ids that nulls have made doubles; couples share an e-mail address; 3% N/A in the job."""
    m = _Made(1, 240 * times, 3_000 * times, 60)
    return Feed(
        "bank",
        {
            "client": m.own(lambda p: f"{4_000 + 7 * p}.0", 0.01),
            "account": m.own(lambda p: _iban(77_000 + 13 * p)),
            "name": m.own(m.name),
            "email": m.own(lambda p: m.email(p // 2), 0.02),
            "born": m.own(m.birth),
            "sex": m.own(lambda p: "FM"[p % 2], 0.02),
            "town": m.own(m.pick(TOWNS)),
            "job": m.own(m.pick(JOBS), 0.03),
            "booked_at": m.each(m.stamp),
            "amount": m.each(m.money),
            "kind": m.each(m.pick(["card", "cash", "order", "fee"])),
            "purpose": m.each(m.sentence, 0.2),
            "booking_no": m.each(lambda row: 9_000_000 + row),
        },
        _truth(
            "person: client; contact: account name email purpose; attribute: born sex town job; time: booked_at; "
            "payload: amount kind; row: booking_no;"
        ),
    )


def retail(times: int = 1) -> Feed:
    """The card is the person; its number passes Luhn."""
    m = _Made(2, 300 * times, 3_000 * times, 40)
    return Feed(
        "retail",
        {
            "card_number": m.own(lambda p: _luhn(f"4{510000000000 + 31 * p:014}")),
            "level": m.own(m.pick(["gold", "silver", "basic"])),
            "phone": m.own(m.phone, 0.1),
            "zip": m.own(lambda p: f"{10_000 + 37 * (p % 60):05}"),
            "sold": m.each(m.stamp),
            "shop": m.each(lambda _: f"shop {m.rng.integers(25)}"),
            "item": m.each(lambda _: f"item {m.rng.integers(400)}"),
            "pieces": m.each(lambda _: m.rng.integers(1, 6)),
            "price": m.each(m.money),
            "receipt": m.each(lambda row: f"R{row:07}"),
        },
        _truth(
            "person: card_number; attribute: level zip; contact: phone; time: sold; payload: shop item pieces "
            "price; row: receipt;"
        ),
    )


def hospital(times: int = 1) -> Feed:
    """Cases of patients, each with several rows; a number of the social insurance; notes."""
    m = _Made(3, 200 * times, 2_400 * times, 200)
    return Feed(
        "hospital",
        {
            "patient_id": m.own(lambda p: f"P{p:05}"),
            "case_id": [f"C{who * 9 + row * 9 // m.rows:06}" for row, who in enumerate(m.who)],
            "insured": m.own(
                lambda p: f"{m.rng.integers(100, 665)}-{m.rng.integers(10, 99)}-{m.rng.integers(1000, 9999)}"
            ),
            "born": m.own(
                lambda p: f"{m.rng.integers(1, 29)}.{m.rng.integers(1, 13)}.{m.rng.integers(1935, 2020)}"
            ),
            "gender": m.own(m.pick(["male", "female"])),
            "town": m.own(m.pick(TOWNS), 0.02),
            "seen_at": m.each(m.stamp),
            "ward": m.each(m.pick(["A1", "A2", "B1", "C4"])),
            "diagnosis": m.each(lambda _: f"{m.rng.choice(list('CEIJKS'))}{m.rng.integers(10, 99)}"),
            "cost": m.each(m.money),
            "notes": m.each(m.sentence),
        },
        _truth(
            "person: patient_id; row: case_id; contact: insured notes; attribute: born gender town; time: "
            "seen_at; payload: ward diagnosis cost;"
        ),
    )


def telco(times: int = 1) -> Feed:
    """Who calls whom from where."""
    m = _Made(4, 250 * times, 3_000 * times, 30)
    return Feed(
        "telco",
        {
            "subscriber": m.own(lambda p: 880_000 + 3 * p),
            "msisdn": m.own(m.phone),
            "imei": m.own(lambda p: _luhn(f"{35209900176148 + 997 * p}"[:14])),
            "tariff": m.own(m.pick(["S", "M", "L", "XL"])),
            "birth_year": m.own(lambda _: m.rng.integers(1940, 2006)),
            "started": m.each(m.stamp),
            "called": m.each(m.phone),
            "seconds": m.each(lambda _: m.rng.integers(1, 3_600)),
            "cell_lat": m.each(lambda _: f"{49 + m.rng.random():.6f}"),
            "cell_lon": m.each(lambda _: f"{14 + 3 * m.rng.random():.6f}"),
        },
        _truth(
            "person: subscriber; contact: msisdn imei called; attribute: tariff birth_year; time: started; "
            "payload: seconds; where: cell_lat cell_lon;"
        ),
    )


def insurance(times: int = 1) -> Feed:
    """Claims: several a person, payments of a claim."""
    m = _Made(5, 180 * times, 1_500 * times, 700)
    return Feed(
        "insurance",
        {
            "claim": [f"S-{who * 4 + row * 4 // m.rows:05}" for row, who in enumerate(m.who)],
            "insured_id": m.own(lambda p: 70_000 + p),
            "plate": m.own(lambda p: f"{p % 9 + 1}A{p % 7} {1000 + 11 * p}"),
            "date_of_birth": m.own(m.birth, 0.02),
            "sex": m.own(m.pick(["m", "w"])),
            "region": m.own(m.pick(TOWNS[:6])),
            "occupation": m.own(m.pick(JOBS), 0.05),
            "paid_on": m.each(lambda row: f"{m.at[row]:%Y-%m-%d}"),
            "cause": m.each(m.pick(["hail", "theft", "crash", "glass", "fire"])),
            "paid": m.each(m.money),
            "handler_note": m.each(m.sentence, 0.5),
        },
        _truth(
            "row: claim; person: insured_id; contact: plate handler_note; attribute: date_of_birth sex region "
            "occupation; time: paid_on; payload: cause paid;"
        ),
    )


def pharmacy(times: int = 1) -> Feed:
    """German names of columns; the doctor's name on each row."""
    m = _Made(6, 220 * times, 2_500 * times, 90)
    doctors = [f"{FIRST[n]} {LAST[n]}" for n in range(30)]
    return Feed(
        "pharmacy",
        {
            "kunde": m.own(lambda p: f"K{p:04}"),
            "geboren": m.own(m.birth),
            "geschlecht": m.own(m.pick(["männlich", "weiblich", "d"])),
            "plz": m.own(lambda p: f"0{1000 + 13 * (p % 50)}"),
            "abgabe": m.each(m.stamp),
            "arzt": m.each(lambda _: doctors[m.rng.integers(30)]),
            "pzn": m.each(lambda _: 1_000_000 + 7_919 * int(m.rng.integers(300))),
            "menge": m.each(lambda _: m.rng.integers(1, 4)),
            "preis": m.each(m.money),
        },
        _truth(
            "person: kunde; attribute: geboren geschlecht plz; time: abgabe; contact: arzt; payload: pzn menge "
            "preis;"
        ),
    )


def mobility(times: int = 1) -> Feed:
    """Trips with both ends to the metre; two times."""
    m = _Made(7, 260 * times, 2_800 * times, 30)
    return Feed(
        "mobility",
        {
            "rider": m.own(m.uuid),
            "bike": m.each(lambda _: f"b{m.rng.integers(150)}"),
            "started_at": m.each(m.stamp),
            "ended_at": m.each(
                lambda row: (
                    f"{m.at[row] + timedelta(seconds=int(m.rng.integers(120, 5_000))):%Y-%m-%d %H:%M:%S}"
                )
            ),
            "start_lat": m.each(lambda _: f"{50 + m.rng.random() / 5:.6f}"),
            "start_lng": m.each(lambda _: f"{14 + m.rng.random() / 5:.6f}"),
            "member": m.own(m.pick(["casual", "member"])),
            "birth_year": m.own(lambda _: m.rng.integers(1945, 2008), 0.05),
            "gender": m.own(m.pick(["m", "f", "x"])),
            "fare": m.each(m.money),
        },
        _truth(
            "person: rider; payload: bike fare; time: started_at ended_at; where: start_lat start_lng; attribute: "
            "member birth_year gender;"
        ),
    )


def payroll(times: int = 1) -> Feed:
    """A row a month: the wage is an attribute, the bonus is not."""
    m = _Made(8, 200 * times, 2_400 * times, 1)
    m.who = np.tile(np.arange(200 * times), 12)
    return Feed(
        "payroll",
        {
            "employee_no": m.own(lambda p: 1_200 + p),
            "surname": m.own(lambda _: m.rng.choice(LAST)),
            "first_name": m.own(lambda _: m.rng.choice(FIRST)),
            "work_email": m.own(lambda p: m.email(p)),
            "birth_date": m.own(m.birth),
            "sex": m.own(m.pick(["F", "M"])),
            "department": m.own(m.pick(["sales", "lab", "office", "plant", "law"])),
            "title": m.own(m.pick(JOBS), 0.03),
            "month": m.each(lambda row: f"2025-{row // (200 * times) + 1:02}-28"),
            "wage": m.own(lambda _: 100 * m.rng.integers(200, 900)),
            "bonus": m.each(m.money),
            "sick_days": m.each(lambda _: m.rng.poisson(0.8)),
        },
        _truth(
            "person: employee_no; contact: surname first_name work_email; attribute: birth_date sex department "
            "title wage; time: month; payload: bonus sick_days;"
        ),
    )


def web_log(times: int = 1) -> Feed:
    """Cookies, addresses, pages with and without a host."""
    m = _Made(9, 400 * times, 4_000 * times, 10)
    return Feed(
        "web log",
        {
            "cookie": m.own(m.uuid),
            "ip": m.own(lambda p: f"10.{p % 7}.{p % 251}.{p % 199}"),
            "country": m.own(m.pick(["CZ", "DE", "AT", "PL"])),
            "agent": m.own(m.pick(["Firefox 140 on Linux", "Safari on iPhone", "Chrome on Windows"])),
            "ts": m.each(m.stamp),
            "path": m.each(lambda _: f"/goods/{m.rng.integers(80)}"),
            "referrer": m.each(lambda _: f"https://search.example/q?{m.rng.integers(10_000)}", 0.3),
            "status": m.each(m.pick(["200", "200", "200", "404", "500"])),
            "bytes": m.each(lambda _: m.rng.integers(200, 90_000)),
        },
        _truth(
            "person: cookie; contact: referrer; attribute: ip country agent; time: ts; payload: path status "
            "bytes;"
        ),
    )


def census(times: int = 1) -> Feed:
    """One row a person; the household's number comes back, and is no person."""
    m = _Made(10, 2_500 * times, 2_500 * times, 1)
    m.who = np.arange(2_500 * times)
    sizes = np.random.default_rng(4).integers(1, 5, size=1_100 * times)
    houses = np.repeat(np.arange(sizes.size), sizes)[: m.rows]
    return Feed(
        "census",
        {
            "serial": [str(20_230_000_000 + 17 * house) for house in houses],
            "person_in_house": [
                str(row - int(np.searchsorted(houses, house))) for row, house in enumerate(houses)
            ],
            "age": m.own(lambda _: m.rng.integers(0, 95)),
            "sex": m.own(m.pick(["male", "female"])),
            "race": m.own(m.pick(["A", "B", "C", "D", "E"])),
            "state": [TOWNS[house % 12] for house in houses],
            "schooling": m.own(m.pick(["none", "basic", "middle", "high"])),
            "income": m.own(lambda _: 50 * m.rng.integers(0, 2_400), 0.1),
            "rooms": [str(1 + house % 7) for house in houses],
        },
        _truth(
            "row: serial; payload: person_in_house; attribute: age sex race state schooling income rooms;"
        ),
        rows_are_people=True,
    )


def energy(times: int = 1) -> Feed:
    """Readings of meters, with the house's address."""
    m = _Made(11, 150 * times, 3_000 * times, 30)
    return Feed(
        "energy",
        {
            "meter": m.own(lambda p: f"1EMH{p:010}"),
            "customer_name": m.own(m.name),
            "address": m.own(m.street),
            "postcode": m.own(lambda p: f"{60_000 + 11 * (p % 30)}"),
            "tariff": m.own(m.pick(["day", "night", "flat"])),
            "people": m.own(lambda _: m.rng.integers(1, 6)),
            "read_at": m.each(m.stamp),
            "kwh": m.each(lambda _: f"{m.rng.gamma(2.0, 0.4):.3f}"),
            "voltage": m.each(lambda _: m.rng.integers(225, 236)),
        },
        _truth(
            "person: meter; contact: customer_name address; attribute: postcode tariff people; time: read_at; "
            "payload: kwh voltage;"
        ),
    )


def loyalty(times: int = 1) -> Feed:
    """Several cards a member: the member is the person."""
    m = _Made(12, 200 * times, 3_000 * times, 60)
    card = m.rng.integers(2, size=m.rows)
    return Feed(
        "loyalty",
        {
            "card": [f"L{who * 2 + card[row]:06}" for row, who in enumerate(m.who)],
            "member": m.own(lambda p: f"M{p:05}"),
            "birth_date": m.own(m.birth, 0.03),
            "gender": m.own(m.pick(["female", "male"]), 0.03),
            "children": m.own(lambda _: m.rng.integers(0, 4)),
            "newsletter": m.own(m.pick(["yes", "no"])),
            "at": m.each(m.stamp),
            "store": m.each(lambda _: f"store {m.rng.integers(40)}"),
            "basket": m.each(m.money),
            "points": m.each(lambda _: m.rng.integers(0, 500)),
        },
        _truth(
            "row: card; person: member; attribute: birth_date gender children newsletter; time: at; payload: "
            "store basket points;"
        ),
    )


TRADES: tuple[Callable[..., Feed], ...] = (
    *(bank, retail, hospital, telco, insurance, pharmacy),
    *(mobility, payroll, web_log, census, energy, loyalty),
)
