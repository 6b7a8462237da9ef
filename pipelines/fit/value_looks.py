"""What the values of a column look like: contact data, numbers of documents, names, free text, attributes of people.

Numbers with check digits are judged by python-stdnum. The rest is told by patterns, and by the column's name in the
languages of the table below. A look is evidence, never a value: nothing of a record is kept.
"""

from __future__ import annotations

import importlib
import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kanonflow.pipelines.fit.first_names import FIRST_NAMES
from kanonflow.schemas.proposed_forms import NULL_WORDS
from kanonflow.transforms.columns.column_facts import DAYS, Shape, as_numbers, shape_of


class Look(StrEnum):
    """What values look like, in words."""

    EMAIL = "e-mail addresses"
    PHONE = "phone numbers"
    IBAN = "bank accounts (IBAN)"
    CARD = "card numbers"
    DOCUMENT = "numbers of documents, tax or social insurance"
    IP = "IP addresses"
    MAC = "addresses of devices (MAC)"
    URL = "URLs"
    UUID = "UUIDs"
    NAME = "names of people"
    ADDRESS = "postal addresses"
    FREE_TEXT = "free text"
    SEX = "sexes"
    BIRTH = "days or years of birth"
    AGE = "ages"
    POSTCODE = "postcodes"
    PLACE = "places"
    JOB = "occupations"
    LATITUDE = "latitudes"
    LONGITUDE = "longitudes"


CONTACT = frozenset(
    {
        *(
            Look.EMAIL,
            Look.PHONE,
            Look.IBAN,
            Look.CARD,
            Look.DOCUMENT,
            Look.IP,
            Look.MAC,
            Look.URL,
            Look.UUID,
        ),
        *(Look.NAME, Look.ADDRESS, Look.FREE_TEXT),
    }
)
"""What names or reaches somebody, or may say anything: never published, however few values there are."""
PERSONAL = frozenset({Look.SEX, Look.BIRTH, Look.AGE})
"""What everybody has one of: it is the same in all rows of a person, and differs between people."""
ATTRIBUTES = PERSONAL | {Look.POSTCODE, Look.PLACE, Look.JOB}
"""What somebody has, or lives at. Of an event it may be said, too (the town of a shop)."""

_USUAL = 0.8
_CHECKED = 0.9
"""Share of the values that must be right where one in ten is so by chance (check digits)."""
_LOOKED_AT = 500
_LEAST = 5

_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+")
_PHONE = re.compile(r"(\+|00|\(?0)?[\d(][\d\s()./-]{5,18}\d")
_DATED = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}.*")
_MAC = re.compile(r"([0-9a-f]{2}[:-]){5}[0-9a-f]{2}|([0-9a-f]{4}\.){2}[0-9a-f]{4}", re.IGNORECASE)
_URL = re.compile(r"(https?|ftp|file)://\S+|www\.\S+\.\S+", re.IGNORECASE)
_UUID = re.compile(r"\{?[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}\}?", re.IGNORECASE)
_STREET = re.compile(r"\d+\w?[ ,]+[^\W\d][\w.' -]{2,}|[^\W\d][\w.' -]{2,}[ ,]+\d+ ?[a-zA-Z]?([ ,/].*)?")
_WORD = re.compile(r"[^\W\d_][^\W\d_.'’-]*\.?", re.UNICODE)
_AMERICAN = re.compile(r"\d{3}-\d{2}-\d{4}")
"""Numbers of the social insurance there have no check digits: only how they are written tells them."""
_CARD_DIGITS = range(13, 20)
_SEXES = frozenset(
    {"m", "f", "w", "d", "x", "male", "female", "man", "woman", "mann", "frau", "männlich", "weiblich"}
)
_SEXES_MORE = frozenset(
    {"homme", "femme", "hombre", "mujer", "maschio", "femmina", "h", "muž", "žena", "u", "other"}
)
_NATIONAL = (
    *("gb.nhs", "de.idnr", "fr.nir", "fr.nif", "it.codicefiscale", "es.dni", "es.nie"),
    *(
        "nl.bsn",
        "pl.pesel",
        "cz.rc",
        "se.personnummer",
        "be.nn",
        "ch.ssn",
        "dk.cpr",
        "fi.hetu",
        "no.fodselsnummer",
    ),
    *("pt.cc", "br.cpf", "at.vnr", "ie.pps", "in_.aadhaar", "imei"),
)
"""Numbers of people (and of their phones) that python-stdnum knows, by module. Not all countries have check digits."""

