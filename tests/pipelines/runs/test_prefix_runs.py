"""Whole runs over fields of ``type: prefix``: released as labels, audited, and refused where a label lies."""

from __future__ import annotations

import ipaddress
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.analysis.released_table import read_release
from kanonflow.pipelines.estimates.coverage import prefix_column
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.prefix_tree import PrefixOf, PrefixTree
from tests.pipelines.audit.good_runs import change_rows, read, write

pytestmark = pytest.mark.thorough

POLICY = """
version: 1
k: 3
max_rejected: 0.2
{head}
fields:
  who: {{role: {who}}}
  {time}
  zip: {{role: quasi, type: prefix, lengths: [1, 3], size: 5}}
  phone: {{role: quasi, type: prefix, lengths: [2, 4]}}
  home: {{role: quasi, type: prefix, of: ipv4}}
  site: {{role: quasi, type: prefix, of: ipv6, lengths: [32, 48]}}
  amount: {{role: sensitive, as: int, accept_risk: numbers of a test}}
others: drop
"""
QUASIS = ("zip", "phone", "home", "site")
SHAPES = {
    "lasting": ("window: 1d\nmax_delay: 1d\nintake: 12", "individual", "when: {role: time}"),
    "window": ("window: 1d\nmax_delay: 1d\ncohort: window", "individual", "when: {role: time}"),
    "row": ("", "identifier", ""),
    "levels": ("protect: row\nsolver: {method: ola, suppression: 0.05}", "identifier", ""),
    "levels of people": (
        "protect: individual\nsolver: {method: ola, suppression: 0.05}",
        "individual",
        "",
    ),
}
PEOPLE = 40


def _cells(person: int) -> dict[str, str]:
    """Somebody's quasi-identifiers. Addresses of the sixth version are spelled in more than one way; phones differ in
    length, down to one that is shorter than every prefix."""
    own = np.random.default_rng(person)
    site = ipaddress.IPv6Address(0x20010DB8 << 96 | int(own.integers(4)) << 80 | int(own.integers(3)) << 8)
    return {
        "zip": "" if person % 13 == 3 else f"{own.choice([941, 942, 100, 606])}{own.integers(3):02d}",
        "phone": f"{own.choice([30, 40, 41])}{own.integers(40)}" if person else "3",
        "home": f"10.{own.integers(3)}.{own.integers(3)}.{own.integers(5)}",
        "site": site.exploded.upper() if person % 2 else str(site),
    }


def _write(folder: Path, shape: str) -> list[str]:
    head, who, time = SHAPES[shape]
    folder.mkdir(exist_ok=True)
    (folder / "policy.yaml").write_text(POLICY.format(head=head, who=who, time=time))
    lines = ["who,when,amount," + ",".join(QUASIS)]
    for day in range(1, 4) if time else (1,):
        for person in range(PEOPLE):
            cells = ",".join(_cells(person).values())
            lines.append(f"p{person},2024-03-{day:02d} 10:00:00,{len(lines)},{cells}")
    wrong = {**_cells(1), "zip": "2134"}, {**_cells(1), "home": "10.0.0.999"}, {**_cells(1), "phone": "3*"}
    for number, cells in enumerate(wrong):
        # Of people whom no cohort knows: of others nothing of this is read.
        lines.append(f"q{number},2024-03-01 10:00:00,{900 + number},{','.join(cells.values())}")
    (folder / "in.csv").write_text("\n".join(lines) + "\n")
    secret = folder / "secret"
    secret.touch(mode=0o600)
    secret.write_bytes(bytes(range(32)))
    return ["--policy", str(folder / "policy.yaml"), "--input", str(folder / "in.csv")]


def _rows(path: Path) -> tuple[Any, list[dict[str, Any]]]:
    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        return reader.writer_schema, list(reader)


def _begins(label: str | None, cell: str, name: str) -> bool:
    """The definition of a label, written once more."""
    if label in (None, "*"):
        return label == "*" or not cell
    if not cell:
        return False
    if name in ("home", "site"):
        return ipaddress.ip_address(cell) in ipaddress.ip_network(label)
    kept = label.rstrip("*")
    return cell == label if kept == label else cell.startswith(kept)


