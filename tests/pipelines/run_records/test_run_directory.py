"""One directory, one run."""

import dataclasses
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines.run_records import run_directory
from kanonflow.pipelines.run_records.run_directory import (
    NotBegunError,
    RunDirectoryError,
    StreamStart,
    open_run_directory,
)
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.schemas.release_format import ReleaseFormat
from kanonflow.transforms.secret.seeds import Secret

SECRET = Secret(b"s" * 32)
FILES = ({"name": "a.csv", "bytes": 10},)


@pytest.fixture
def policy() -> Policy:
    fields = {"age": {"role": "quasi", "type": "numeric"}}
    return parse_policy({"version": 1, "k": 2, "fields": fields}, "test", "test")


@pytest.fixture
def open_it(tmp_path: Path, policy: Policy) -> Callable[..., run_directory.RunDirectory]:
    """Open and close the directory; with ``release`` something is released in between."""

    def run(
        *,
        policy: Policy = policy,
        files: Any = FILES,
        secret: Secret | None = SECRET,
        resume: bool = False,
        release: bool = True,
        stream: StreamStart | None = None,
        release_format: ReleaseFormat = ReleaseFormat.AVRO,
    ) -> run_directory.RunDirectory:
        output = str(tmp_path / "out")
        how: dict[str, Any] = {"resume": resume, "stream": stream, "release_format": release_format}
        with open_run_directory(output, policy, files, secret, **how) as directory:
            if release:
                place = tmp_path / "out" / "release" / f"r1{release_format.suffix}"
                place.write_bytes(b"rows")
            return directory

    return run


def test_another_run_is_refused(open_it: Callable[..., Any]) -> None:
    """Where releases are, a second run is refused, and the message names the way out."""
    open_it()
    with pytest.raises(RunDirectoryError, match=r"another run.*--resume"):
        open_it()


def test_the_same_run_resumes(open_it: Callable[..., Any], policy: Policy) -> None:
    """Same policy, input and secret: resuming is allowed, with another number of threads too."""
    open_it()
    other_threads = dataclasses.replace(policy, solver=dataclasses.replace(policy.solver, threads=7))
    assert any("Resuming" in note for note in open_it(resume=True, policy=other_threads).notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"secret": Secret(b"t" * 32)}, "the secret is another one"),
        ({"files": (FILES[0] | {"bytes": 11},)}, "the input has other files"),
        ({"files": (FILES[0] | {"name": "b.csv"},)}, "the input has other files"),
        ({"k": 3}, r"the policy \(.*\) is another one in k[;.]"),
    ],
)
def test_another_run_cannot_resume(
    open_it: Callable[..., Any], policy: Policy, change: dict[str, Any], message: str
) -> None:
    """Another policy, input or secret would publish the same rows a second time, and is refused by name."""
    open_it()
    if "k" in change:
        change = {"policy": dataclasses.replace(policy, **change)}
    with pytest.raises(RunDirectoryError, match=message):
        open_it(resume=True, **change)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("release_format", ReleaseFormat)
def test_a_run_keeps_its_format(
    open_it: Callable[..., Any], release_format: ReleaseFormat, streaming: bool
) -> None:
    """The same release in a second format would be a second file of it; an earlier build's run is Avro."""
    begins = start() if streaming else None
    goes_on = start(from_state=True) if streaming else None
    open_it(release_format=release_format, stream=begins)
    (other,) = set(ReleaseFormat) - {release_format}
    with pytest.raises(RunDirectoryError, match=f"its releases are {release_format} files"):
        open_it(resume=True, release_format=other, stream=goes_on)
    with pytest.raises(RunDirectoryError, match=r"another run|has begun"):
        open_it(release_format=release_format, stream=begins)
    open_it(resume=True, release_format=release_format, stream=goes_on)