_NAMED: tuple[tuple[Look, str], ...] = (
    (Look.EMAIL, r"e[-_]?mail courriel correo"),
    (
        Look.PHONE,
        r"phone (^|_)tel(_|$|efon|ephone) mobile_?(no|nr|num) (^|_)mobil(e|ni)?$ handy (^|_)gsm msisdn (^|_)fax",
    ),
    (Look.IBAN, r"iban"),
    (Look.CARD, r"(^|_)(cc|card|pan|karten?)_?(no|nr|num|number|nummer)?$"),
    (
        Look.DOCUMENT,
        r"(^|_)(ssn|nino|nhs|mrn|nif|dni|pesel|bsn|aadhaar|svnr|ahv|cpf|nir|imei|vin)(_?(no|nr|num|number))?$"
        r" social_?sec passe?port pass_?n(o|r|um) steuer_?(id|n) tax_?(id|no|num) rodne ausweis kennzeichen"
        r" national_?id"
        r" driv\w*_?lic licen[cs]e_?(no|num|plate) insurance_?(id|n(o|r|um)) polic(e|y)_?(id|n(o|r|um))",
    ),
    (Look.IP, r"(^|_)ip(v[46])?(_?addr\w*)?$"),
    (
        Look.NAME,
        r"(^|_)(first|last|sur|fore|given|family|maiden|middle|nick|full|holder)(_?name)?$ surname"
        r" (customer|patient|client|person|employee|guest|user|holder|account)_?name vorname nachname familienname"
        r" (^|_)pr[eé]nom (^|_)nom(_|$) apellido nombre cognome (^|_)nome$ jm[eé]no p[rř][ií]jmen[ií] imi[eę] nazwisko"
        r" voornaam achternaam",
    ),
    (
        Look.ADDRESS,
        r"(?<!ip_)(?<!mac_)(?<!mail_)addr(ess)?(e|_?1|_?2|_line\w*)?$ street stra(ss|ß)e"
        r" (^|_)(rue|calle|ulice|ulica|straat) indirizzo direcci[oó]n",
    ),
    (
        Look.FREE_TEXT,
        r"comment remark (^|_)notes?$ memo free_?text bemerkung verwendungszweck message narrative pozn[aá]mka",
    ),
    (Look.SEX, r"(^|_)sexe?o?$ gender geschlecht sesso pohlav[ií] p[lł]e[cć] geslacht civilit"),
    (
        Look.BIRTH,
        r"birth (^|_)born (^|_)dob(_|$) geburt geboren naissance nacimiento nascita narozen urodz geboorte (^|_)yob",
    ),
    (Look.AGE, r"(^|_)age(_|$) (^|_)alter$ (^|_)edad (^|_)v[eě]k$ (^|_)wiek leeftijd (^|_)[aâ]ge$"),
    (
        Look.POSTCODE,
        r"(^|_)zip post(al)?_?(code|leitzahl) (^|_)(plz|psc|psč|cp|cap)$ code_?postal kod_?pocztowy",
    ),
    (Look.LATITUDE, r"(^|_)lat(itude)?$"),
    (Look.LONGITUDE, r"(^|_)(lon|lng|long)(gitude)?$"),
    (
        Look.JOB,
        r"(^|_)job occupation profession beruf (^|_)title$ m[eé]tier lavoro povol[aá]n[ií] zaw[oó]d trabajo",
    ),
    (
        Look.PLACE,
        r"city town (^|_)(ort|stadt|wohnort|state|land|kraj|okres)$ place ville ciudad citt[aà] m[eě]sto miasto"
        r" province"
        r" region county district country municip suburb village borough commune nation",
    ),
)
"""What names of columns say, in English, German, French, Spanish, Italian, Czech, Polish and Dutch: patterns, with
blanks between them."""
_NAME_PATTERNS = tuple(
    (look, re.compile("|".join(patterns.split()), re.IGNORECASE)) for look, patterns in _NAMED
)
_FITTING: dict[Look, Callable[[Shape], bool]] = {
    **dict.fromkeys((Look.LATITUDE, Look.LONGITUDE), lambda shape: shape is not Shape.TEXT),
    **dict.fromkeys(
        (Look.NAME, Look.FREE_TEXT, Look.ADDRESS, Look.EMAIL, Look.PLACE, Look.JOB),
        lambda shape: shape is Shape.TEXT,
    ),
    Look.AGE: lambda shape: shape not in DAYS,
}
"""Types without which a name says nothing."""
_SPLIT = re.compile(r"(?<=[a-z])(?=[A-Z])|[\s.\-/]+")


