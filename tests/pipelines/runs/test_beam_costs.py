"""Weights of state and counters of steps stay what Beam says they are, without what nobody asks for."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics, MetricsFilter, monitoring_infos
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.worker import statecache
from apache_beam.runners.worker.statecache import StateCache
from objsize import traverse

from kanonflow.pipelines.runs.beam_costs import light_state_sizes, user_metrics_alone


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


def counted() -> dict[str, int]:
    """Counters and distributions of a pipeline of several stages."""

    class Count(beam.DoFn):
        def process(self, row: int) -> Any:
            Metrics.counter("test", "rows").inc()
            Metrics.distribution("test", "sizes").update(row)
            yield row % 3, row

    pipeline = beam.Pipeline(runner="FnApiRunner")
    rows = pipeline | beam.Create(range(20)) | "First" >> beam.ParDo(Count()) | beam.GroupByKey()
    _ = rows | beam.FlatMap(lambda row: row[1]) | "Second" >> beam.ParDo(Count())
    found = pipeline.run().metrics().query(MetricsFilter().with_namespace("test"))
    told = {f"{each.key.step} {each.key.metric.name}": each.result for each in found["counters"]}
    sums = {f"{each.key.step} {each.key.metric.name}": each.result.sum for each in found["distributions"]}
    return told | sums


def test_counters_are_those_of_beam() -> None:
    """Of two steps in two stages."""
    plain = counted()
    with user_metrics_alone():
        assert counted() == plain
    assert plain == {"First rows": 20, "Second rows": 20, "First sizes": 190, "Second sizes": 190}


def test_what_beam_counts_for_itself_is_left_out_until_the_end() -> None:
    """And what bundles counted is summed up at once."""
    own = [
        monitoring_infos.int64_user_counter("test", "rows", number, ptransform="First") for number in (1, 2)
    ]
    beams = monitoring_infos.int64_counter(monitoring_infos.ELEMENT_COUNT_URN, 3, pcollection="p")
    before = fn_runner.consolidate_monitoring_infos
    with user_metrics_alone():
        (kept,) = fn_runner.consolidate_monitoring_infos([own[0], beams, own[1], beams])
    assert monitoring_infos.extract_counter_value(kept) == 3
    assert fn_runner.consolidate_monitoring_infos is before
    assert len(list(before([own[0], beams, own[1], beams]))) == 2


def test_a_beam_without_that_function_keeps_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run does not fail of what only saves time."""
    monkeypatch.delattr(fn_runner, "consolidate_monitoring_infos")
    with user_metrics_alone():
        assert not hasattr(fn_runner, "consolidate_monitoring_infos")
