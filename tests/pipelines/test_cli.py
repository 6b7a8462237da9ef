"""The commands, with a stand-in for the anonymizer: arguments, messages, exit codes, the ledger."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.runs import anonymize_files
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.secret.seeds import Secret
from tests.pass_through import PassThrough

POLICY = """\
version: 1
k: 2
max_rejected: 1
fields:
  age: {role: quasi, type: numeric, as: int}
  job: {role: quasi, type: categorical}
  amount: {role: sensitive}
"""
CSV = "age,job,amount\n30,nurse,1\n31,cook,2\nold,cook,3\n32,cook\n"

Run = Callable[..., int]


class _Fail(beam.DoFn):
    def process(self, batch: Any) -> Any:
        raise ValueError("the value 31 of somebody")


class Failing(beam.PTransform):
    """A step that fails with a value in its message."""

    def __init__(self, inner: beam.PTransform) -> None:
        super().__init__()
        self._inner = inner

    def expand(self, batches: beam.PCollection) -> Any:
        return batches | beam.ParDo(_Fail()) | self._inner


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the anonymizer. The dict takes faults to plant: ``lose`` rows of each batch, or ``fail``."""
    faults: dict[str, Any] = {"lose": 0, "fail": False}

    def make(
        bound: BoundPolicy, secret: Secret, *, matching_records: bool, published: Any, **_: Any
    ) -> beam.PTransform:
        assert not matching_records
        inner = PassThrough(bound, lose=faults["lose"])
        return Failing(inner) if faults["fail"] else inner

    monkeypatch.setattr(anonymize_files, "kanonymize", make)
    return faults


@pytest.fixture
def run(tmp_path: Path, stand_in: dict[str, Any]) -> Run:
    """``kanonflow anonymize`` on a small feed, into tmp_path/out."""
    (tmp_path / "p.yaml").write_text(POLICY)
    (tmp_path / "in.csv").write_text(CSV)

    def anonymize(*more: str, **paths: str) -> int:
        files = {"policy": "p.yaml", "input": "in.csv", "output": "out"} | paths
        flags = [part for flag, name in files.items() for part in (f"--{flag}", str(tmp_path / name))]
        return cli.main(["anonymize", *flags, *more])

    return anonymize


def test_a_run_ends_with_its_ledger(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0, a table that accounts for each row by reason, a drawn secret that is announced, and no values
    in what is printed."""
    assert run() == 0
    out, err = capsys.readouterr()
    table = dict(line.split("  ", 1) for line in out.replace("  ", "  ").splitlines() if "  " in line.strip())
    assert {name.strip(): value.split()[0] for name, value in table.items() if name.strip()}[
        "rows read"
    ] == "4"
    for line in ("rows released", "bad_value", "unparseable", "mean GCP", "solve", "publish"):
        assert line in out
    assert "drew one" in err
    assert "old" not in out + err
    assert len(list((tmp_path / "out" / "release").iterdir())) == 1


def test_rejected_rows_say_why(run: Run, tmp_path: Path) -> None:
    """The row with a wrong type and the row that is too short are in restricted/rejected, with reasons."""
    run()
    records = []
    for path in (tmp_path / "out" / "restricted" / "rejected").iterdir():
        with path.open("rb") as file:
            records += list(fastavro.reader(file))
    found = {record["reason"]: (record["field"], record["row"].get("age")) for record in records}
    assert found == {"bad_value": ("age", "old"), "unparseable": (None, None)}


def test_quiet_prints_nothing_when_all_is_well(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what must be known: where the secret is, and what k = 2 with rows means."""
    run("--quiet")
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 2)
    assert "k is 2" in err


def test_resuming_releases_the_same_and_nothing_twice(run: Run, tmp_path: Path) -> None:
    """A second run is refused; with --resume it ends well and leaves the releases as they were."""
    assert run() == 0
    (path,) = (tmp_path / "out" / "release").iterdir()
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    assert run() == 2
    assert run("--resume") == 0
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert list((tmp_path / "out" / "release").iterdir()) == [path]


