"""Which Beam a command needs: local runs take the range of setup.py, jobs on clusters the one that was tested there.

What holds a cluster's job together lies in parts of Beam that are not its public face: the pool of workers
(``runs/worker_pool.py`` extends Beam's own, whose members are private), the worker that is forked, flags that Flink's
job server knows, and elements that travel between steps of one job in Beam's own coding.
"""

from __future__ import annotations

from importlib.metadata import version

TESTED = "2.77"
"""What ``locks`` pin, and what the tests of clusters run with."""


class BeamVersionError(Exception):
    """The installed Beam is not the one that a feature needs; the message says both, and what to install."""

    exit_code = 2


def need_tested_beam(feature: str, installed: str | None = None) -> None:
    """Raise BeamVersionError unless Beam is the tested one. installed: its version; None: ask the installation."""
    beam = version("apache-beam") if installed is None else installed
    if beam.split(".")[:2] != TESTED.split("."):
        raise BeamVersionError(
            f"{feature} needs apache-beam {TESTED}, with which it is tested on clusters; {beam} is installed here:"
            f" pip install 'apache-beam=={TESTED}.*'. Local runs and pipelines of one's own take others (setup.py)"
        )
