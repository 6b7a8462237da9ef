"""What is loaded ahead is all that an audit calls."""

import subprocess
import sys

from kanonflow.pipelines.audit.judge.load_kernels import load_kernels

CODE = """
from numba.core.dispatcher import Dispatcher
from kanonflow.pipelines.audit.judge import candidate_graph, concealment, matching
from kanonflow.pipelines.audit.judge.load_kernels import load_kernels
load_kernels()
kernels = [
    value
    for module in (candidate_graph, concealment, matching)
    for value in vars(module).values()
    if isinstance(value, Dispatcher) and value.py_func.__module__ == module.__name__
]
called = ("_scan", "_components", "_count", "_tally", "_fill")
print(*sorted(name for name in called for each in kernels if each.py_func.__name__ == name and each.signatures))
print(len(kernels))
"""


def test_every_kernel_that_python_calls_is_loaded() -> None:
    """One signature of each; those that only kernels call come with them."""
    load_kernels()
    told = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert told[0].split() == ["_components", "_count", "_fill", "_scan", "_tally"]
    # A new one: say above whether Python calls it.
    assert told[1] == "11"
