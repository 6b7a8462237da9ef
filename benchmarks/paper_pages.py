"""Writes one page a paper: each table and figure of its experiments, what the paper prints, and what ours shows.

A page's text lies in a module of its own, ``paper_page_<name>.py``; a further paper is one line of PAGES.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import paper_page_s0, paper_page_s1, paper_page_s2, paper_page_s4
from benchmarks.paper_page import PaperPage, Results
from benchmarks.result_files import RESULTS

PAGES: tuple[PaperPage, ...] = (
    paper_page_s0.PAGE,
    paper_page_s1.PAGE,
    paper_page_s2.PAGE,
    paper_page_s4.PAGE,
)


def write_pages(folder: Path) -> list[Path]:
    """All pages, from the result files of ``folder`` into it; where they are."""
    results = Results(folder)
    written = []
    for page in PAGES:
        path = folder / page.file
        path.write_text(page.text(results), encoding="utf-8")
        written.append(path)
    return written


def main(argv: list[str] | None = None) -> int:
    """Write the pages; returns the exit code."""
    parser = argparse.ArgumentParser(description="Pages of papers, from the results of the benchmarks.")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the result files and pages")
    for path in write_pages(parser.parse_args(argv).results):
        print(f"written: {path.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
