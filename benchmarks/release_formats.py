"""What does a release cost as Parquet instead of Avro: bytes, and CPU to write, read and verify it?

Data: sparkov and complete_journey under their example policies, each released once by ``kanonflow anonymize`` in Avro.
The files are written again in both formats, as the sink does: equal bytes are checked for Avro, equal cells for both.

    bytes           of all release files together, and of the smallest and the largest
    encode          the files' bytes of Arrow tables in memory; the least of several turns
    read_release    of the directory, into one table
    verify          the whole audit, with input and secret
    ratio           Parquet / Avro, below 1: Parquet is less

CPU seconds of one process. Both formats hold the same rows in the same order.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.data_sets import COMPLETE_JOURNEY, SPARKOV, DataSet, MissingDataError, data_path
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.pipelines.analysis.released_files import open_releases
from kanonflow.pipelines.analysis.released_table import read_release
from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.cli import main as kanonflow
from kanonflow.pipelines.fit.bound_input import bind_input
from kanonflow.pipelines.run_records.run_directory import epoch_of_run
from kanonflow.schemas.avro_schema import release_arrow_schema, release_avro_schema
from kanonflow.schemas.policy_source import read_policy
from kanonflow.schemas.release_format import ReleaseFormat
from kanonflow.transforms.rows.elements import Release, to_ipc
from kanonflow.transforms.secret.seeds import Secret, people_key
from kanonflow.transforms.sinks.sinks import release_file

COLUMNS = ("data", "rows", "releases", "what", "Avro", "Parquet", "ratio")


def measure(findings: ResultTable, data: DataSet, turns: int, work: Path) -> None:
    """All figures of one data set."""
    path = data_path(data)
    with resources.as_file(resources.files("kanonflow.policies") / f"{data.name}.yaml") as policy:
        secret = work / "secret"
        secret.touch(mode=0o600)
        secret.write_bytes(bytes(range(32)))
        asked = ["--policy", str(policy), "--input", str(path), "--secret-file", str(secret), "--quiet"]
        out = {each: work / data.name / str(each) for each in ReleaseFormat}
        assert kanonflow(["anonymize", *asked, "--output", str(out[ReleaseFormat.AVRO])]) == 0
        bound = bind_input(read_policy(str(policy)), [str(path)], None, None)[2]
        schema = release_avro_schema(bound, epoch_of_run(str(out[ReleaseFormat.AVRO])))
        releases = _releases(out[ReleaseFormat.AVRO], release_arrow_schema(bound))
        shutil.copytree(out[ReleaseFormat.AVRO], out[ReleaseFormat.PARQUET])
        shutil.rmtree(out[ReleaseFormat.PARQUET] / "release")
        (out[ReleaseFormat.PARQUET] / "release").mkdir()
        figures: dict[str, dict[ReleaseFormat, float]] = {}

        def note(what: str, each: ReleaseFormat, value: float) -> None:
            figures.setdefault(what, {})[each] = value

        def least(work: Callable[[], Any]) -> float:
            return min(timed(work)[1].cpu for _ in range(turns))

        read = {}
        for each in ReleaseFormat:
            files = {release.release_id: release_file(release, schema, each) for release in releases}
            for name, content in files.items():
                place = out[each] / "release" / f"{name}{each.suffix}"
                assert not place.exists() or place.read_bytes() == content
                place.write_bytes(content)
            sizes = sorted(map(len, files.values()))
            for what, value in (("all", sum(sizes)), ("the smallest", sizes[0]), ("the largest", sizes[-1])):
                note(f"bytes, {what}", each, value)
            note(
                "encode, s",
                each,
                least(lambda each=each: [release_file(one, schema, each) for one in releases]),
            )
            note("read_release, s", each, least(lambda each=each: read_release(out[each])))
            read[each] = read_release(out[each]).arrow()
            report, spent = timed(
                audit, policy, [str(path)], out[each], people_key=people_key(Secret(bytes(range(32))))
            )
            assert report.passed, report.render()
            note("verify, s", each, spent.cpu)
    assert read[ReleaseFormat.AVRO].equals(read[ReleaseFormat.PARQUET]), "other cells"
    count = read[ReleaseFormat.AVRO].num_rows
    for what, value in figures.items():
        pair = [value[each] for each in ReleaseFormat]
        findings.rows.append((data.name, count, len(releases), what, *pair, pair[1] / pair[0]))


def _releases(folder: Path, schema: pa.Schema) -> list[Release]:
    """The releases of a directory as the sink gets them."""
    files = open_releases([str(folder)])
    table = pa.concat_tables(files.batches()).select(schema.names)
    table = pa.table([table.column(field.name).cast(field.type) for field in schema], schema=schema)
    ids = table.column("release_id").to_pylist()
    starts = [place for place, name in enumerate(ids) if place == 0 or ids[place - 1] != name]
    ends = [*starts[1:], len(ids)]
    return [
        Release(ids[start], None, None, to_ipc(table.slice(start, end - start).combine_chunks()))
        for start, end in zip(starts, ends, strict=True)
    ]


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Avro against Parquet, as the format of releases.")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--data", nargs="*", help="only these data sets")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("release_formats", __doc__ or "")
    table = findings.table("Avro and Parquet", COLUMNS)
    for data in (SPARKOV, COMPLETE_JOURNEY):
        if arguments.data and data.name not in arguments.data:
            continue
        try:
            with tempfile.TemporaryDirectory() as work:
                measure(table, data, arguments.turns, Path(work))
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    sys.exit(main())
