"""Weighing cached state takes what the state takes, and the weight stays what Beam says it is."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.runners.worker import statecache
from apache_beam.runners.worker.statecache import StateCache
from objsize import traverse

from kanonflow.pipelines.runs.state_sizes import light_state_sizes


@pytest.mark.parametrize("value", [b"", b"x" * 1000, [b"x" * 10, b"y" * 10], None])
def test_a_value_weighs_what_it_did(value: Any) -> None:
    """Of what we keep in state: bytes, and lists of them."""
    before = statecache.get_deep_size(value)
    with light_state_sizes():
        assert statecache.get_deep_size(value) == before


def test_no_module_is_looked_at_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache asks for weights by the name that was exchanged; afterwards all is as it was."""
    looked: list[None] = []
    own = traverse._iter_modules_globals
    monkeypatch.setattr(traverse, "_iter_modules_globals", lambda: looked.append(None) or own())
    cache = StateCache(1 << 20)
    with light_state_sizes():
        cache.put("key", [b"state"])
        assert cache.get("other", lambda _: [b"state"]) == [b"state"]
        assert not looked
    cache.put("key", [b"state"])
    assert looked
