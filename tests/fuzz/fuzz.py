"""``python -m tests.fuzz.fuzz [TARGET...]``: each target under a coverage-guided fuzzer (atheris, libFuzzer).

A process a target, with limits of memory and of time for one input. What it stops at lies in ``.fuzz/found``: what an
error of Python came from, written here, for libFuzzer does not write that of every one. With ``--keep`` some of what
led through other code is added to the corpus.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOUND = ROOT / ".fuzz" / "found"
LARGEST, SECONDS_OF_ONE, MEGABYTES = 8192, 20, 2048
MOST_KEPT = 30
INSTRUMENTED = (
    "kanonflow.schemas",
    "kanonflow.pipelines.feeds",
    "kanonflow.pipelines.fit",
    "kanonflow.pipelines.kafka",
)
INSTRUMENTED += (
    "kanonflow.transforms.files",
    "kanonflow.transforms.rows",
    "kanonflow.transforms.roster",
    "yaml",
    "json",
    "openpyxl.reader",
    "openpyxl.worksheet",
)


def fuzz(target: str, arguments: list[str]) -> None:
    """In this process, for good: libFuzzer ends it."""
    import atheris

    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        from tests.fuzz.targets import TARGETS
    atheris.Setup([sys.argv[0], *arguments], written_if_raised(target, TARGETS[target]))
    atheris.Fuzz()


def written_if_raised(
    target: str, read: Callable[[bytes], None], folder: Path = FOUND
) -> Callable[[bytes], None]:
    """The same reader, which writes the bytes that an error comes from."""

    def read_bytes(data: bytes) -> None:
        try:
            read(data)
        except Exception:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{target}-raised-{hashlib.sha1(data).hexdigest()}").write_bytes(data)
            raise

    return read_bytes


def run(target: str, seconds: int, keep: bool, seed: int) -> bool:
    """A target for so long, beginning with its seeds and its corpus; whether nothing was found."""
    from tests.fuzz.targets import corpus

    kept = ROOT / "tests" / "fuzz" / "corpus" / target
    with tempfile.TemporaryDirectory(prefix="kanonflow-fuzz-") as folder:
        begin, grown = Path(folder, "begin"), Path(folder, "grown")
        begin.mkdir()
        grown.mkdir()
        for number, (_, data) in enumerate(corpus(target)):
            (begin / f"{number}").write_bytes(data)
        FOUND.mkdir(parents=True, exist_ok=True)
        limits = [f"-timeout={SECONDS_OF_ONE}", f"-rss_limit_mb={MEGABYTES}", f"-max_len={LARGEST}"]
        limits += [f"-artifact_prefix={FOUND}/{target}-", f"-seed={seed}", "-print_final_stats=1"]
        this = [sys.executable, "-m", "tests.fuzz.fuzz", "--inside", target, "--"]
        told = [f"-max_total_time={seconds}", *limits, str(grown), str(begin)]
        ended = subprocess.run([*this, *told], cwd=ROOT, check=False).returncode
        if keep and ended == 0:
            _keep(grown, kept)
    return ended == 0


def _keep(grown: Path, kept: Path) -> None:
    """Add to a corpus some of what was reached: of all sizes, for the smallest lead to the same refusals."""
    new = sorted(grown.iterdir(), key=lambda path: (path.stat().st_size, path.name))
    kept.mkdir(parents=True, exist_ok=True)
    for path in new[:: max(1, -(-len(new) // MOST_KEPT))]:
        shutil.copy(path, kept)


def main() -> int:
    """0: nothing was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", help="default: all")
    parser.add_argument("--seconds", type=int, default=3600, help="of all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="add what was reached to the corpus")
    parser.add_argument("--inside", metavar="TARGET", help=argparse.SUPPRESS)
    asked, further = parser.parse_known_args()
    if asked.inside:
        fuzz(asked.inside, [each for each in [*asked.targets, *further] if each != "--"])
        return 0
    if importlib.util.find_spec("atheris") is None:
        parser.error("atheris is not installed; make fuzz installs it")
    from tests.fuzz.targets import TARGETS

    names = asked.targets or list(TARGETS)
    failed = [name for name in names if not run(name, asked.seconds // len(names), asked.keep, asked.seed)]
    print(f"{len(names) - len(failed)} of {len(names)} targets without a finding", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
