"""The Flex Template: its parameters are the command line's flags, its image is made of what is in the repository."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import pytest

from deploy.dataflow.launch_template import BEAM, COMMAND, METADATA, command_line
from kanonflow.pipelines.options import options, table
from kanonflow.pipelines.runs.feed_address import stream_places
from kanonflow.pipelines.runs.secret_sources import ManagedSecret, previous_sources

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "dataflow"
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
SETUP = (ROOT / "setup.py").read_text()
TEMPLATE: dict[str, Any] = json.loads(METADATA.read_text())
PARAMETERS = {parameter["name"]: parameter for parameter in TEMPLATE["parameters"]}
COMMANDS = ("anonymize", "stream")
LEFT_OUT = {
    "help": "prints and ends",
    "runner": "the launcher's, which knows one",
    "secret_file": "workers have no file of the launcher's",
    "secret_env": "workers have no variables of the launcher's",
    "second_release": "needs an output on the launcher's machine",
    "quiet": "nobody watches the launcher",
    "json": "nobody reads what the launcher prints",
    "end_on_rejected": "the launcher has gone, and nobody is there to cancel the job; the gauge is what to alert on",
    "detach": "the launcher only submits",
    "rewind": "there are no savepoints; an update goes on from the state that is there",
    "checkpointing_interval": "Flink's; Dataflow keeps its own state",
}
"""Flags of the commands that are no parameters of the template, and why."""


def flags(command: str) -> dict[str, argparse.Action]:
    """A command's flags, named as the template names them."""
    (commands,) = (
        action for action in table.command_parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    return {
        max(action.option_strings, key=len).removeprefix("--").replace("-", "_"): action
        for action in commands.choices[command]._actions
        if action.option_strings
    }


def example(name: str) -> str:
    """A value of a parameter, as its help shows it or its pattern asks for it."""
    shown = re.search(r"Example: ([^\s,]+)", PARAMETERS[name]["helpText"])
    switches = dict.fromkeys(
        ("resume", "matching_records", "unmeasured", "carry", "people_changed", "renew"), "true"
    )
    values = switches | {
        COMMAND: "anonymize",
        "delimiter": "tab",
        "input_format": "csv",
        "evaluations": "12.5",
    }
    return shown[1] if shown else values.get(name, "3")


def test_every_flag_is_a_parameter_or_left_out_for_a_reason() -> None:
    """Both ways: a flag that is new, and a parameter whose flag is gone, are found here."""
    there = {name for command in COMMANDS for name in flags(command)}
    assert there - set(LEFT_OUT) == set(PARAMETERS) - {COMMAND, *BEAM}
    assert not set(LEFT_OUT) & set(PARAMETERS)


@pytest.mark.parametrize("name", sorted(set(PARAMETERS) - {COMMAND, *BEAM}))
def test_parameters_are_what_their_flags_are(name: str) -> None:
    """Switches are booleans; what a command needs is needed, unless the other command has no such flag."""
    found = [flags(command).get(name) for command in COMMANDS]
    for action in found:
        if action is not None:
            switch = isinstance(action, argparse._StoreTrueAction)
            assert switch == (PARAMETERS[name].get("paramType") == "BOOLEAN")
    needed = all(action is not None and action.required for action in found) or name == "secret_manager"
    assert needed == (not PARAMETERS[name].get("isOptional", False))


def test_the_commands_are_those_of_the_command_line() -> None:
    """The enumeration, its pattern, and what the launcher passes on."""
    parameter = PARAMETERS[COMMAND]
    assert [option["value"] for option in parameter["enumOptions"]] == list(COMMANDS)
    assert parameter["regexes"] == [f"^({'|'.join(COMMANDS)})$"]


def test_dataflow_can_read_the_metadata() -> None:
    """Every key is one of the service's own message, every parameter is explained; its examples match its pattern."""
    from google.cloud.dataflow_v1beta3.types import TemplateMetadata

    read = TemplateMetadata.from_json(METADATA.read_text(), ignore_unknown_fields=False)
    assert [parameter.name for parameter in read.parameters] == list(PARAMETERS)
    for parameter in read.parameters:
        assert re.fullmatch("[a-z_]+", parameter.name)
        assert parameter.label
        assert parameter.help_text
        assert parameter.regexes
        assert all(re.search(pattern, example(parameter.name)) for pattern in parameter.regexes)


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("output", "gs://bucket/prefix", True),
        ("output", "kafka://broker:9092/topic?format=json", True),
        ("output", "gs://bucket", False),
        ("output", "kafka://broker:9092", False),
        ("output", "/home/me", False),
        ("previous_secret", "manager:projects/p/secrets/s/versions/1", True),
        (
            "previous_secret",
            "manager:projects/p/secrets/s/versions/1 manager:projects/p/secrets/s/versions/2",
            True,
        ),
        ("previous_secret", "file:/etc/secret", False),
        ("previous_secret", "manager:projects/p/secrets/s/versions/latest", False),
    ],
)
def test_what_a_parameter_takes(name: str, value: str, fits: bool) -> None:
    """Its patterns, and the console's own check of a bucket, which would refuse a topic."""
    assert all(re.search(pattern, value) for pattern in PARAMETERS[name]["regexes"]) == fits
    assert name != "output" or "paramType" not in PARAMETERS[name]