@pytest.mark.parametrize("release_format", ["avro", "parquet"])
@pytest.mark.parametrize("shape", SHAPES)
def test_prefixes_are_released_and_audited(
    shape: str, release_format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under every protection, in both formats: a run passes the audit, and what is no value is rejected by name."""
    flags = _write(tmp_path, shape)
    out = str(tmp_path / "out")
    more = ["--secret-file", str(tmp_path / "secret"), "--release-format", release_format]
    assert cli.main(["anonymize", *flags, "--output", out, *more, "--quiet", "--certificates"]) == 0
    capsys.readouterr()
    verify = ["verify", *flags, "--release", out, "--secret-file", str(tmp_path / "secret"), "--certificates"]
    assert cli.main(verify) == 0, capsys.readouterr()
    rejected = [
        record
        for path in (tmp_path / "out" / "restricted" / "rejected").glob("*.avro")
        for record in _rows(path)[1]
    ]
    faults = Counter(record["field"] for record in rejected if record["reason"] == "outside_domain")
    assert faults == {"zip": 1, "home": 1, "phone": 1}
    expected = {record["field"]: record["expected"] for record in rejected if record["field"]}
    assert expected["home"] == "an IPv4 address such as 192.0.2.1"
    assert expected["zip"] == "a text of 5 characters without *"


def _plant(rows: list[dict[str, Any]], *, name: str, label: str, planted: str | None) -> None:
    for row in rows:
        row[name] = planted if row[name] == label else row[name]


@pytest.mark.parametrize("shape", ["lasting", "window", "row"])
def test_a_label_that_lies_does_not_pass(
    shape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Planted: a box that is too narrow, one that is wider than anybody in it needs, a label of another length, one of
    other values, and one that is spelled otherwise."""
    flags = _write(tmp_path, shape)
    out = str(tmp_path / "out")
    assert cli.main(["anonymize", *flags, "--output", out, "--quiet"]) == 0
    path = sorted((tmp_path / "out" / "release").glob("*.avro"))[0]
    schema, rows = read(path)
    labels = {name: {row[name] for row in rows} for name in QUASIS}
    assert any(label and label.endswith("**") for label in labels["zip"])
    assert any(label and "/" in label for label in labels["home"] | labels["site"])

    def first(name: str, wanted: str) -> str:
        return next(label for label in sorted(map(str, labels[name])) if wanted in label)

    network = first("home", "/")
    address, length = network.split("/")
    said = {}
    faults = {
        "wide": ("home", network, "*"),
        "narrow": ("home", network, address),
        "narrower": ("zip", first("zip", "**"), first("zip", "**").replace("*", "0")),
        "of a length that nobody declared": ("home", network, f"{address}/{int(length) - 1}"),
        "of others": ("home", network, "172.16.0.0/16"),
        "of nobody": ("zip", first("zip", "**"), "777**"),
        "of too few stars": ("zip", first("zip", "**"), first("zip", "**")[:-1]),
        "host bits": ("home", network, f"10.0.0.77/{length}"),
        "no label": ("site", first("site", "2001"), "hello"),
        "without a value": ("site", first("site", "2001"), None),
    }
    for what, (name, label, planted) in faults.items():
        write(path, schema, rows)
        change_rows(path, partial(_plant, name=name, label=label, planted=planted))
        capsys.readouterr()
        assert cli.main(["verify", *flags, "--release", out]) == 1, what
        said[what] = capsys.readouterr().out
    for what in ("of a length that nobody declared", "of too few stars", "host bits"):
        assert "a label that is no prefix of the policy's lengths" in said[what], what
    assert "a label that is not the lowest over any records in its box" in said["wide"]


def test_boxes_are_the_longest_common_prefixes(tmp_path: Path) -> None:
    """Closed classes of the rows that share a box: its label holds all of them, and no longer one does."""
    flags = _write(tmp_path, "window")
    assert cli.main(["anonymize", *flags, "--output", str(tmp_path / "out"), "--quiet"]) == 0
    header, *lines = (line.split(",") for line in (tmp_path / "in.csv").read_text().splitlines())
    records = {
        record["amount"]: record for record in (dict(zip(header, line, strict=True)) for line in lines)
    }
    for path in (tmp_path / "out" / "release").glob("*.avro"):
        classes: dict[tuple[Any, ...], list[dict[str, str]]] = {}
        for row in _rows(path)[1]:
            classes.setdefault(tuple(row[name] for name in QUASIS), []).append(records[str(row["amount"])])
        for box, members in classes.items():
            for name, label in zip(QUASIS, box, strict=True):
                assert all(_begins(label, member[name], name) for member in members)


def test_policy_check_counts_what_is_no_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It tells how many rows would be rejected and what was expected, and shows none of their values."""
    flags = _write(tmp_path, "row")
    cli.main(["policy", "check", flags[1], *flags[2:]])
    said = capsys.readouterr()
    assert (
        "zip: 1 different value in 1 row of the data that is not a text of 5 characters"
        in said.out + said.err
    )
    assert "10.0.0.999" not in said.out + said.err


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_releases_are_read_and_asked_without_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The schema says how labels are made: counts by prefix hold the truth, and reports and explain measure by them."""
    flags = _write(tmp_path, "row")
    out = str(tmp_path / "out")
    assert cli.main(["anonymize", *flags, "--output", out, "--quiet"]) == 0
    released = read_release(out)
    people = [_cells(person) for person in range(PEOPLE)]
    for name, asked in (
        ("zip", "94***"),
        ("home", "10.1.0.0/16"),
        ("site", "2001:DB8:2::/48"),
        ("phone", "3*"),
    ):
        counted = released.estimate("count", where={name: [asked]}).table.to_pylist()[0]
        true = sum(_begins(asked, cells[name], name) for cells in people)
        assert counted["lower"] <= true <= counted["upper"], name
    assert released.estimate("count", where={"zip": None}).table.to_pylist()[0]["upper"] >= 3
    parts = released.estimate("count", by={"home": "each"}).table.to_pylist()
    assert [part["home"] for part in parts] == ["10.0.0.0/8"]
    with pytest.raises(InputError, match=r"home: 1 of what is asked for is no prefix of ipv4, nor a value"):
        released.estimate("count", where={"home": "somewhere"})
    capsys.readouterr()
    assert cli.main(["report", out, *flags]) == 0
    assert cli.main(["explain", *flags]) == 0, capsys.readouterr().err
    assert cli.main(["export", out, "--to", "csv", "--flat", "label"]) == 0


def test_a_value_is_one_of_its_prefix_and_not_the_prefix() -> None:
    """941 is a value; 941* are all that begin so. Of a longer prefix the share goes by what it adds."""
    tree = PrefixTree(PrefixOf.TEXT, (1, 3))
    column = prefix_column(pa.array(["941", "941*", "9*", "*", None]), tree, 4)
    assert column.cover(frozenset(["941"])).sure.tolist() == [True, False, False, False]
    assert column.cover(frozenset(["941*", "9412"])).share.tolist() == [1.0, 1.0, 0.01, 0.001]
    assert column.cover(frozenset([None])).rows.tolist() == [3, 4]
    assert column.cover(frozenset(["*"])).sure.tolist() == [True] * 5
    assert column.each() == ["9*", None]
    assert column.widths.tolist() == [0, 1, 3, 4, 0]
