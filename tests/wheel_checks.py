"""A wheel that carries its kernels, installed as others have it: ``make wheel-test``, after ``make wheel``.

Not among the ordinary tests: they need the wheel, which takes minutes to build. The package is unpacked beside the
libraries of this environment, nobody may write there, and another user runs it, or a root that may write only what
everybody may.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NOBODY = 65534
CODE = """
    import json
    import sys
    from pathlib import Path
    from numba.core import event
    from kanonflow.solvers.kernels import carried

    class Compiled(event.Listener):
        names = []

        def on_start(self, event):
            self.names.append(event.data["dispatcher"].py_func.__qualname__)

        def on_end(self, event):
            pass

    if sys.argv[1] == "too old":
        carried.codegen.get_host_cpu_features = lambda: "+sse2"
        carried.TARGETS = {"x86-64-v3": carried.TARGETS["x86-64-v3"]}
    from kanonflow.solvers.kernels.compile_ahead import missing_units
    from kanonflow.solvers.kernels.units import kernel_named, known_units, read_type
    from kanonflow.solvers.warm_up import warm_up_set

    try:
        Path(carried.__file__).with_name("written").touch()
        written = True
    except OSError:
        written = False
    names = json.loads(sys.argv[2])
    with event.install_listener("numba:compile", Compiled()):
        missing = missing_units(names)
        if sys.argv[1] != "too old":
            for name in names:
                warm_up_set(name)
        if sys.argv[1] == "one kernel":
            unit = next(unit for unit in known_units().units if unit.kernel == "units.row_counts._shared")
            kernel_named(unit.kernel).compile(tuple(map(read_type, unit.arguments)))
    print(json.dumps({
        "file": carried.__file__, "target": carried.chosen_target(), "missing": len(missing),
        "compiled": Compiled.names, "written": written,
    }))
"""


ANSWERS = """
    import hashlib
    import json
    from pathlib import Path
    import numpy as np
    from kanonflow.solvers import Budget, Table, Task, solve
    from kanonflow.solvers.kernels import carried
    from kanonflow.solvers.merging.merging import MergeTask, merge_cohorts

    rng = np.random.default_rng(7)
    n = 600
    table = Table(
        numeric=rng.random((n, 3)), categorical=rng.integers(0, 5, (n, 2)).astype(np.int32),
        cardinality=np.array([5, 5]), weights=rng.random(5) + 0.1, individuals=np.arange(n),
    )
    found = solve(Task(table, 5, shape="classes", budget=Budget(500.0), seed=3))
    here = np.ones(n, dtype=np.int64)
    merged = merge_cohorts(MergeTask(table, here, here, 5, 1, evaluations=50_000))
    told = hashlib.sha256(found.structure.groups.records.tobytes() + found.structure.groups.starts.tobytes())
    print(json.dumps({
        "file": carried.__file__, "target": carried.chosen_target(), "written": False,
        "classes": told.hexdigest(), "loss": found.loss.hex(), "merged": merged.loss.hex(),
        "labels": hashlib.sha256(np.ascontiguousarray(merged.labels).tobytes()).hexdigest(),
    }))
