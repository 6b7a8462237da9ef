"""The job graph that Dataflow would be handed, batch and streaming, and what is refused before there is one.

A dry run translates as a real run does, and sends nothing. Bucket names are long, for Beam looks short ones up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2 as api

from kanonflow.pipelines.anonymize_files import connect
from kanonflow.pipelines.dataflow_jobs import check_for_dataflow, is_dataflow, only_submits
from kanonflow.pipelines.options import OptionsError, beam_options
from kanonflow.pipelines.polled_source import Chunk, ReadPolled
from kanonflow.pipelines.secret_sources import ManagedSecret, PinnedSecret, SecretFile
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.element_rows import rows_to_table, text_schema
from kanonflow.transforms.raw_batch import RawBatch, to_ipc
from kanonflow.transforms.seeds import Secret, SecretSource
from kanonflow.transforms.solve_windows import BAGS
from tests.job_graphs import readable
from tests.small_feeds import bound_feed, feed_policy, row

GUIDE = Path(__file__).parents[2] / "docs" / "dataflow.md"
OUTPUT = "gs://demo-bucket-of-releases/out"
KEY = b"mellon, the word that opens the door of the mine"
NAME = "projects/demo-proj/secrets/kanonflow/versions/7"
BY_REFERENCE = PinnedSecret(ManagedSecret(NAME), Secret(KEY).commit())
FLAGS = (
    "--runner=DataflowRunner",
    "--project=demo-proj",
    "--region=us-central1",
    "--job_name=job1",
    "--temp_location=gs://demo-bucket-of-staging/t",
    "--staging_location=gs://demo-bucket-of-staging/s",
    "--sdk_container_image=demo/kanonflow:1",
    "--sdk_location=container",
    "--no_auth",
    "--dry_run=True",
)
PERSON = "somebody-whose-name-is-nobodys-business"
POLICY = feed_policy(towns=True)
SOLVE = "KAnonymize/Solve/ParDo(SolveWindows)"
SINKS = ("WriteReleases/Write/ParDo(_WriteRelease)", "WriteMetrics/Write", "WriteRejected/Write")


@dataclass(frozen=True)
class Nothing:
    """A feed without rows."""

    def open(self) -> Nothing:
        return self

    def read(self, position: bytes, max_rows: int) -> Chunk:
        return Chunk((), position, None, False, True)

    def close(self) -> None:
        """Nothing is open."""


def files() -> beam.PTransform:
    """One batch with one row."""
    table, _ = rows_to_table([row(1, 1, 0.0) | {"who": PERSON}], bound_feed(POLICY))
    return beam.Create([RawBatch("", to_ipc(table), ())])


def translated(streaming: bool, secret: SecretSource = BY_REFERENCE) -> Any:
    """The job graph as Dataflow gets it."""
    flags = [*FLAGS, *(["--streaming"] if streaming else [])]
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    bound = bound_feed(POLICY)
    connect(
        pipeline,
        ReadPolled(Nothing(), 0) if streaming else files(),
        KAnonymize(POLICY, secret, input_schema=text_schema(POLICY), text=True, watermark_waits=streaming),
        bound,
        OUTPUT,
        "DataflowRunner",
        streaming=streaming,
    )
    return pipeline.run().job.proto_pipeline


@pytest.fixture(scope="module", params=[False, True], ids=["batch", "streaming"])
def graph(request: pytest.FixtureRequest) -> Any:
    """The graph of both kinds of job."""
    return translated(request.param)


def steps(graph: Any) -> dict[str, Any]:
    """Every transform by its full name, which is what --update matches."""
    return {step.unique_name: step for step in graph.components.transforms.values()}


def par_do(step: Any) -> Any:
    """The payload of a ParDo."""
    return api.ParDoPayload.FromString(step.spec.payload)


def downstream(graph: Any, name: str) -> Iterator[Any]:
    """Every leaf behind a step, in no order."""
    leaves = [step for step in steps(graph).values() if not step.subtransforms]
    found, reached = [steps(graph)[name]], set()
    while found:
        outputs = set(found.pop().outputs.values())
        for step in leaves:
            if outputs & set(step.inputs.values()) and step.unique_name not in reached:
                reached.add(step.unique_name)
                found.append(step)
                yield step


def test_the_stateful_step_has_its_cells_and_one_timer(graph: Any) -> None:
    """These names are in the state of running jobs: another one loses what is in it."""
    payload = par_do(steps(graph)[SOLVE])
    bags = {f"bag_{number:02}" for number in range(BAGS)}
    assert set(payload.state_specs) == {"clock", "warm", *bags}
    kinds = {name: spec.WhichOneof("spec") for name, spec in payload.state_specs.items()}
    assert {name for name, kind in kinds.items() if kind == "bag_spec"} == bags
    assert {kinds["clock"], kinds["warm"]} == {"read_modify_write_spec"}
    ((name, timer),) = payload.timer_family_specs.items()
    assert name.endswith("kanonflow_window_due")
    assert timer.time_domain == api.TimeDomain.EVENT_TIME
    stateful = [
        step.unique_name
        for step in steps(graph).values()
        if step.spec.urn == "beam:transform:pardo:v1" and par_do(step).state_specs
    ]
    assert stateful == [SOLVE]


def test_state_is_bytes_and_keys_are_deterministic(graph: Any) -> None:
    """Cells hold our versioned bytes, whatever a later Python thinks of pickles; the key's coder is that of bytes."""
    coders = graph.components.coders
    payload = par_do(steps(graph)[SOLVE])
    for spec in payload.state_specs.values():
        coder = spec.bag_spec.element_coder_id or spec.read_modify_write_spec.coder_id
        assert coders[coder].spec.urn == "beam:coder:bytes:v1"
    (source,) = steps(graph)[SOLVE].inputs.values()
    coder = coders[graph.components.pcollections[source].coder_id]
    while coder.spec.urn != "beam:coder:kv:v1":
        (inner,) = coder.component_coder_ids
        coder = coders[inner]
    assert coders[coder.component_coder_ids[0]].spec.urn == "beam:coder:bytes:v1"


