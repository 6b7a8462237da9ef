"""A policy in a bucket is the same as the file it was uploaded from."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

import pytest

from kanonflow.pipelines.commands.policy_location import read_policy_at
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy_source import read_policy
from tests.object_store import ObjectStore, object_store

PATH = "gs://demo-bucket-of-policies/adult.yaml"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """An object store behind gs://."""
    with object_store(monkeypatch) as store:
        yield store


def test_a_policy_in_a_bucket_is_the_policy_of_its_file(bucket: ObjectStore) -> None:
    """Also its name, which release ids depend on."""
    file = resources.files("kanonflow.policies") / "adult.yaml"
    bucket.objects[PATH] = file.read_bytes()
    with resources.as_file(file) as path:
        assert read_policy_at(PATH) == read_policy(path) == read_policy_at(str(path))


def test_mistakes_name_the_place_in_the_bucket(bucket: ObjectStore) -> None:
    """What is wrong with it, or that it is not there."""
    with pytest.raises(PolicyError, match=PATH) as caught:
        read_policy_at(PATH)
    assert "cannot be read" in str(caught.value)
    bucket.objects[PATH] = b"version: 2\n"
    with pytest.raises(PolicyError, match=PATH) as caught:
        read_policy_at(PATH)
    assert "version" in str(caught.value)