def test_a_ledger_that_does_not_add_up_is_a_failed_run(
    run: Run, stand_in: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A lost row is exit code 3 and a message with the numbers."""
    stand_in["lose"] = 1
    assert run() == 3
    assert "4 rows read, but 1 released, 2 rejected and 0 waiting" in capsys.readouterr().err


def test_a_conflict_is_a_failed_run(
    run: Run, stand_in: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A release that exists with other rows: exit code 3; the ledger still adds up."""
    assert run() == 0
    stand_in["lose"] = 1
    capsys.readouterr()
    assert run("--resume") == 3
    err = capsys.readouterr().err
    assert "1 release(s) exist already with other rows" in err


def test_a_failing_step_is_a_failed_run_that_shows_no_value(
    run: Run, stand_in: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3; the traceback, which may hold values, goes to a log inside, for its owner only."""
    stand_in["fail"] = True
    assert run() == 3
    out, err = capsys.readouterr()
    log = tmp_path / "out" / "restricted" / "beam.log"
    assert f"see {log}" in err
    assert "31 of somebody" not in out + err
    assert "31 of somebody" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "in.csv: the file is empty"),
        ("age,job\n1,cook\n", "fields that the input does not have: amount"),
        ("age,job,amount,more\n", "input fields without a role: more"),
    ],
)
def test_an_input_that_does_not_fit_is_refused(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    """Exit code 2, one message, and nothing is created."""
    (tmp_path / "in.csv").write_text(content)
    assert run() == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_damage_found_while_reading_is_refused_like_any_other(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that breaks in the middle ends the run with exit code 2 and its name."""
    (tmp_path / "in.csv").write_text(CSV + '33,"cook,4\n' * 3)
    assert run() == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert err.startswith(
        f"kanonflow: {tmp_path}/in.csv: a quoted value does not end before line 7, whose quote is"
    )
    assert "Close its quote, or say csv: {quote: ''}" in err


def test_two_rows_that_an_open_quote_makes_one_are_refused(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next row's quote closes the value: that row's person would stand in the payload of another's. Where every
    value is quoted, nothing of it is published, and no value is told."""
    quoted = ["age,job,amount", *(f'{30 + each % 3},"cook","{each}"' for each in range(9))]
    quoted[4] = quoted[4][:-1]
    (tmp_path / "in.csv").write_text("\n".join(quoted) + "\n")
    assert run() == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert "in.csv: a quoted value does not end before line 6, whose quote is another row's" in err
    assert "cook" not in err
    assert not list((tmp_path / "out" / "release").glob("*"))


def test_an_empty_feed_is_no_error(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A header and no rows: exit 0, no release, a ledger of zeros, empty folders."""
    (tmp_path / "in.csv").write_text("age,job,amount\n")
    assert run() == 0
    assert "rows read" in capsys.readouterr().out
    assert not list((tmp_path / "out" / "release").iterdir())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--direct_num_workers", "2"], "--direct_num_workers must be 1"),
        (["--direct_num_workers=0"], "--direct_num_workers must be 1"),
        (["--direct_running_mode=multi_threading"], "release windows twice"),
        (["--direct_running_mode", "multi_processing"], "release windows twice"),
        (["--delimeter", ";"], "unknown flag --delimeter; did you mean --delimiter?"),
        (["--certificate"], "unknown flag --certificate; did you mean --matching-records?"),
        (["--polici", "x"], "unknown flag --polici; did you mean --policy?"),
        (["stray"], "unexpected argument stray"),
        (["--runner", "BundleBasedDirectRunner"], "say --runner FnApiRunner"),
        (["--runner", "NoRunner"], "--runner NoRunner"),
        (["--secret-env", "KANONFLOW_TEST_UNSET"], "KANONFLOW_TEST_UNSET"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    """Exit code 2 and a message that names the flag, before anything is written."""
    assert run(*flags) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "release").exists()


def test_a_flag_of_beams_is_not_what_was_meant(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beam has hundreds, of which some resemble everything: only ours are proposed, and only the command's."""
    for flag in ("--direct_num_worker", "--end-on-rejectd"):
        assert run(flag) == 2
        err = capsys.readouterr().err
        assert f"unknown flag {flag}" in err
        assert "did you mean" not in err


@pytest.mark.parametrize("name", ["DirectRunner", "SwitchingDirectRunner", "direct"])
def test_beams_direct_runner_by_name_is_one_that_is_known(
    run: Run, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """With a note, also where nothing else is told."""
    assert run("--runner", name, "--quiet") == 0
    assert f"--runner {name} runs as FnApiRunner" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags",
    [
        ["--threads", "0"],
        ["--evaluations", "nan"],
        ["--deadline-ms", "x"],
        ["--delimiter", "::"],
        ["--seed", "-1"],
    ],
)
def test_values_that_are_none_are_refused(run: Run, flags: list[str]) -> None:
    """argparse ends the process with its exit code 2."""
    with pytest.raises(SystemExit) as exit:
        run(*flags)
    assert exit.value.code == 2


def test_a_secret_is_never_a_value_on_the_command_line(run: Run, tmp_path: Path) -> None:
    """It comes from a file or a variable; then none is drawn."""
    (tmp_path / "secret").write_bytes(bytes(range(32)))
    (tmp_path / "secret").chmod(0o600)
    assert run("--secret-file", str(tmp_path / "secret")) == 0
    assert not (tmp_path / "out" / "restricted" / "secret").exists()
    assert run("--secret", "x" * 32) == 2


def test_beam_flags_pass(run: Run) -> None:
    """Any option that Beam knows goes to Beam."""
    assert run("--job_name", "test", "--no_auth") == 0


def test_the_solver_can_be_overridden(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """--evaluations, --deadline-ms, --threads and --seed replace what the policy says."""
    seen: list[Policy] = []
    make = anonymize_files.kanonymize

    def spy(bound: BoundPolicy, secret: Secret, **others: Any) -> beam.PTransform:
        seen.append(bound.policy)
        return make(bound, secret, **others)

    monkeypatch.setattr(anonymize_files, "kanonymize", spy)
    assert run("--evaluations", "7.5", "--deadline-ms", "900", "--threads", "2", "--seed", "4") == 0
    solver = seen[0].solver
    assert (solver.evaluations_per_row, solver.deadline_ms, solver.threads, solver.seed) == (7.5, 900, 2, 4)


def test_mixed_up_inputs_may_be_given_several_times(run: Run, tmp_path: Path) -> None:
    """--input is repeatable; every file counts once."""
    (tmp_path / "more.csv").write_text("age,job,amount\n1,cook,1\n")
    assert run("--input", str(tmp_path / "more.csv"), "--input", str(tmp_path / "in.csv")) == 0
    assert len(list((tmp_path / "out" / "release").iterdir())) == 2


def test_demo_runs_without_any_file(
    tmp_path: Path, stand_in: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """kanonflow demo generates a feed and anonymizes it; late and broken rows are accounted for."""
    flags = ["demo", "--rows", "2000", "--days", "3", "--seed", "3", "--output", str(tmp_path / "out")]
    assert cli.main(flags) == 0
    out = capsys.readouterr().out
    for word in ("2,000 transactions", "missing_value", "outside_domain", "bad_value", "unparseable"):
        assert word in out
    assert cli.main(flags) == 0
    assert cli.main([*flags[:5], "--seed", "4", *flags[7:]]) == 2


def test_policy_draft_lists_every_field_and_is_refused_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A draft names all fields with the types their values look like; unedited, what it asks is reported."""
    (tmp_path / "in.csv").write_text("id,born,amount\n7,1990-01-02,3.5\n")
    assert cli.main(["policy", "draft", "--input", str(tmp_path / "in.csv")]) == 0
    draft = capsys.readouterr().out
    for line in ("id: {role: ", "as: long", "as: date", "as: double"):
        assert line in draft.replace('"', "")
    (tmp_path / "p.yaml").write_text(draft)
    assert cli.main(["policy", "check", str(tmp_path / "p.yaml")]) == 2
    err = capsys.readouterr().err
    assert "protect: say row if each row is a person of its own" in err


def test_policy_check_names_the_mode_and_what_it_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy that fits: its promise, the limits of it, and the note about repeated rows."""
    (tmp_path / "p.yaml").write_text(POLICY)
    (tmp_path / "in.csv").write_text(CSV)
    assert cli.main(["policy", "check", str(tmp_path / "p.yaml"), "--input", str(tmp_path / "in.csv")]) == 0
    out = capsys.readouterr().out
    for words in ("protect: row", "It does not cover", "No event_id", "k = 2", "fits"):
        assert words in out


def test_policy_check_reports_all_mistakes_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three mistakes, one run, exit code 2."""
    (tmp_path / "p.yaml").write_text("version: 2\nk: 1\nfields: {age: {role: quasy}}\n")
    assert cli.main(["policy", "check", str(tmp_path / "p.yaml")]) == 2
    err = capsys.readouterr().err
    assert all(words in err for words in ("3 mistakes", "version:", "k:", "fields.age.role:"))


def test_verify_ends_with_the_audits_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 when the audit passed, 1 when it failed, or with --strict passed in part; its report is printed, as
    text or as JSON."""
    audited: list[Any] = []

    class Report:
        def __init__(self, passed: bool) -> None:
            self.passed, self.in_full = passed, False

        def render(self) -> str:
            return "the report"

        def to_json(self) -> str:
            return "{}"

    def audit(*paths: Any, delimiter: str | None, input_format: str | None, **checks: Any) -> Report:
        assert input_format is None
        assert checks == {"waiting": False, "matching_records": False, "known": 0, "allow_empty": False}
        audited.append((*paths, delimiter))
        return Report(len(audited) in (1, 3))

    monkeypatch.setattr("kanonflow.pipelines.audit.audit.audit", audit)
    monkeypatch.chdir(tmp_path)
    Path("p").write_text("version: 1\nk: 2\nfields:\n  age: {role: quasi, type: numeric}\n")
    flags = ["verify", "--policy", "p", "--input", "a", "--input", "b", "--release", "r"]
    assert cli.main(flags) == 0
    assert cli.main([*flags, "--json", "--delimiter", "tab"]) == 1
    assert cli.main([*flags, "--strict"]) == 1
    assert capsys.readouterr().out == "the report\n{}\nthe report\n"
    assert audited[:2] == [
        (Path("p"), ["a", "b"], Path("r"), None),
        (Path("p"), ["a", "b"], Path("r"), "\t"),
    ]


def test_an_input_error_is_found_in_what_a_runner_wraps_it_in() -> None:
    """Portable runners put a worker's traceback into an error of their own."""
    text = (
        "Traceback:\n  raise InputError(f'...')\nkanonflow.schemas.errors.InputError: a.csv: damaged"
        " [while running 'Read/Read']\n"
    )
    assert str(anonymize_files.told_error_in(RuntimeError(text))) == "a.csv: damaged"
    assert str(anonymize_files.told_error_in(InputError("b.csv: cut off"))) == "b.csv: cut off"
    assert anonymize_files.told_error_in(RuntimeError("something else")) is None


def test_a_policy_can_live_in_an_avro_schema(
    tmp_path: Path, stand_in: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """--policy takes a .avsc, or an .avro file whose schema has the properties."""
    schema = {
        "type": "record",
        "name": "Row",
        "kanonflow": {"k": 2},
        "fields": [{"name": "age", "type": "int", "kanonflow": {"role": "quasi", "type": "numeric"}}],
    }
    (tmp_path / "p.avsc").write_text(json.dumps(schema))
    with (tmp_path / "in.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"age": 1}, {"age": 2}])
    for number, policy in enumerate(("p.avsc", "in.avro")):
        flags = ["--policy", policy, "--input", "in.avro", "--output", f"out{number}"]
        paths = [flag if flag.startswith("--") else str(tmp_path / flag) for flag in flags]
        assert cli.main(["anonymize", *paths]) == 0


def test_help_needs_no_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit codes are part of the help."""
    with pytest.raises(SystemExit) as exit:
        cli.main(["anonymize", "--help"])
    assert exit.value.code == 0
    assert "1 the audit failed" in capsys.readouterr().out.replace("\n", " ")
