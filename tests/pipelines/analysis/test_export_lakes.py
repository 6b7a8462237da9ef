"""``kanonflow export --to iceberg`` and ``--to openlineage``: each release once, whatever happens meanwhile."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyiceberg.catalog
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.types import StringType
from pyiceberg.utils.config import Config

from kanonflow.pipelines import cli
from kanonflow.pipelines.analysis.released_table import read_release
from tests.made_releases import made, write_release
from tests.pipelines.analysis.openlineage_schema import FACETS, RUN_EVENT

PLANNER = "POLARS_ICEBERG_PLANNER"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three releases with nulls in every kind of field."""
    monkeypatch.setenv(PLANNER, "pyiceberg")
    for seed in range(3):
        write_release(tmp_path / "run", made(seed, 40, lasting=True))
    return tmp_path / "run"


def exported(run: Path, to: str, *arguments: str) -> int:
    return cli.main(["export", str(run), "--to", to, *arguments])


def table(run: Path, name: str = "kanonflow.releases") -> Any:
    folder = run / "export.iceberg"
    return load_catalog("kanonflow", type="sql", uri=f"sqlite:///{folder}/catalog.db").load_table(name)


def rows(found: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    return sorted(zip(*(found.column(name).to_pylist() for name in names), strict=True), key=repr)


def expected(run: Path) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns and rows as Parquet has them, and sets as lists."""
    release = read_release(run)
    flat, nested = release.flat(), release.arrow()
    for name in ("gender", "kids", "smoker"):
        flat = flat.set_column(flat.schema.get_field_index(name), name, nested.column(name))
    return flat.schema.names, rows(flat, flat.schema.names)


@pytest.mark.thorough
def test_a_table_of_iceberg_has_a_snapshot_a_release(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each names its release; polars and pyiceberg read what was released; a second export adds nothing, a later
    release is added, and the first ones stay told when their snapshots have expired."""
    assert exported(run, "iceberg", "--json") == 0
    assert json.loads(capsys.readouterr().out)["snapshots"] == 3
    names, all_rows = expected(run)
    found = table(run)
    assert rows(found.scan().to_arrow(), names) == all_rows
    assert rows(polars.scan_iceberg(found).collect().to_arrow(), names) == all_rows
    ids = [path.stem for path in sorted((run / "release").iterdir())]
    summaries = [each.summary for each in found.snapshots()]
    assert [each["kanonflow.release"] for each in summaries] == ids
    assert [each["added-records"] for each in summaries] == ["40"] * 3
    assert {(each["kanonflow.k"], each["kanonflow.epoch"]) for each in summaries} == {("3", "0" * 15 + "7")}
    old = [each.snapshot_id for each in found.snapshots()][:2]
    found.maintenance.expire_snapshots().by_ids(old).commit()
    assert len(table(run).snapshots()) == 1
    write_release(run, made(3, 40, lasting=True))
    capsys.readouterr()
    assert exported(run, "iceberg") == 0
    assert "1 snapshot, 43 columns; 3 releases were there before" in capsys.readouterr().out
    assert rows(table(run).scan().to_arrow(), names) == expected(run)[1]
    assert exported(run, "iceberg") == 0
    assert "0 snapshots; 4 releases were there before" in capsys.readouterr().out


@pytest.mark.thorough
def test_no_row_is_added_twice_by_a_crash_or_beside_another_export(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A crash before a commit, an answer that is lost after one, and another export that adds the same releases between
    our reading of the table and our commit: all rows are there once in the end."""
    names, all_rows = expected(run)
    commit = SqlCatalog.commit_table

    def crash(catalog: Any, *change: Any) -> Any:
        raise ConnectionError("postgresql://user:secret@host")

    def lose(catalog: Any, *change: Any) -> Any:
        commit(catalog, *change)
        raise CommitStateUnknownException("no answer")

    def come_between(catalog: Any, *change: Any) -> Any:
        monkeypatch.setattr(SqlCatalog, "commit_table", commit)
        assert exported(run, "iceberg") == 0
        return commit(catalog, *change)

    assert exported(run, "iceberg", "--table", "kanonflow.other") == 0
    for number, (what, code) in enumerate(((crash, 2), (lose, 2), (come_between, 0))):
        shutil.rmtree(run / "export.iceberg")
        monkeypatch.setattr(SqlCatalog, "commit_table", _second(commit, what))
        capsys.readouterr()
        assert exported(run, "iceberg") == code
        outcome = capsys.readouterr()
        monkeypatch.setattr(SqlCatalog, "commit_table", commit)
        if code:
            assert "what is in the table stays, and the same command adds the rest" in outcome.err
            assert "secret" not in outcome.err
            assert table(run).scan().count() == 40 * (number + 1)
        assert exported(run, "iceberg") == 0
        assert rows(table(run).scan().to_arrow(), names) == all_rows
        assert len(table(run).snapshots()) == 3


def _second(commit: Callable[..., Any], what: Callable[..., Any]) -> Callable[..., Any]:
    """The second commit of a release meets ``what``, the others nothing."""
    calls = iter((commit, what))
    return lambda *change: next(calls, commit)(*change)


def test_what_a_table_cannot_take_is_said(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other columns by name, another way of flattening, another release of one id, names, flags and the extra."""
    assert exported(run, "iceberg") == 0
    with table(run).update_schema() as change:
        change.add_column("more", StringType())
        change.delete_column("note")
    write_release(run, made(4, 40, lasting=True))
    other = tmp_path / "other"
    write_release(other, made(5, 40, lasting=True))
    (path,) = (other / "release").iterdir()
    path.rename(path.with_name("r00000000.avro"))
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    place = ("--output", str(run / "export.iceberg"))
    for source, to, flags, says in (
        (run, "iceberg", (), "note: not there, not string; more: string, not there"),
        (run, "iceberg", ("--flat", "mid"), "(flat is columns, not mid)"),
        (other, "iceberg", place, "has another release of this id"),
        (run, "iceberg", ("--table", "releases"), "needs a namespace"),
        (run, "iceberg", ("--catalog", "nowhere", *place), "--output: is where tables are without --catalog"),
        (run, "iceberg", ("--catalog", "nowhere"), "--catalog nowhere: pyiceberg's configuration has none"),
        (
            run,
            "iceberg",
            ("--reads", "a=b"),
            "--reads: says nothing with --to iceberg; it is for --to openlineage",
        ),
        (run, "parquet", ("--table", "a.b"), "it is for --to iceberg"),
        (run, "openlineage", ("--flat", "mid"), "writes no rows"),
        (run, "openlineage", (), "pip install 'kanonflow[openlineage]'"),
    ):
        capsys.readouterr()
        assert exported(source, to, *flags) == 2, says
        assert says in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    assert exported(run, "iceberg") == 2
    assert "pip install 'kanonflow[iceberg]'" in capsys.readouterr().err


def test_shares_go_to_a_catalog_of_its_own_configuration(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name that pyiceberg's configuration gives it; the shares of a release are those of its own boxes."""
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/lake.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", f"file://{tmp_path}/lake")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
    cut = ("--flat", "shares", "--by", "age=0,20,40,200", "--table", "a.b.cells")
    assert exported(run, "iceberg", "--catalog", "lake", *cut) == 0
    found = load_catalog("lake").load_table("a.b.cells").scan().to_arrow()
    for path in (run / "release").iterdir():
        alone = tmp_path / path.stem / "release"
        alone.mkdir(parents=True)
        shutil.copy(path, alone)
        cells = read_release(alone).shares({"age": [0, 20, 40, 200]})
        of = found.filter(pc.equal(found.column("release_id"), path.stem))
        assert rows(of, ["age_from", "share"]) == rows(cells, ["age_from", "share"])
    assert not (run / "export.iceberg").exists()


def test_a_release_is_told_once_as_openlineage_has_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Events are valid by the schema of OpenLineage 2-0-2 and its facets. A second export tells nothing, a crash before
    it was noted tells the same bytes, a receiver that is not there is said; nothing is told but what a release says."""
    assert exported(run, "openlineage") == 2
    assert "no receiver is configured" in capsys.readouterr().err
    told = tmp_path / "told.ndjson"
    for name, value in (("TYPE", "file"), ("LOG_FILE_PATH", str(told)), ("APPEND", "true")):
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)
    told.mkdir()
    assert exported(run, "openlineage") == 2
    assert "its event was not received by file" in capsys.readouterr().err
    told.rmdir()
    named = ("--reads", "kafka://broker:9092=payments", "--writes", "sqlite://lake=kanonflow.releases")
    assert exported(run, "openlineage", *named) == 0
    assert "3 events; 0 releases were there before" in capsys.readouterr().out
    assert exported(run, "openlineage", *named) == 0
    events = [json.loads(line) for line in told.read_text().splitlines()]
    ids = [path.stem for path in sorted((run / "release").iterdir())]
    assert len({event["run"]["runId"] for event in events}) == len(events) == 3
    for name, event in zip(ids, events, strict=True):
        _is_valid(event)
        (went,), (came,) = event["outputs"], event["inputs"]
        assert (came["namespace"], came["name"]) == ("kafka://broker:9092", "payments")
        assert went["outputFacets"]["outputStatistics"]["rowCount"] == 40
        facet = {
            key: value for key, value in went["facets"]["kanonflow_anonymization"].items() if key[0] != "_"
        }
        assert facet == {
            "k": 3,
            "protect": "individual",
            "policy": "every-kind",
            "epoch": "0000000000000007",
            "releaseId": name,
        }
        assert [each["name"] for each in went["facets"]["schema"]["fields"]] == read_release(
            run
        ).arrow().schema.names
        # Neither a path nor the machine, its user or the repository of the working directory.
        assert set(event["job"]["facets"]) | set(event["run"]["facets"]) == {"nominalTime"}
        assert str(tmp_path) not in json.dumps(event)
    broken = json.loads(json.dumps(events[0]))
    del broken["outputs"][0]["facets"]["schema"]["_schemaURL"]
    with pytest.raises(jsonschema.ValidationError):
        _is_valid(broken)
    (run / "export.openlineage" / f"{ids[1]}.json").unlink()
    assert exported(run, "openlineage", *named) == 0
    assert json.loads(told.read_text().splitlines()[-1]) == events[1]


def _is_valid(event: dict[str, Any]) -> None:
    checks = jsonschema.FormatChecker()
    jsonschema.Draft202012Validator(RUN_EVENT, format_checker=checks).validate(event)
    assert event["schemaURL"] == f"{RUN_EVENT['$id']}#/$defs/RunEvent"
    facets = dict(event["run"]["facets"])
    for went in event["outputs"]:
        facets |= went["facets"] | went["outputFacets"]
    for name, schema in FACETS.items():
        jsonschema.Draft202012Validator(schema, format_checker=checks).validate(facets.pop(name))
    assert set(facets) == {"kanonflow_anonymization"}
