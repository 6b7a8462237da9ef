"""How long does the first run wait for the solvers' kernels, from a clone and from a wheel?

From a clone: sets of kernels are compiled into an empty cache, by one process and by one a core (``compile_ahead``):
wall and CPU seconds of all processes. Then ``kanonflow demo`` runs twice with that cache. From a wheel (``--wheel``, of
``make wheel``): its files are unpacked beside the libraries that are installed, and the demo runs twice with an empty
cache. Seconds to the first release are by a clock that starts with the command and looks for files every 20 ms; kernels
compiled: files that numba's cache has more afterwards.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish

SETS = ("classes ncp,merging",)
COMPILED = ("sets", "processes", "kernels", "wall s", "CPU s")
STARTED = ("installed from", "run", "first release s", "end s", "CPU s", "kernels compiled")


def add_compiled(table: ResultTable, names: Sequence[str], processes: int, cache: Path) -> None:
    """A row: some sets from an empty cache."""
    code = (
        "import sys; from kanonflow.solvers.kernels.compile_ahead import compile_ahead;"
        "compile_ahead(sys.argv[2:], processes=int(sys.argv[1]))"
    )
    wall, cpu = _timed([sys.executable, "-c", code, str(processes), *names], cache)
    table.rows.append((", ".join(names), processes, _kernels(cache), wall, cpu))


def add_started(table: ResultTable, name: str, path: str, cache: Path) -> None:
    """Two rows: the demo's first run with a cache, and its second."""
    for run in ("first", "second"):
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder, "out")
            before = _kernels(cache)
            begin, used = time.perf_counter(), _cpu()
            # Without site's own files, of which one may name this clone.
            command = [
                sys.executable,
                *(["-S"] if path else []),
                "-m",
                "kanonflow.pipelines.cli",
                "demo",
                "--output",
                str(output),
            ]
            settings = _settings(cache) | ({"PYTHONPATH": path} if path else {})
            with subprocess.Popen(command, env=settings, stdout=subprocess.DEVNULL) as process:
                first = None
                while process.poll() is None:
                    if first is None and any(output.glob("release/*.avro")):
                        first = time.perf_counter() - begin
                    time.sleep(0.02)
            if process.returncode:
                raise SystemExit(f"the demo ended with {process.returncode}")
            end = time.perf_counter() - begin
            table.rows.append((name, run, first, end, _cpu() - used, _kernels(cache) - before))


def _settings(cache: Path) -> dict[str, str]:
    return {**os.environ, "NUMBA_CACHE_DIR": str(cache)}


def _timed(command: Sequence[str], cache: Path) -> tuple[float, float]:
    begin, used = time.perf_counter(), _cpu()
    subprocess.run(command, check=True, env=_settings(cache))
    return time.perf_counter() - begin, _cpu() - used


def _cpu() -> float:
    """Seconds of all processes that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def _kernels(cache: Path) -> int:
    return sum(1 for _ in cache.rglob("*.nbc"))


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="The wait for kernels: from a clone, from a wheel.")
    parser.add_argument(
        "--sets", nargs="*", default=list(SETS), help="sets of kernels, a row each; commas join"
    )
    parser.add_argument("--processes", type=int, nargs="*", default=[1, os.cpu_count() or 1])
    parser.add_argument("--wheel", type=Path, help="one that carries kernels")
    parser.add_argument("--note", default="", help="a sentence on the circumstances, for the results")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("first_minute", __doc__ or "")
    compiled = findings.table("Compiled into an empty cache", COMPILED)
    started = findings.table("kanonflow demo", STARTED)
    compiled.note = arguments.note
    with tempfile.TemporaryDirectory() as folder:
        for names in arguments.sets:
            for processes in arguments.processes:
                cache = Path(tempfile.mkdtemp(dir=folder))
                add_compiled(compiled, names.split(","), processes, cache)
        if arguments.sets and arguments.processes:
            add_started(started, "a clone, kernels compiled", "", cache)
        if arguments.wheel is None:
            findings.skipped.append("from a wheel: no --wheel")
        else:
            site = Path(folder, "site")
            with zipfile.ZipFile(arguments.wheel) as archive:
                archive.extractall(site)
            packages = [path for path in sys.path if path.endswith("site-packages")]
            add_started(
                started, "a wheel", ":".join([str(site), *packages]), Path(tempfile.mkdtemp(dir=folder))
            )
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
