"""The Flex Template: its parameters are the command line's flags, its image is made of what is in the repository."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import pytest

from deploy.dataflow.launch_template import BEAM, COMMAND, METADATA, command_line
from kanonflow.pipelines import options

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
    "previous_secret": "may be given several times, which a parameter cannot",
    "second_release": "needs an output on the launcher's machine",
    "quiet": "nobody watches the launcher",
    "detach": "the launcher only submits",
    "checkpointing_interval": "Flink's; Dataflow keeps its own state",
}
"""Flags of the commands that are no parameters of the template, and why."""


def flags(command: str) -> dict[str, argparse.Action]:
    """A command's flags, named as the template names them."""
    (commands,) = (
        action for action in options._parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    return {
        max(action.option_strings, key=len).removeprefix("--").replace("-", "_"): action
        for action in commands.choices[command]._actions
        if action.option_strings
    }


def example(name: str) -> str:
    """A value of a parameter, as its help shows it or its pattern asks for it."""
    shown = re.search(r"Example: ([^\s,]+)", PARAMETERS[name]["helpText"])
    switches = dict.fromkeys(("resume", "certificates"), "true")
    values = switches | {COMMAND: "anonymize", "delimiter": "tab", "evaluations": "12.5"}
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
        assert read is True if value == "true" else str(read).strip("[]'") == value or name == "delimiter", (
            name
        )
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
    """Beam and Python of the base image, and the extra that is installed."""
    image = re.search(r"^FROM apache/beam_python([\d.]+)_sdk:([\d.]+)$", DOCKERFILE, re.MULTILINE)
    assert image is not None
    python, beam = image.groups()
    assert f'"apache-beam=={beam}"' in SETUP
    assert f'GCP = ["apache-beam[gcp]=={beam}"]' in SETUP
    assert f'python_requires=">={python}' in SETUP
    assert f"python{python.replace('.', '')}-template-launcher-base" in DOCKERFILE
    assert "'.[gcp]'" in DOCKERFILE