@dataclass(frozen=True)
class ColumnLook:
    """look: what the values look like; None: nothing present. by_values: told by them, not by the column's name."""

    look: Look | None = None
    by_values: bool = False

    @property
    def words(self) -> str:
        """In words."""
        if self.look is None:
            return ""
        return f"look like {self.look}" if self.by_values else f"the name says {self.look}"


def column_look(name: str, values: pa.Array, cells: pa.Array | None = None) -> ColumnLook:
    """What a column holds, by its values, else by its name. cells: as they were written; None: they have a type.

    O(500) beside finding different values.
    """
    present = without_null_words(values).drop_null()
    if len(present) and (look := _by_values(present)) is not None:
        return ColumnLook(look, by_values=True)
    if cells is not None and shape_of(values) is not Shape.TEXT:
        # With blanks between, a phone number reads as a whole number.
        written = pc.unique(without_null_words(cells).drop_null())
        chosen = written.take(pa.array(_spread(len(written)))).to_pylist()
        if len(chosen) >= _LEAST and _share(chosen, _has_country) >= _USUAL:
            return ColumnLook(Look.PHONE, by_values=True)
    plain = _SPLIT.sub("_", name)
    for look, pattern in _NAME_PATTERNS:
        if pattern.search(plain) and _FITTING.get(look, lambda _: True)(shape_of(values)):
            return ColumnLook(look)
    return ColumnLook()


def without_null_words(values: pa.Array) -> pa.Array:
    """Text with null where a word for nothing stands (N/A, unknown, -); other values as they are."""
    if shape_of(values) is not Shape.TEXT:
        return values
    return pc.if_else(says_nothing(values), pa.scalar(None, values.type), values)


def says_nothing(texts: pa.Array) -> pa.Array:
    """Whether a text is empty, null, or a word for nothing, in any case and with blanks around; bool (n,)."""
    bare = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    return pc.fill_null(pc.is_in(bare, value_set=pa.array(_NOTHING, texts.type)), True)


_NOTHING = sorted(
    {
        "",
        "-",
        "--",
        "?",
        "unknown",
        "unbekannt",
        "inconnu",
        "none",
        "nil",
        "not available",
        "n.a.",
        "k.a.",
        "tbd",
    }
    | {word.lower() for word in NULL_WORDS}
)


def _by_values(present: pa.Array) -> Look | None:
    shape = shape_of(present)
    if shape in DAYS:
        return _of_days(present)
    distinct = pc.unique(present)
    if shape is Shape.TEXT:
        if 2 <= len(distinct) <= 4 and _sexes(distinct):
            return Look.SEX
        chosen = distinct.take(pa.array(_spread(len(distinct)))).to_pylist()
        return _of_text(chosen, len(distinct)) if len(chosen) >= _LEAST else None
    if shape is Shape.WHOLE and len(distinct) >= _LEAST:
        chosen = [str(number) for number in distinct.take(pa.array(_spread(len(distinct)))).to_pylist()]
        return _of_numbers(chosen)
    return None


def _spread(size: int) -> list[int]:
    """Places of at most ``_LOOKED_AT`` of so many values, the same ones every time."""
    return np.linspace(0, size - 1, min(size, _LOOKED_AT)).astype(int).tolist() if size else []


def _share(values: Sequence[str], fits: Callable[[str], object]) -> float:
    return sum(bool(fits(value)) for value in values) / len(values)


def _sexes(distinct: pa.Array) -> bool:
    words = {word.strip().lower() for word in distinct.to_pylist()}
    own = words & (_SEXES | _SEXES_MORE)
    return own == words and len(own - {"x", "u", "other", "d"}) >= 2


