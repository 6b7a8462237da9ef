"""What runs inside the peers' own environment: reads a table, anonymizes it with one peer, writes the classes.

Run by ``benchmarks.peers`` with that environment's Python, which has no kanonflow; hence no import of ours here.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

SENSITIVE = "salary-class"
WINDOW = "window"
"""A column by whose values rows are anonymized apart, where there is one."""


def anonypy_labels(frame: Any, quasi: list[str], k: int) -> Any:
    """Class of each row by anonypy's Mondrian; -1 in windows of fewer than k rows, of which it makes one class."""
    import numpy
    from anonypy.mondrian import Mondrian  # type: ignore[import-not-found]

    for name in quasi:
        if frame[name].dtype == object:
            frame[name] = frame[name].astype("category")
    labels = numpy.full(len(frame), -1)
    number = 0
    windows = frame.groupby(WINDOW).indices.values() if WINDOW in frame else [numpy.arange(len(frame))]
    for own in windows:
        for rows in Mondrian(frame.iloc[own].reset_index(drop=True), quasi).partition(k):
            if len(rows) >= k:
                labels[own[rows]] = number
                number += 1
    return labels


def anjana_labels(frame: Any, quasi: list[str], k: int, folder: Path) -> Any:
    """Class of each row by anjana's full-domain generalization with 5% suppressed; -1 for suppressed rows."""
    import numpy
    import pandas  # type: ignore[import-untyped]
    from anjana.anonymity import k_anonymity  # type: ignore[import-not-found]

    hierarchies = {}
    for name in quasi:
        table = pandas.read_csv(folder / f"adult_hierarchy_{name}.csv", sep=";", header=None, dtype=str)
        hierarchies[name] = {level: table[level].to_numpy() for level in table.columns}
        frame[name] = frame[name].astype(str)
    frame["row"] = range(len(frame))
    out = k_anonymity(frame, [], quasi, k, 5, hierarchies)
    labels = numpy.full(len(frame), -1)
    labels[out["row"].to_numpy().astype(int)] = out.groupby(quasi, observed=True).ngroup().to_numpy()
    return labels


def main(argv: list[str]) -> None:
    """peer, CSV, k, target: writes {seconds, labels} as JSON. Seconds are CPU time of the anonymization alone."""
    import pandas

    peer, path, k, target = argv
    frame = pandas.read_csv(path, sep=";")
    quasi = [name for name in frame.columns if name not in (SENSITIVE, WINDOW)]
    began = time.process_time()
    if peer == "anonypy":
        labels = anonypy_labels(frame, quasi, int(k))
    else:
        labels = anjana_labels(frame, quasi, int(k), Path(path).parent / "hierarchies")
    spent = time.process_time() - began
    Path(target).write_text(json.dumps({"seconds": spent, "labels": [int(label) for label in labels]}))


if __name__ == "__main__":
    main(sys.argv[1:])
