"""The same policy, secret and rows give the same release files on every runner, as a file and as a stream.

A stream on a cluster is held against a run over files in test_chaos.py.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from apache_beam.runners.portability import local_job_service

from deploy.flink.job_server_jar import job_server_jar
from deploy.flink.session import FLINK_VERSION, SessionCluster
from kanonflow.pipelines.cli import main
from kanonflow.schemas.release_format import RELEASE_FORMATS
from tests.flink.stream_runs import policy_text
from tests.small_feeds import hourly

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
FEED = hourly(6, 80, 45, towns=("Bonn", "Kiel"))
# With cohorts that last a file tells its epoch, and a run over files has another one.
POLICY = policy_text(partition_by=["town"], cohort="window")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the runner of local runs releases."""
    folder = tmp_path_factory.mktemp("local")
    return releases(folder, anonymize(folder))


def anonymize(folder: Path, *flags: str) -> Path:
    """Run ``kanonflow anonymize`` on the feed as one file, in this process; the output."""
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "secret").write_bytes(bytes(range(7, 39)))
    (folder / "secret").chmod(0o600)
    with (folder / "feed.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(FEED[0]))
        writer.writeheader()
        writer.writerows(FEED)
    output = folder / "out"
    arguments = [
        *("anonymize", "--policy", str(folder / "policy.yaml"), "--input", str(folder / "feed.csv")),
        *("--output", str(output), "--secret-file", str(folder / "secret"), "--quiet", *flags),
    ]
    assert main(arguments) == 0
    return output


def releases(folder: Path, output: Path) -> dict[str, bytes]:
    """The release files, by name."""
    found = {
        path.name: path.read_bytes() for path in sorted((output / "release").iterdir()) if path.is_file()
    }
    assert len(found) >= 12
    return found


def embedded() -> list[str]:
    """Flags of Flink's cluster inside the job server."""
    return [
        f"--flink_version={FLINK_VERSION}",
        f"--flink_job_server_jar={job_server_jar()}",
        *("--flink_master=[local]", "--environment_type=LOOPBACK"),
    ]


def test_a_portable_job_service(expected: dict[str, bytes], tmp_path: Path) -> None:
    """Beam's own job service with this process as the worker."""
    with tempfile.TemporaryDirectory() as staging:
        service = local_job_service.LocalJobServicer(staging)
        port = service.start_grpc_server(0)
        try:
            flags = ["--runner", "PortableRunner", f"--job_endpoint=localhost:{port}"]
            output = anonymize(tmp_path, *flags, "--environment_type=LOOPBACK")
        finally:
            service.stop()
    assert releases(tmp_path, output) == expected


def test_files_on_embedded_flink(expected: dict[str, bytes], tmp_path: Path) -> None:
    """A bounded job on Flink inside the job server."""
    assert releases(tmp_path, anonymize(tmp_path, "--runner", "FlinkRunner", *embedded())) == expected


@pytest.mark.parametrize("release_format", RELEASE_FORMATS)
def test_a_stream_on_embedded_flink(expected: dict[str, bytes], tmp_path: Path, release_format: str) -> None:
    """The default of ``kanonflow stream``: one command, no cluster. Either format, the same bytes as of files."""
    here = releases(tmp_path, anonymize(tmp_path, "--release-format", release_format))
    assert {Path(name).suffix for name in here} == {f".{release_format}"}
    assert {Path(name).stem for name in here} == {Path(name).stem for name in expected}
    feed = tmp_path / "arriving"
    feed.mkdir()
    (tmp_path / "feed.csv").rename(feed / "feed.csv")
    (feed / "_END").touch()
    command = [
        *(
            sys.executable,
            "-m",
            "kanonflow.pipelines.cli",
            "stream",
            "--policy",
            str(tmp_path / "policy.yaml"),
        ),
        *("--source", str(feed), "--output", str(tmp_path / "streamed"), "--quiet", "--unmeasured"),
        *("--secret-file", str(tmp_path / "secret"), *embedded(), "--checkpointing_interval=1000"),
        *("--release-format", release_format),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr
    assert releases(tmp_path, tmp_path / "streamed") == here


def test_files_on_a_cluster(cluster: SessionCluster, expected: dict[str, bytes], tmp_path: Path) -> None:
    """A bounded job whose workers are other processes."""
    flags = [flag for flag in cluster.flags() if not flag.startswith(("--runner", "--checkpointing"))]
    assert releases(tmp_path, anonymize(tmp_path, "--runner", "FlinkRunner", *flags)) == expected
