"""What the Flex Template's launcher runs: the template's parameters as a command line of ``kanonflow``.

The service hands every parameter over as ``--name=value``. metadata.json, which stands beside this file, says which of
them are kanonflow's: their names have ``_`` for ``-``, and switches have a value. All others are Beam's.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

METADATA = Path(__file__).with_name("metadata.json")
COMMAND = "command"
BEAM = ("sdk_container_image",)
"""Parameters of the template that are Beam's own flags."""
REPEATED = ("previous_secret",)
"""Parameters of several values, which are one flag each: a parameter is given once, with spaces between its values."""


def command_line(arguments: Sequence[str], metadata: Mapping[str, Any]) -> list[str]:
    """The arguments of ``kanonflow`` for those of the launcher.

    Raises ValueError: the command is missing, or a switch is neither true nor false; the message names the parameter.
    """
    ours = {parameter["name"]: parameter for parameter in metadata["parameters"]}
    command, flags = None, []
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        if name == COMMAND:
            command = value
        elif name not in ours or name in BEAM:
            flags.append(argument)
        else:
            flags += _flag(ours[name], value)
    if command is None:
        raise ValueError(f"parameter {COMMAND}: missing; anonymize (files) or stream (a feed that goes on)")
    # The job graph's image is the one that this runs in, so nothing is to be fetched or staged.
    return [command, *flags, "--sdk_location=container", *_runner(arguments)]


def _flag(parameter: Mapping[str, Any], value: str) -> Iterator[str]:
    flag = "--" + parameter["name"].replace("_", "-")
    if parameter["name"] in REPEATED:
        yield from (f"{flag}={each}" for each in value.split())
    elif parameter.get("paramType") != "BOOLEAN":
        # A form leaves out what is empty, a script may not.
        if value:
            yield f"{flag}={value}"
    elif value.lower() == "true":
        yield flag
    elif value.lower() not in ("false", ""):
        raise ValueError(f"parameter {parameter['name']}: expected true or false")


def _runner(arguments: Sequence[str]) -> Iterator[str]:
    if not any(argument.startswith("--runner") for argument in arguments):
        yield "--runner=DataflowRunner"


def main() -> int:
    """Build the job graph and hand it to the service; the exit code of ``kanonflow``."""
    from kanonflow.pipelines.cli import main as kanonflow

    try:
        line = command_line(sys.argv[1:], json.loads(METADATA.read_text(encoding="utf-8")))
    except ValueError as error:
        print(f"kanonflow: {error}", file=sys.stderr)
        return 2
    return kanonflow(line)


if __name__ == "__main__":
    sys.exit(main())
