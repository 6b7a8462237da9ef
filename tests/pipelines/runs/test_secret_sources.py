"""References to a secret: resolved where they are needed, refused when they cannot be, and never the bytes shown."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.runs.secret_sources import (
    ManagedSecret,
    PinnedSecret,
    SecretFile,
    SecretVariable,
    pinned_secret,
    secret_source,
)
from kanonflow.pipelines.runs.secret_uses import refuse_shared_secret
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.secret.seeds import Secret, SecretError, SecretSource
from kanonflow.transforms.sinks.sinks import WriteReleases
from tests.job_graphs import readable
from tests.runners import bounded_pipeline, loopback_pipeline
from tests.small_feeds import bound_feed, feed_policy, hourly

pytestmark = pytest.mark.thorough

KEY = b"mellon, the word that opens the door of the mine"
NAME = "projects/demo-proj/secrets/kanonflow/versions/7"
FORMS = (KEY, KEY.hex().encode(), b"mellon")


class Manager:
    """Stands in for Secret Manager: which versions there are, what was asked for, what is raised."""

    def __init__(self, **versions: bytes) -> None:
        self.versions = {
            f"projects/demo-proj/secrets/kanonflow/versions/{n[1:]}": v for n, v in versions.items()
        }
        self.asked: list[str] = []
        self.error: Exception | None = None

    def __call__(self) -> Manager:
        return self

    def access_secret_version(self, request: dict[str, str]) -> Any:
        self.asked.append(request["name"])
        if self.error is not None:
            raise self.error
        return SimpleNamespace(payload=SimpleNamespace(data=self.versions[request["name"]]))


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Manager:
    """Secret Manager's client, with version 7 of one secret."""
    from google.cloud import secretmanager

    client = Manager(v7=KEY)
    monkeypatch.setattr(secretmanager, "SecretManagerServiceClient", client)
    return client


@pytest.fixture(params=["file", "variable", "manager"])
def source(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: Manager
) -> SecretSource:
    """The same secret, by each kind of reference."""
    if request.param == "file":
        (tmp_path / "key").write_bytes(KEY)
        (tmp_path / "key").chmod(0o600)
        return SecretFile(str(tmp_path / "key"))
    if request.param == "variable":
        monkeypatch.setenv("KANONFLOW_TEST_SECRET", KEY.decode())
        return SecretVariable("KANONFLOW_TEST_SECRET")
    return ManagedSecret(NAME)


def test_a_version_is_fetched_and_its_number_is_the_secrets_version(manager: Manager) -> None:
    """The bytes are those of the version that was named; metrics record its number."""
    secret = ManagedSecret(NAME).resolve()
    assert secret == Secret(KEY, 7)
    assert manager.asked == [NAME]


@pytest.mark.parametrize("version", ["latest", "prod", "0", "07", "7a", "-1"])
def test_a_version_that_can_change_is_refused_with_the_reason(version: str) -> None:
    """Only a number names one version for good; the message says so and names the flag."""
    with pytest.raises(
        SecretError, match=r"--secret-manager .* by its number.*the secret it began with"
    ) as caught:
        ManagedSecret(NAME.replace("/7", f"/{version}"))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "name", ["", "kanonflow", "projects/p/secrets/s", f"{NAME}/", f"x/{NAME}", f"{NAME}\n", "gs://b/o"]
)
def test_other_names_are_refused_with_the_form(name: str) -> None:
    """The message shows what a name looks like."""
    with pytest.raises(SecretError, match="expected projects/PROJECT/secrets/SECRET/versions/NUMBER"):
        ManagedSecret(name)


def test_a_refusal_names_the_flag_and_the_role_and_never_the_bytes(manager: Manager) -> None:
    """Whatever the client raises, its text is not repeated: it could hold what was fetched."""
    from google.api_core.exceptions import PermissionDenied

    manager.error = PermissionDenied(KEY.decode())
    with pytest.raises(SecretError) as caught:
        ManagedSecret(NAME).resolve()
    assert caught.value.exit_code == 2
    assert f"--secret-manager {NAME}: cannot be read (PermissionDenied)" in str(caught.value)
    assert "roles/secretmanager.secretAccessor" in str(caught.value)
    assert "mellon" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_missing_client_is_told_from_a_missing_permission(manager: Manager) -> None:
    """Without the gcp extra the message says what to install."""
    manager.error = ImportError("secretmanager")
    with pytest.raises(SecretError, match=r"install kanonflow\[gcp\]"):
        ManagedSecret(NAME).resolve()


def test_short_secrets_are_refused_by_the_flag_they_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: Manager
) -> None:
    """The same for all three, without a byte of it."""
    (tmp_path / "key").write_bytes(b"mellon")
    (tmp_path / "key").chmod(0o600)
    monkeypatch.setenv("KANONFLOW_TEST_SECRET", "mellon")
    manager.versions[NAME] = b"mellon"
    references = (
        SecretFile(str(tmp_path / "key")),
        SecretVariable("KANONFLOW_TEST_SECRET"),
        ManagedSecret(NAME),
    )
    for reference, flag in zip(references, ("file", "env", "manager"), strict=True):
        with pytest.raises(SecretError, match=f"^--secret-{flag} .*has 6 bytes; it needs 32") as caught:
            reference.resolve()
        assert "mellon" not in str(caught.value)