def test_another_version_cannot_resume(open_it: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version may solve a window differently, and then every release would be a conflict."""
    open_it()
    monkeypatch.setattr(run_directory, "version", lambda package: "99")
    with pytest.raises(RunDirectoryError, match="this is 99"):
        open_it(resume=True)


@pytest.mark.parametrize("lost", ["names", "slots"])
@pytest.mark.parametrize("streaming", [False, True])
def test_a_run_of_another_layout_cannot_go_on(
    open_it: Callable[..., Any], tmp_path: Path, streaming: bool, lost: str
) -> None:
    """Its windows would be published again under other names, or could not be told from what is out; also by a stream
    that has its state, rewound or not."""
    open_it(stream=start() if streaming else None)
    path = tmp_path / "out" / "restricted" / "run.json"
    record = json.loads(path.read_text())
    del record[lost]
    path.write_text(json.dumps(record))
    for rewinds in (False, True):
        with pytest.raises(RunDirectoryError, match="let that build end it"):
            open_it(resume=True, stream=start(from_state=True, rewinds=rewinds) if streaming else None)


def test_a_run_that_released_nothing_leaves_the_directory_free(open_it: Callable[..., Any]) -> None:
    """After a run that ended at once the directory can be used without --resume, and with it."""
    open_it(release=False)
    open_it(release=False)
    open_it(release=False, resume=True)


def test_releases_of_unknown_origin_cannot_be_resumed(open_it: Callable[..., Any], tmp_path: Path) -> None:
    """Without run.json nobody knows what the releases there are."""
    (tmp_path / "out" / "release").mkdir(parents=True)
    (tmp_path / "out" / "release" / "x.avro").write_bytes(b"")
    with pytest.raises(RunDirectoryError, match=r"no restricted/run\.json"):
        open_it(resume=True)


def test_a_secret_is_drawn_kept_and_used_again(open_it: Callable[..., Any], tmp_path: Path) -> None:
    """Without a secret the run draws 32 bytes, keeps them to its owner, says so, and resumes with them."""
    first = open_it(secret=None)
    path = tmp_path / "out" / "restricted" / "secret"
    assert (len(path.read_bytes()), stat.S_IMODE(path.stat().st_mode)) == (32, 0o600)
    assert "drew one" in first.notes[0]
    assert open_it(secret=None, resume=True).secret == first.secret


def test_a_secret_that_was_given_must_be_given_again(open_it: Callable[..., Any], tmp_path: Path) -> None:
    """A run does not go on under a secret of its own making, and draws none that would be in the way."""
    open_it()
    with pytest.raises(RunDirectoryError, match="give the same"):
        open_it(secret=None, resume=True)
    assert not (tmp_path / "out" / "restricted" / "secret").exists()


def test_run_json_tells_nothing_about_policy_or_secret(open_it: Callable[..., Any], tmp_path: Path) -> None:
    """Digests in it are keyed: another secret gives another digest of the same policy."""
    path = tmp_path / "out" / "restricted" / "run.json"
    open_it(release=False)
    first = json.loads(path.read_text())
    open_it(release=False, secret=Secret(b"t" * 32))
    second = json.loads(path.read_text())
    assert first["policy"] != second["policy"]
    assert b"ssss" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_processes_do_not_write_to_one_directory(open_it: Callable[..., Any], tmp_path: Path) -> None:
    """The second one is refused while the first one runs."""
    with (
        open_run_directory(str(tmp_path / "out"), _any_policy(), FILES, SECRET, resume=False),
        pytest.raises(RunDirectoryError, match="another process"),
    ):
        open_it()


def test_leftovers_of_a_killed_process_are_removed(open_it: Callable[..., Any], tmp_path: Path) -> None:
    """Temporary files vanish when the run goes on; releases stay."""
    open_it()
    leftover = tmp_path / "out" / "release" / ".r2.avro.0123.tmp"
    leftover.write_bytes(b"half")
    open_it(resume=True)
    assert not leftover.exists()
    assert (tmp_path / "out" / "release" / "r1.avro").exists()


def test_a_remote_directory_needs_a_secret_of_its_own(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret is never drawn into a bucket."""
    with pytest.raises(RunDirectoryError, match="--secret-file or --secret-env"):
        run_directory._find_secret("gs://bucket/restricted", None, resumed=False)


def _any_policy() -> Policy:
    fields = {"age": {"role": "quasi", "type": "numeric"}}
    return parse_policy({"version": 1, "k": 2, "fields": fields}, "test", "test")


def start(
    *, sink: str = "files", from_state: bool = False, alive: bool = False, rewinds: bool = False
) -> StreamStart:
    """A stream's start; ``alive``: jobs that began before still run."""
    return StreamStart(sink, {"name": "job"}, from_state, "--savepoint_path=...", lambda job: alive, rewinds)


def test_each_start_of_a_stream_has_a_number(open_it: Callable[..., Any], tmp_path: Path) -> None:
    """0, 1, 2: also after the record of a build that did not count. A run over files has none."""
    assert open_it(stream=start()).job_start == 0
    numbers = [open_it(stream=start(from_state=True), resume=True).job_start for _ in range(2)]
    assert numbers == [1, 2]
    path = tmp_path / "out" / "restricted" / "run.json"
    record = json.loads(path.read_text())
    del record["job_starts"]
    path.write_text(json.dumps(record))
    assert open_it(stream=start(from_state=True), resume=True).job_start == 1


def test_a_stream_that_began_takes_the_directory(open_it: Callable[..., Any]) -> None:
    """Also before its first release, which may come an hour later."""
    open_it(release=False, stream=start())
    with pytest.raises(RunDirectoryError, match="another stream has begun"):
        open_it(release=False, stream=start(), secret=Secret(b"t" * 32))


def test_a_run_over_files_leaves_a_streams_directory_alone(open_it: Callable[..., Any]) -> None:
    """Before the stream's first release too, and with --resume."""
    open_it(release=False, stream=start())
    with pytest.raises(RunDirectoryError, match="another stream has begun"):
        open_it(release=False)
    with pytest.raises(RunDirectoryError, match="went to another place"):
        open_it(release=False, resume=True)


def test_a_stream_goes_on_from_its_state_only(open_it: Callable[..., Any]) -> None:
    """From its feed's beginning it would make other releases of the same rows."""
    open_it(stream=start())
    with pytest.raises(RunDirectoryError, match=r"without its state.*--savepoint_path"):
        open_it(stream=start(), resume=True)
    assert any("Resuming" in note for note in open_it(stream=start(from_state=True), resume=True).notes)


def test_two_jobs_of_one_stream_are_refused(open_it: Callable[..., Any]) -> None:
    """Two that go on from one savepoint would publish the same rows; so would one beside the first."""
    open_it(stream=start())
    with pytest.raises(RunDirectoryError, match=r"job job .* still runs"):
        open_it(stream=start(from_state=True, alive=True), resume=True)


def test_a_stream_does_not_change_its_sink(open_it: Callable[..., Any]) -> None:
    """What a replay makes would be new there, whatever stands in the first place."""
    open_it(stream=start())
    with pytest.raises(RunDirectoryError, match="went to another place"):
        open_it(stream=start(sink="topic", from_state=True), resume=True)


def begin_in_vain(folder: Path, policy: Policy, writes: bool) -> None:
    with open_run_directory(str(folder / "out"), policy, FILES, SECRET, resume=False, stream=start()):
        if writes:
            (folder / "out/restricted/rejected/r.avro").write_bytes(b"")
        raise NotBegunError(ValueError("no cluster"))


def test_a_stream_that_could_not_begin_leaves_the_directory_free(tmp_path: Path, policy: Policy) -> None:
    """A cluster that is not there is no reason for another directory; but one that wrote something is."""
    for writes in (False, False, True):
        with pytest.raises(ValueError, match="no cluster"):
            begin_in_vain(tmp_path, policy, writes)
    with pytest.raises(RunDirectoryError, match="another stream has begun"):
        open_run_directory(
            str(tmp_path / "out"), policy, FILES, SECRET, resume=False, stream=start()
        ).__enter__()


def test_an_input_of_other_content_is_refused_by_name(open_it: Callable[..., Any]) -> None:
    """Names and sizes are the same; run.json holds a digest of the content that only the secret's owner can make."""
    before = (
        {"name": "a.csv", "bytes": 10, "content": "11"},
        {"name": "b.csv", "bytes": 10, "content": "22"},
    )
    open_it(files=before)
    open_it(files=before, resume=True)
    with pytest.raises(RunDirectoryError, match=r"the input b\.csv has other content[^;]*\. Releasing"):
        open_it(files=(before[0], before[1] | {"content": "23"}), resume=True)


def test_the_content_of_the_input_is_keyed(open_it: Callable[..., Any], tmp_path: Path) -> None:
    """A digest of a few rows would tell them to whoever sees run.json and can guess."""
    digests = []
    for number, secret in enumerate((SECRET, Secret(b"t" * 32))):
        open_it(files=({"name": "a.csv", "bytes": 10, "content": "11"},), secret=secret, release=False)
        record = json.loads((tmp_path / "out" / "restricted" / "run.json").read_text())
        digests.append(record["input"][0]["content"])
        assert digests[number] != "11"
    assert digests[0] != digests[1]


@pytest.mark.parametrize("package", ["numpy", "numba", "pyarrow"])
def test_another_version_of_a_package_is_refused_by_name(
    open_it: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    """It may find another graph, or write it otherwise."""
    open_it()
    there = run_directory.version
    monkeypatch.setattr(run_directory, "version", lambda name: "0.99" if name == package else there(name))
    with pytest.raises(RunDirectoryError, match=rf"{package} {there(package)} began it, this is 0\.99"):
        open_it(resume=True)


def test_a_slot_alone_takes_the_directory(open_it: Callable[..., Any], tmp_path: Path) -> None:
    """A run that died between a release's slot and its file has begun."""
    open_it(release=False)
    place = tmp_path / "out" / "restricted" / "slots" / "ab" / "0"
    place.mkdir(parents=True)
    (place / "1-0").write_text("{}")
    with pytest.raises(RunDirectoryError, match="--resume"):
        open_it(release=False)


def test_a_run_that_may_go_on_elsewhere_takes_its_directory_at_once(tmp_path: Path) -> None:
    """Its command is gone and nothing is released yet: another policy or secret would publish beside it."""
    output = str(tmp_path / "out")

    def opened(policy: Policy, secret: Secret, *, resume: bool) -> None:
        with open_run_directory(output, policy, FILES, secret, resume=resume, elsewhere=True):
            pass

    opened(_any_policy(), SECRET, resume=False)
    with pytest.raises(RunDirectoryError, match="a run that may go on elsewhere"):
        opened(_any_policy(), SECRET, resume=False)
    with pytest.raises(RunDirectoryError, match="the policy"):
        opened(dataclasses.replace(_any_policy(), k=7), SECRET, resume=True)
    with pytest.raises(RunDirectoryError, match="the secret is another one"):
        opened(_any_policy(), Secret(bytes(range(90, 130))), resume=True)
    opened(_any_policy(), SECRET, resume=True)