def test_a_stream_between_topics_and_a_new_secret() -> None:
    """Topics at both ends with a place for raw rows, and two earlier secrets in one parameter."""
    versions = [f"projects/p/secrets/s/versions/{number}" for number in (1, 2, 3)]
    line = [
        *("--command=stream", "--policy=gs://b/p.yaml", "--source=kafka://h:1/t?format=json"),
        *("--output=kafka://h:1/o?format=json", "--restricted=gs://b/r", "--resume=true"),
        *(
            f"--secret_manager={versions[2]}",
            f"--previous_secret=manager:{versions[0]}  manager:{versions[1]}",
        ),
    ]
    arguments, _ = options.parse(command_line(line, TEMPLATE))
    places = stream_places(arguments.output, arguments.restricted)
    assert (places.directory, places.topic) == ("gs://b/r", "kafka://h:1/o?format=json")
    assert previous_sources(arguments.previous_secrets) == (
        ManagedSecret(versions[0]),
        ManagedSecret(versions[1]),
    )
    assert arguments.resume
    assert arguments.secret_manager == versions[2]


def test_a_replay_must_not_be_seen_twice() -> None:
    """Dataflow's at-least-once mode would give the stateful step rows twice."""
    assert (TEMPLATE["supportsAtLeastOnce"], TEMPLATE["supportsExactlyOnce"]) == (False, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_understands_what_the_launcher_makes(command: str) -> None:
    """All parameters of a command at once, and the flags that the service adds."""
    own = {name: example(name) for name in PARAMETERS if name in flags(command)}
    line = [f"--{name}={value}" for name, value in own.items()]
    service = ["--project=demo-proj", "--region=us-central1", "--job_name=a", "--sdk_container_image=i/k:1"]
    service += [
        "--temp_location=gs://demo-bucket-name/t",
        "--template_location=gs://demo-bucket-name/job_object",
    ]
    service += ["--service_account_email=a@b", "--labels={}", "--num_workers=1", "--enable_streaming_engine"]
    arguments, beam = options.parse(command_line([f"--command={command}", *line, *service], TEMPLATE))
    assert arguments.command == command
    for name, value in own.items():
        action = flags(command)[name]
        read = getattr(arguments, action.dest)
        # These have types of their own, by which argparse reads them.
        typed = name in ("delimiter", "until", "epoch") and read is not None
        assert read is True if value == "true" else str(read).strip("[]'") == value or typed, name
    assert arguments.runner == "DataflowRunner"
    assert beam == (*service, "--sdk_location=container")
    options.beam_options(beam)


def test_switches_and_empty_values() -> None:
    """A switch that is off and a field that was left empty are no flags; a command must be named."""
    line = command_line(
        ["--command=anonymize", "--resume=false", "--seed=", "--runner=DataflowRunner"], TEMPLATE
    )
    assert line == ["anonymize", "--runner=DataflowRunner", "--sdk_location=container"]
    with pytest.raises(ValueError, match="resume: expected true or false"):
        command_line(["--command=stream", "--resume=perhaps"], TEMPLATE)
    with pytest.raises(ValueError, match="command: missing"):
        command_line([], TEMPLATE)


def test_the_image_is_made_of_what_is_there() -> None:
    """Every copied path exists; every room of the package is copied; the launcher runs a file that is copied."""
    copied = [
        (line.split()[1:-1], line.split()[-1])
        for line in DOCKERFILE.splitlines()
        if line.startswith("COPY ") and "--from" not in line
    ]
    sources = [source for group, _ in copied for source in group]
    assert all((ROOT / source).exists() for source in sources)
    rooms = re.search(r"^ROOMS = \((.*)\)$", SETUP, re.MULTILINE)
    assert rooms is not None
    assert set(re.findall(r'"(\w+)"', rooms[1])) <= set(sources)
    entry = re.search(r"^ENV FLEX_TEMPLATE_PYTHON_PY_FILE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert entry is not None
    (group,) = (group for group, target in copied if target == "/template/")
    assert entry[1] in [f"/template/{Path(source).name}" for source in group]
    assert METADATA.name in [Path(source).name for source in group]


def test_the_images_versions_are_those_of_the_package() -> None:
    """Beam and Python of the base image, and the extras that are installed: the service's and Kafka's clients."""
    image = re.search(r"^ARG SDK=apache/beam_python([\d.]+)_sdk:([\d.]+)$", DOCKERFILE, re.MULTILINE)
    assert image is not None
    python, beam = image.groups()
    assert f'python_requires=">={python}' in SETUP
    assert f"python{python.replace('.', '')}-template-launcher-base" in DOCKERFILE
    assert "locks/dataflow.lock" in DOCKERFILE
    lock = (ROOT / "locks" / "dataflow.lock").read_text()
    pinned = re.search(r"^apache-beam(?:\[[a-z,]+\])?==([\d.]+)", lock, re.MULTILINE)
    assert pinned is not None
    assert pinned[1] == beam
    assert re.search(r"^confluent-kafka==", lock, re.MULTILINE), (
        "topics as source and output need Kafka's client"
    )


def test_base_images_are_pinned() -> None:
    """Every image that is built upon has an exact tag; a digest may be given for it."""
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert bases == ["$LAUNCHER", "$SDK"]
    for base in bases:
        pinned = re.search(rf"^ARG {base[1:]}=\S+:(\S+)$", DOCKERFILE, re.MULTILINE)
        assert pinned is not None
        assert re.search(r"\d", pinned[1])
        assert "latest" not in pinned[1]