def _of_text(values: Sequence[str], distinct: int) -> Look | None:
    for look, pattern in ((Look.EMAIL, _EMAIL), (Look.UUID, _UUID), (Look.MAC, _MAC), (Look.URL, _URL)):
        if _share(values, pattern.fullmatch) >= _USUAL:
            return look
    if _share(values, _is_ip) >= _USUAL:
        return Look.IP
    if (numbers := _of_numbers(values)) is not None:
        return numbers
    if _share(values, _is_phone) >= _USUAL:
        return Look.PHONE
    if _share(values, _STREET.fullmatch) >= _USUAL:
        # "item 12" has one word for all of them.
        streets = {re.sub(r"[\W\d]+", " ", value).strip() for value in values}
        if len(streets) >= max(_LEAST, len(values) // 20):
            return Look.ADDRESS
    words = [value.split() for value in values]
    if _share(values, _has_first_name) >= (0.5 if distinct >= 20 else _USUAL):
        return Look.NAME
    if distinct >= 20:
        many = float(np.mean([len(each) >= 5 for each in words]))
        if many >= 0.5:
            return Look.FREE_TEXT
    return None


def _of_numbers(values: Sequence[str]) -> Look | None:
    """Numbers with check digits: chance gives one in ten of any other."""
    bare = [re.sub(r"[\s.-]", "", value) for value in values]
    if all(len(value) > 1 for value in bare):
        if _share(bare, _valid("iban")) >= _CHECKED:
            return Look.IBAN
        digits = [value for value in bare if value.isdecimal() and len(value) in _CARD_DIGITS]
        if len(digits) >= _USUAL * len(bare) and _share(digits, _valid("luhn")) >= _CHECKED:
            return Look.CARD
        long = [value for value in bare if len(value) >= 8]
        if (
            len(long) >= _USUAL * len(bare)
            and len(set(long)) >= 20
            and not _share(values, _DATED.fullmatch) >= 0.5
        ):
            if _share(values, _AMERICAN.fullmatch) >= _USUAL:
                return Look.DOCUMENT
            for module in _NATIONAL:
                if _share(long[:20], _valid(module)) >= _CHECKED and _share(long, _valid(module)) >= _CHECKED:
                    return Look.DOCUMENT
    return None


@cache
def _valid(module: str) -> Callable[[str], bool]:
    return importlib.import_module(f"stdnum.{module}").is_valid  # type: ignore[no-any-return]


def _is_ip(value: str) -> bool:
    try:
        ipaddress.ip_address(value.strip())
    except ValueError:
        return False
    return True


def _is_phone(value: str) -> bool:
    """Digits in groups, with a country in front, or in three groups or more."""
    bare = value.strip()
    if not _PHONE.fullmatch(bare) or _DATED.fullmatch(bare):
        return False
    return _has_country(bare) or len(re.findall(r"[\s()./-]+", bare)) >= 2


def _has_country(value: str) -> bool:
    """As no number is written that is a quantity."""
    bare = value.strip()
    return bool(re.match(r"\+\d|00[1-9]|\(\d", bare)) and 7 <= sum(each.isdigit() for each in bare) <= 15


def _has_first_name(value: str) -> bool:
    """One to four words of letters, one of them a first name as many have."""
    words = _WORD.findall(value)
    plain = re.sub(r"[\s,.'’-]", "", value)
    if not 1 <= len(words) <= 4 or not plain.isalpha():
        return False
    return any(word.rstrip(".").lower() in FIRST_NAMES for word in words)


def share_of_first_names(texts: pa.Array) -> float:
    """Of different texts, the share with a first name that many have. O(500) beside finding them."""
    distinct = pc.unique(texts.drop_null())
    chosen = distinct.take(pa.array(_spread(len(distinct)))).to_pylist()
    return _share(chosen, _has_first_name) if chosen else 0.0


def _of_days(present: pa.Array) -> Look | None:
    """Days over decades that end before yesterday's newborns: births, by the years that they spread over."""
    numbers = as_numbers(present)
    if numbers is None or len(numbers) < _LEAST:
        return None
    days = numbers / (86_400 if shape_of(present) is Shape.INSTANT else 1)
    low, high = np.percentile(days, [5, 95])
    epoch = date(1970, 1, 1)
    try:
        first, last = epoch + timedelta(days=float(low)), epoch + timedelta(days=float(high))
    except OverflowError:
        return None
    return Look.BIRTH if (last - first).days >= 25 * 365 and first.year < 1975 and last.year < 2020 else None
