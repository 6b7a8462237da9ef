"""Nothing but public metrics and the verdict flows into a certificate."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines.report.public_facts import public_facts
from kanonflow.pipelines.report.report import write_report
from kanonflow.pipelines.run_records.released_again import LOSS
from kanonflow.pipelines.run_records.verdict import Verdict, judged_files
from kanonflow.schemas.diversity_declaration import words_of_values
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy_fields import Diversity, DiversityKind, Field, Per, Role
from tests.page_reading import ReadPage, read_page
from tests.pipelines.report.told_runs import (
    MODES,
    PUBLIC,
    exact_schema,
    ninety,
    public_schema,
    release_schema,
    shown,
    write_avro,
    write_run,
)

POISON = "POISON"


def certificate(out: Path) -> tuple[str, ReadPage]:
    """Made anew."""
    html = Path(write_report(str(out))[-1]).read_text()
    return html, read_page(html)


def audited(out: Path, **changes: Any) -> None:
    """Lay a verdict there."""
    judged = judged_files(out)
    told: dict[str, Any] = {"passed": True, "judged_at": "2024-06-01T12:00:00+00:00", "kanonflow": "9.9"}
    told |= {
        "policy": "invented",
        "k": 5,
        "protect": "individual",
        "cohort": "lasting",
        "releases": 4,
        "rows": 77,
    }
    told |= {"waiting": False, "matching_records": False, "secret": True, "second_release": False}
    told |= {"followed_groups": 1000, "followed_people": 1000, "followed_rows": 1000}
    told |= {"files": judged.files, "digest": judged.digest}
    (out / "verdict.json").write_text(json.dumps(told | changes))
    inside = {"digest": judged.all_digest, "report": {}}
    (out / "restricted/verdict.json").write_text(json.dumps(inside))


@pytest.mark.parametrize("mode", MODES)
def test_its_numbers_are_those_of_the_public_metrics(mode: str, tmp_path: Path) -> None:
    """Rounded as they are there; exact ones are nowhere on the page."""
    records = ninety(mode)
    public = [shown(each) for each in records if each["released"]]
    html, page = certificate(write_run(tmp_path, records))
    assert page.tables["loss"].column("loss") == [each["gcp"] for each in public]
    assert page.tables["rows"].column("released") == [each["rows_released"] for each in public]
    if mode == "row":
        assert "people" not in page.tables
        assert "How many people the releases hold is not told" in page.text
    else:
        assert page.tables["people"].column("people") == [each["individuals"] for each in public]
    ledger = dict(zip(page.tables["ledger"].shown(""), page.tables["ledger"].column("rows"), strict=True))
    assert ledger["releases"] == len(public)
    assert ledger["rows released"] == sum(each["rows_released"] for each in public)
    assert ledger["rows waiting, at least"] == public[-1]["rows_waiting"]
    rejected = sum(sum(each["rows_rejected"].values()) for each in public)
    assert ledger["rows rejected, at least"] == rejected
    rows = sum(each["rows_released"] for each in public)
    age = sum(each["ncp"]["age"] * each["rows_released"] for each in public) / rows
    assert page.tables["fields"].column("mean loss")[0] == pytest.approx(age, rel=1e-12)
    for each in records:
        for exact in (each["gcp"], each["lower_bound"], each["solve_ms"]):
            assert exact is None or f'"{exact!r}"' not in html


def test_restricted_files_change_nothing(tmp_path: Path) -> None:
    """Byte for byte the same, whatever lies in ``restricted/`` or in the rows, or nothing."""
    out = write_run(tmp_path, ninety("lasting", 12))
    before, _ = certificate(out)
    for path in (out / "restricted").rglob("*"):
        if path.name == "run.json":
            path.write_text(json.dumps({"policy_name": POISON, "accepted_risks": {POISON: POISON}}))
        elif path.is_file():
            write_avro(path, exact_schema(), ninety("row", 1, seed=99))
    for name in ("summary.json", "check.json", "verdict.json"):
        told = {
            "settings": {POISON: POISON},
            "summary": {"rows_read": 123456789},
            "report": {"failures": [POISON]},
        }
        (out / "restricted" / name).write_text(json.dumps(told))
    assert certificate(out)[0] == before
    shutil.rmtree(out / "restricted")
    assert certificate(out)[0] == before
    for path in (out / "release").iterdir():
        data = path.read_bytes()
        head = data.index(data[-16:]) + 16
        path.write_bytes(data[:head] + POISON.encode())
    assert certificate(out)[0] == before


def test_a_field_that_is_not_public_does_not_come_through(tmp_path: Path) -> None:
    """A file in ``metrics/`` that holds more, as restricted ones do, is refused; so are more members of a verdict."""
    out = write_run(tmp_path, [])
    (record,) = ninety("lasting", 1)
    write_avro(out / "metrics/public.avro", public_schema(), [shown(record)])
    withheld = {field["name"] for field in exact_schema()["fields"]} - set(PUBLIC)
    marked = record | {
        "solver": POISON,
        "start": POISON,
        "domains": {POISON: POISON},
        "versions": {POISON: POISON},
    }
    marked |= {"evaluations": 918273645, "lower_bound": 0.918273645, "partition": POISON, "kind": POISON}
    write_avro(out / "metrics/all.avro", exact_schema(), [marked])
    audited(out, more=POISON, failures=[POISON])
    with pytest.raises(InputError, match=r"metrics/all\.avro: .*partition") as refused:
        write_report(str(out))
    assert POISON not in str(refused.value)
    assert not (out / "certificate.html").exists()
    (out / "metrics/all.avro").unlink()
    html, _ = certificate(out)
    assert POISON not in html
    (told,) = public_facts(out, None).metrics
    assert told.keys() == set(PUBLIC)
    assert not withheld & told.keys()


def test_the_allow_list_is_that_of_the_metrics() -> None:
    """As their schema says it, read here once more."""
    said = {
        field["name"] for field in exact_schema()["fields"] if field.get("public", "withheld") != "withheld"
    }
    assert said == set(PUBLIC)
    assert {field["name"] for field in public_schema()["fields"]} == said


def test_the_reader_that_a_policy_is_against_is_told(tmp_path: Path) -> None:
    """By the metrics, and on the page inside as well."""
    words = (
        "against, guaranteed: who also knows 3 windows with rows is left with 5 people or more (1/5 each)."
    )
    out = write_run(tmp_path, [each | {"against": words} for each in ninety("lasting", 4)])
    _, page = certificate(out)
    assert words in page.text
    assert words in (out / "restricted/report.html").read_text()


def test_what_rules_for_values_are_is_told(tmp_path: Path) -> None:
    """A floor of each release, and no promise over the epoch: by the metrics, and on the page inside as well."""
    (words,) = words_of_values(
        [Field("pay", Role.SENSITIVE, diversity=Diversity(DiversityKind.DISTINCT, 2, Per.RELEASE))]
    )
    out = write_run(tmp_path, [each | {"values": words} for each in ninety("lasting", 4)])
    _, page = certificate(out)
    assert "A floor for readers who do not link releases" in words
    assert words in page.text
    assert words in (out / "restricted/report.html").read_text()


def test_restricted_metrics_leave_the_verdict_alone(tmp_path: Path) -> None:
    """A policy that keeps its metrics tells what the schema of the releases says, and what the audit found."""
    out = write_run(tmp_path, ninety("lasting", 4), public=False)
    html, page = certificate(out)
    assert "Not audited yet" in page.text
    assert "at most 1/5" in page.text
    assert "svg" not in page.tags
    audited(out)
    html, page = certificate(out)
    assert "The audit passed in full on 2024-06-01 12:00:00 UTC, by kanonflow 9.9." in page.text
    assert "at most 1/5" in page.text
    assert page.tables["verdict"].records()["rows read in them"] == ["77"]
    exact = {f'"{each["rows_released"]}"' for each in ninety("lasting", 4) if each["released"]}
    assert not any(each in html for each in exact)


@pytest.mark.parametrize(
    ("changes", "words", "kind"),
    [
        ({}, "The audit passed in full on", "good"),
        (
            {"followed_groups": 769, "followed_rows": 0},
            "The audit passed in part on 2024-06-01 12:00:00 UTC, by kanonflow 9.9: 76.9% of the groups, 100.0% of the"
            " people and 0.0% of the rows were followed",
            "open",
        ),
        ({"waiting": True}, "over what was released so far", "good"),
        ({"passed": False}, "The audit FAILED on", "bad"),
        ({"digest": "0" * 64}, "Not audited as it is now", "bad"),
        ({"passed": False, "digest": "0" * 64}, "Not audited as it is now", "bad"),
        ({"judged_at": 5}, "Not audited yet", "open"),
    ],
)
def test_the_verdict_comes_first(changes: dict[str, Any], words: str, kind: str, tmp_path: Path) -> None:
    """Passed, failed, of other files, or none; on both pages."""
    out = write_run(tmp_path, ninety("window", 3))
    audited(out, **changes)
    assert (
        "The public files are those that it judged" in certificate(out)[0]
        or kind == "bad"
        or "judged_at" in changes
    )
    for path in write_report(str(out)):
        html = Path(path).read_text()
        (status,) = re.findall(r'<p class="status (\w+)">([^<]*)</p>', html)
        assert status[0] == kind
        assert words in status[1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("stale", [{}, {"digest": "0" * 64}])
def test_rows_that_were_released_again_are_promised_nothing(
    mode: str, public: bool, stale: dict[str, str], tmp_path: Path
) -> None:
    """By either page, also where files have changed since; and no bound is told of them."""
    out = write_run(tmp_path, ninety(mode, 3), public=public)
    audited(out, second_release=True, **MODES[mode], **stale)
    inside, outside = (read_page(Path(path).read_text()) for path in write_report(str(out)))
    for page in (inside, outside):
        assert LOSS in page.text
        assert "1/5" not in page.text
    assert "risk" not in outside.tables
    assert outside.tables["verdict"].records()["another release of its rows"] == [
        "known: the promise is lost"
    ]


@pytest.mark.parametrize(
    "word", [{"second_release_of": ".."}, {"second_releases": [{"directory": "second-2"}]}]
)
def test_the_report_knows_of_a_second_release_before_an_audit(word: dict[str, Any], tmp_path: Path) -> None:
    """From what the run wrote of itself, which the certificate does not see: it says that nobody has looked."""
    out = write_run(tmp_path, ninety("row", 3))
    (out / "restricted/run.json").write_text(json.dumps(word))
    inside, outside = (read_page(Path(path).read_text()) for path in write_report(str(out)))
    assert LOSS in inside.text
    assert "1/5" not in inside.text
    assert "Whether these rows were released a second time" in outside.text


@pytest.mark.parametrize("mode", MODES)
def test_every_promise_names_its_premises(mode: str, tmp_path: Path) -> None:
    """Those that the user alone can see to: each row once, and quasi-identifiers classified as such. And whether it is
    proved."""
    for path in write_report(str(write_run(tmp_path, ninety(mode, 3)))):
        text = read_page(Path(path).read_text()).text
        assert "one policy, one secret, one run" in text
        assert "The quasi-identifiers are classified as such" in text
        assert ("a proof that a machine checks" in text) is (mode == "lasting")
        assert ("tested, not proved. So are diversity, closeness" in text) is (mode != "lasting")


def test_restricted_is_no_directory_of_a_run(tmp_path: Path) -> None:
    """A certificate of what is restricted would be made of exact metrics: by no name, and of no copy."""
    out = write_run(tmp_path, ninety("lasting", 3), public=False)
    shutil.copytree(out / "restricted", tmp_path / "copy")
    (tmp_path / "copy/run.json").unlink()
    (tmp_path / "link").symlink_to(out / "restricted")
    for place in (out / "restricted", out / "restricted/", tmp_path / "link", tmp_path / "copy"):
        with pytest.raises(InputError):
            write_report(str(place))
        assert not (place / "certificate.html").exists()
    (out / "restricted/run.json").unlink()
    with pytest.raises(InputError, match="give the directory that holds it"):
        write_report(str(out / "restricted"))


@pytest.mark.parametrize("public", [True, False])
def test_nothing_is_promised_that_the_audit_refuted(public: bool, tmp_path: Path) -> None:
    """Nor anything of the policy that was given to it, whatever its k was."""
    out = write_run(tmp_path, ninety("lasting", 3), public=public)
    audited(out, k=50, passed=False)
    for path in write_report(str(out)):
        page = read_page(Path(path).read_text())
        assert "nothing is promised here" in page.text
        assert "1/50" not in page.text
        assert "1/5" not in page.text
    assert "risk" not in page.tables
    assert page.tables["settings"].records()["k"] == ["5"]


@pytest.mark.parametrize("changes", [{}, {"digest": "0" * 64}])
def test_k_is_that_of_the_releases(changes: dict[str, str], tmp_path: Path) -> None:
    """And never that of a policy that somebody gave to an audit; the cohort follows from the epoch."""
    out = write_run(tmp_path, ninety("window", 3), public=False)
    audited(out, k=50, **changes)
    _, page = certificate(out)
    assert "at most 1/5" in page.text
    assert "50" not in page.tables["settings"].records()["k"]
    assert "Each release is promised alone" in page.text
    path = next((out / "release").iterdir())
    schema = release_schema()
    write_avro(path, schema | {"kanonflow": schema["kanonflow"] | {"k": 3}}, [])
    with pytest.raises(InputError, match="k is"):
        write_report(str(out))


def test_the_report_stands_by_all_files_that_were_judged(tmp_path: Path) -> None:
    """A restricted file that changed leaves the public ones audited, and the run inside not."""
    out = write_run(tmp_path, ninety("window", 3))
    audited(out)
    path = next((out / "restricted/metrics").iterdir())
    write_avro(path, exact_schema(), ninety("window", 1, seed=7))
    inside, outside = (read_page(Path(path).read_text()) for path in write_report(str(out)))
    assert "Not audited as it is now" in inside.text
    assert "The audit passed" not in inside.text
    assert "The audit passed" in outside.text
    (out / "restricted/verdict.json").unlink()
    inside, _ = (read_page(Path(path).read_text()) for path in write_report(str(out)))
    assert "Not audited as it is now" in inside.text


def test_a_page_is_no_way_into_a_browser(tmp_path: Path) -> None:
    """Names from policies and verdicts are text."""
    hostile = "<script>alert(1)</script>"
    out = write_run(
        tmp_path, [each | {"policy": hostile, "ncp": {hostile: 0.5}} for each in ninety("window", 3)]
    )
    audited(out, policy=hostile, kanonflow=hostile)
    for path in write_report(str(out)):
        page = read_page(Path(path).read_text())
        assert "script" not in page.tags
        assert hostile in page.text


def test_every_member_of_a_verdict_is_public() -> None:
    """What is added to it must be thought about: this list is the one that was."""
    assert set(Verdict.__dataclass_fields__) == {
        *("passed", "judged_at", "kanonflow", "policy", "k", "protect", "cohort", "releases", "rows"),
        *("waiting", "matching_records", "secret", "second_release", "files", "digest", "place"),
        *("followed_groups", "followed_people", "followed_rows"),
    }


@pytest.mark.parametrize("public", [True, False])
def test_it_says_how_each_field_is_published(public: bool, tmp_path: Path) -> None:
    """Exact ones first and in a sentence, whether the metrics are public or not; form, grid and declared domain as
    the releases' schema has them; premises are folded under the one promise, and no section is empty."""
    html, page = certificate(write_run(tmp_path, ninety("lasting", 4), public=public))
    told = {field["name"]: field["kanonflow"] for field in release_schema()["fields"] if "kanonflow" in field}
    exact = [name for name, own in told.items() if own["role"] != "quasi"]
    table = page.tables["published"].records()
    assert list(table)[: len(exact)] == exact
    assert table.keys() == told.keys()
    assert f"Published exactly as they are: {', '.join(exact)}." in page.text
    for name, own in told.items():
        form, grid, domain = table[name]
        assert (form == "as it is") is (name in exact)
        assert grid == str(own.get("grid") or "")
        assert all(str(end) in domain for end in (own.get("domain") or [])[:1])
    for heading in ("What the promise rests on", "What it does not cover", "What shows that it is kept"):
        assert html.count(f"<summary>{heading}</summary>") == 1
    assert "nothing is told of it here" not in page.text
    assert ("The feed over time" in page.text) is public


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_no_section_is_empty(mode: str, public: bool, tmp_path: Path) -> None:
    """Under each protection, whether metrics are public or kept, audited or not: a page that an officer can sign."""
    out = write_run(tmp_path, ninety(mode, 4), public=public)
    for _ in ("not yet audited", "audited"):
        html, _page = certificate(out)
        sections = re.findall(r'<section id="([^"]+)".*?>\s*<h2.*?</h2>(.*?)</section>', html, re.DOTALL)
        assert len(sections) == html.count("<section"), mode
        assert {name for name, _ in sections} >= {"verdict", "fields", "risk", "settings"}
        for name, body in sections:
            words = re.sub(
                r"<[^>]+>", " ", re.sub(r"<(style|script).*?</\1>", "", body, flags=re.DOTALL)
            ).split()
            assert len(words) >= 8, f"{name}: {' '.join(words)}"
        audited(out)