def test_a_worker_that_cannot_reach_the_secret_says_which_flag(tmp_path: Path) -> None:
    """A file or a variable of the launcher's machine only."""
    with pytest.raises(SecretError, match=r"^--secret-file .*cannot be read"):
        SecretFile(str(tmp_path / "absent")).resolve()
    with pytest.raises(SecretError, match=r"^--secret-env KANONFLOW_TEST_UNSET: .*not set"):
        SecretVariable("KANONFLOW_TEST_UNSET").resolve()


def test_a_secret_that_was_exchanged_under_a_job_is_refused(tmp_path: Path) -> None:
    """The launcher's commitment travels with the reference."""
    path = tmp_path / "key"
    path.write_bytes(KEY)
    path.chmod(0o600)
    pinned = PinnedSecret(SecretFile(str(path)), Secret(KEY).commit())
    assert pickle.loads(pickle.dumps(pinned)).resolve() == Secret(KEY)
    path.write_bytes(KEY[::-1])
    with pytest.raises(SecretError, match=f"--secret-file {path}: this worker finds another secret"):
        pinned.resolve()


def test_references_come_from_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is that of the launcher; two flags at once are refused; none is none."""
    monkeypatch.chdir(tmp_path)
    assert secret_source(file="key") == SecretFile(str(tmp_path / "key"))
    assert secret_source(variable="K") == SecretVariable("K")
    assert secret_source(managed=NAME) == ManagedSecret(NAME)
    assert secret_source() is None
    with pytest.raises(SecretError, match="--secret-env and --secret-manager"):
        secret_source(variable="K", managed=NAME)


def test_a_job_graph_holds_the_reference_and_not_the_secret(source: SecretSource) -> None:
    """Neither in clear nor as hex, in no payload; given as a Secret, the bytes are in it (so the test can fail)."""
    assert not any(form in graph(PinnedSecret(source, source.resolve().commit())) for form in FORMS)
    assert KEY in graph(source.resolve())


def test_a_job_graph_holds_no_previous_secret(source: SecretSource, tmp_path: Path) -> None:
    """A rotated secret is shipped as references, each with its commitment."""
    old = b"speak friend and enter, said the older of the two"
    (tmp_path / "old").write_bytes(old)
    (tmp_path / "old").chmod(0o600)
    first, now = Secret(old), source.resolve()
    chain = now.after([first], first.version + now.version)
    pinned = pinned_secret(chain, (SecretFile(str(tmp_path / "old")), source))
    assert pinned.resolve() == chain
    assert not any(form in graph(pinned) for form in (*FORMS, old, old.hex().encode()))
    assert old in graph(chain)


def graph(secret: SecretSource) -> bytes:
    """What is to be read in a pipeline as a runner gets it."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | beam.Create([]) | KAnonymize(feed_policy(), secret)
    return readable(pipeline.to_runner_api())


@pytest.mark.parametrize("open_pipeline", [bounded_pipeline, loopback_pipeline])
def test_workers_release_the_same_by_reference_as_by_value(
    source: SecretSource, open_pipeline: Callable[..., Any], tmp_path: Path
) -> None:
    """Each step fetches the secret when it is set up; the releases, named by it, are those of the secret itself."""
    policy = feed_policy()
    for name, secret in (("value", source.resolve()), ("reference", source)):
        with open_pipeline() as pipeline:
            anonymized = pipeline | beam.Create(hourly(2, 12, 6)) | KAnonymize(policy, secret)
            _ = anonymized.released | WriteReleases(str(tmp_path / name), bound_feed(policy))
    contents = [
        {path.name: path.read_bytes() for path in (tmp_path / name / "release").iterdir()}
        for name in ("value", "reference")
    ]
    assert len(contents[0]) == 2
    assert contents[0] == contents[1]


def test_the_secret_is_neither_policy_nor_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever has the input would have the secret; also through a link, as an earlier secret, or in a feed's folder."""
    policy, feed, key, link = (tmp_path / name for name in ("policy.yaml", "feed.csv", "key", "link"))
    policy.write_text("version: 1\nk: 2\nfields: {age: {role: quasi, type: numeric, as: int}}\n")
    feed.write_text("age\n" + "\n".join(map(str, range(20, 60))) + "\n")
    key.write_bytes(KEY)
    for path in (policy, feed, key):
        path.chmod(0o600)
    link.symlink_to(feed)
    common = ["anonymize", "--policy", str(policy), "--input", str(feed), "--output", str(tmp_path / "out")]
    for flags, told in (
        (["--secret-file", str(feed)], "feed.csv"),
        (["--secret-file", str(link)], "feed.csv"),
        (["--secret-file", str(policy)], "policy.yaml"),
        (["--secret-file", str(key), "--resume", "--previous-secret", f"file:{feed}"], "feed.csv"),
    ):
        assert cli.main([*common, *flags]) == 2
        message = capsys.readouterr().err
        assert "which the run reads as policy or input" in message
        assert told in message
    with pytest.raises(SecretError, match="which the run reads as its input"):
        refuse_shared_secret([SecretFile(str(key))], (), [str(tmp_path)])
    refuse_shared_secret([SecretFile(str(key)), None], [str(feed), str(policy)], [str(tmp_path / "arriving")])