"""


def _wheel() -> Path:
    (wheel,) = (ROOT / "dist").glob("kanonflow-*.whl")
    return wheel


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files in a folder that nobody may write to."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(_wheel()) as archive:
        archive.extractall(folder)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    # pytest's own folders above it are for their owner.
    for parent in folder.parents:
        if parent.is_relative_to(tmp_path_factory.getbasetemp().parent):
            parent.chmod(parent.stat().st_mode | 0o011)
    return folder


def _carried_sets() -> list[str]:
    """The sets of kernels that the wheel holds everything of: all of them, unless it was made of some."""
    asked = os.environ.get("KANONFLOW_WHEEL_SETS")
    from kanonflow.solvers.warm_up import KERNEL_SETS

    return asked.split(",") if asked else list(KERNEL_SETS)


def _without_powers() -> list[str]:
    """What makes a command one of another user; where that user may not run this Python, of a root that must ask."""
    if os.getuid() != 0:
        return []
    other = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    if subprocess.run([*other, sys.executable, "-c", ""], stderr=subprocess.DEVNULL).returncode == 0:
        return other
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]


def _run(site: Path, *arguments: str, code: str = CODE, **settings: str) -> dict[str, Any]:
    """What a process tells that has the wheel's package, a home it may not write to, and no cache."""
    packages = [path for path in sys.path if path.endswith("site-packages")]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "PYTHONPATH": ":".join([str(site), *packages]),
        "PYTHONDONTWRITEBYTECODE": "1",
        **settings,
    }
    # Without site's own files, of which one may name this clone.
    done = subprocess.run(
        [*_without_powers(), sys.executable, "-S", "-c", textwrap.dedent(code), *arguments],
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=280,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["file"].startswith(str(site))
    assert not told["written"]
    return told


@pytest.mark.parametrize("cpu", [None, "x86-64"])
def test_an_installed_wheel_compiles_nothing(site: Path, cpu: str | None) -> None:
    """All that a worker warms up is carried, for this CPU and for the oldest one."""
    settings = {} if cpu is None else {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": ""}
    told = _run(site, "as it is", json.dumps(_carried_sets()), **settings)
    assert told["target"] in ("x86-64-v3", "x86-64")
    assert cpu is None or told["target"] == cpu
    assert (told["missing"], told["compiled"]) == (0, [])


def test_every_target_gives_the_same_answers(site: Path) -> None:
    """To the last bit, also as numba compiles for this very CPU: a window that another machine makes again is the same
    release."""
    asked = json.dumps(["classes ncp", "merging"])
    told = [
        _run(site, asked, code=ANSWERS),
        _run(site, asked, code=ANSWERS, NUMBA_CPU_NAME="x86-64", NUMBA_CPU_FEATURES=""),
        _run(site, asked, code=ANSWERS, NUMBA_OPT="2"),  # nothing carried was made so: numba compiles
    ]
    assert [each["target"] for each in told] == ["x86-64-v3", "x86-64", None]
    answers = [{name: each[name] for name in ("classes", "loss", "merged", "labels")} for each in told]
    assert answers[0] == answers[1] == answers[2]


def test_a_cpu_that_fits_neither_has_all_to_compile(site: Path) -> None:
    """The control: nothing of what is carried counts there."""
    told = _run(site, "too old", json.dumps(_carried_sets()))
    assert told["target"] is None
    assert told["missing"] > 10


def test_what_is_compiled_is_counted(site: Path) -> None:
    """The other control: a CPU is named that nothing was made for, and there is no folder to keep what is compiled."""
    told = _run(site, "one kernel", "[]", NUMBA_CPU_NAME="haswell")
    assert told["target"] is None
    assert "_shared" in told["compiled"]


@pytest.mark.timeout(3000)
def test_kernels_that_are_compiled_again_are_the_same_bytes(tmp_path: Path) -> None:
    """All that the wheel carries, in processes of their own with empty caches: indexes and machine code."""
    again = tmp_path / "compiled"
    command = [
        sys.executable,
        "-m",
        "deploy.wheel.carry_kernels",
        str(again),
        "--sets",
        ",".join(_carried_sets()),
    ]
    subprocess.run(command, check=True, cwd=ROOT, stderr=subprocess.DEVNULL)
    inside = "kanonflow/solvers/compiled/"
    with zipfile.ZipFile(_wheel()) as archive:
        carried = {name: archive.read(name) for name in archive.namelist() if name.startswith(inside)}
    made = {
        f"{inside}{path.relative_to(again).as_posix()}": path.read_bytes()
        for path in again.rglob("*")
        if path.is_file()
    }
    assert sorted(made) == sorted(carried)
    assert [name for name, content in made.items() if carried[name] != content] == []


def test_the_bill_names_what_made_the_machine_code() -> None:
    """Two compilers, by the versions of the lock; files have the time of a commit, all the same."""
    with zipfile.ZipFile(_wheel()) as archive:
        (name,) = (
            name for name in archive.namelist() if name.endswith(".dist-info/sboms/kanonflow.cdx.json")
        )
        bill = json.loads(archive.read(name))
        assert len({member.date_time for member in archive.infolist()}) == 1
    versions = {each["name"]: each["version"] for each in bill["components"]}
    made = {each["name"].rpartition(":")[2]: each["value"] for each in bill["metadata"]["properties"]}
    assert made == {compiler: versions[compiler] for compiler in ("numba", "llvmlite")}


def test_the_wheel_names_python_system_and_numba() -> None:
    """pip installs it where its code runs, with the numba that reads it."""
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{version}-{version}-" in _wheel().name
    assert _wheel().name.endswith("x86_64.whl")
    with zipfile.ZipFile(_wheel()) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        pinned = [line for line in archive.read(name).decode().splitlines() if "Requires-Dist: numba" in line]
        manifest = json.loads(archive.read("kanonflow/solvers/compiled/manifest.json"))
    assert pinned == [f"Requires-Dist: numba=={manifest['made_with']['numba']}"]