def test_nothing_groups_before_the_timer(graph: Any) -> None:
    """The stateful step does the windowing itself, in the global window, so that no runner drops a late row."""
    grouping = {step.unique_name for step in steps(graph).values() if "group_by_key" in step.spec.urn}
    after = {step.unique_name for step in downstream(graph, SOLVE)}
    assert grouping
    assert grouping <= after
    (source,) = steps(graph)[SOLVE].inputs.values()
    windowing = graph.components.windowing_strategies[
        graph.components.pcollections[source].windowing_strategy_id
    ]
    assert windowing.window_fn.urn == "beam:window_fn:global_windows:v1"


def test_between_the_timer_and_a_sink_there_is_a_boundary_that_drops_nothing(graph: Any) -> None:
    """A Reshuffle each, whose grouping is in the global window and fires always: what is late passes."""
    grouping = {
        step.unique_name: step for step in downstream(graph, SOLVE) if "group_by_key" in step.spec.urn
    }
    outputs = ("StableReleases", "StableMetrics", "StableRejected")
    assert set(grouping) == {f"{name}/Reshuffle/ReshufflePerKey/GroupByKey" for name in outputs}
    for step in grouping.values():
        (source,) = step.inputs.values()
        strategy = graph.components.pcollections[source].windowing_strategy_id
        windowing = graph.components.windowing_strategies[strategy]
        assert windowing.window_fn.urn == "beam:window_fn:global_windows:v1"
        assert windowing.trigger.WhichOneof("trigger") == "always"
    for name in outputs:
        reached = {
            step.unique_name for step in downstream(graph, f"{name}/Reshuffle/ReshufflePerKey/GroupByKey")
        }
        assert reached & set(SINKS)
    reached = {step.unique_name for step in downstream(graph, SOLVE)}
    assert set(SINKS) <= reached


def test_no_step_but_the_boundary_asks_for_more_than_dataflow_has(graph: Any) -> None:
    """Stable input is what Flink is asked for; Dataflow's Reshuffle is stable, and refuses the requirement."""
    assert not any("stable_input" in requirement for requirement in graph.requirements)


def test_the_graph_holds_the_secrets_name_and_not_the_secret(graph: Any) -> None:
    """Dataflow stores the graph and shows parts of it in its console. By value, the secret would be in it."""
    text = readable(graph)
    assert NAME.encode() in text
    assert not any(form in text for form in (KEY, KEY.hex().encode(), b"mellon"))
    assert KEY in readable(translated(False, Secret(KEY)))


def test_display_data_tells_classes_and_functions_only(graph: Any) -> None:
    """What the console shows of a step: no row, no secret's name, no path."""
    shown = [data for step in steps(graph).values() for data in step.display_data]
    labels = {api.LabelledPayload.FromString(data.payload).label for data in shown}
    assert labels <= {"Transform Function", "Window Function", "Splittable Function", "Fn Wrapper"}, labels
    text = b"\n".join(data.payload for data in shown)
    assert b"SolveWindows" in text
    assert not any(part.encode() in text for part in (PERSON, "kanonflow/versions", "gs://", "town", "Bonn"))


def test_the_guide_names_the_steps_that_an_update_matches(graph: Any) -> None:
    """The contract of --update, row by row of the guide's table: a step, or a folder of steps, that is there."""
    section = GUIDE.read_text().partition("## Update")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert len(named) == 5
    streaming = any(name == "Read/Poll" for name in steps(graph))
    for name in named:
        if streaming or not name.startswith("Read/"):
            assert name in steps(graph), name


def test_what_dataflow_cannot_do_is_refused_at_once() -> None:
    """A local output, local inputs, a secret of this machine, workers without kanonflow, at-least-once."""
    flags = ["--project=demo-proj", "--dataflow_service_options=streaming_mode_at_least_once"]
    with pytest.raises(OptionsError) as caught:
        check_for_dataflow(beam_options(flags), "out", ["in/*.csv", "gs://b/x.csv"], SecretFile("/etc/key"))
    message = str(caught.value)
    for words in (
        "--output out",
        "in/*.csv is on",
        "--secret-manager",
        "--sdk_container_image",
        "at_least_once is refused",
    ):
        assert words in message
    assert "gs://b/x.csv" not in message
    with pytest.raises(OptionsError, match="--secret-manager"):
        check_for_dataflow(beam_options(FLAGS), OUTPUT, [], None)
    check_for_dataflow(beam_options(FLAGS), OUTPUT, ["gs://b/x", "kafka://h:1/t"], ManagedSecret(NAME))


def test_a_launcher_submits_and_ends() -> None:
    """The template's launcher names a place for the job graph; everybody else waits for the job."""
    assert only_submits(beam_options([*FLAGS, "--template_location=gs://demo-bucket-of-staging/job"]))
    assert not only_submits(beam_options(FLAGS))
    assert [
        is_dataflow(name) for name in ("DataflowRunner", "dataflow", "a.b.DataflowRunner", "FlinkRunner")
    ] == [
        True,
        True,
        True,
        False,
    ]
