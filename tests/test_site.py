"""``make docs``: the site that is built of docs/ needs no network, points nowhere wrong, and fits a telephone.

mkdocs checks links and anchors of the documents itself, and fails for each (``strict``, ``validation`` in mkdocs.yml).
Here that is seen to be so, and what was built is read once more, as HTML and in a real browser.
"""

from __future__ import annotations

import contextlib
import html
import html.parser
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import kanonflow

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]
WIDTHS = (390, 1280)


def built(folder: Path, *, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    """``mkdocs build --strict`` into a folder, with the package laid out as ``make docs`` does."""
    subprocess.run(["make", "--no-print-directory", ".mypy_root/kanonflow"], cwd=ROOT, check=True)
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    ran = built(folder)
    assert ran.returncode == 0, ran.stderr
    return folder


class Targets(html.parser.HTMLParser):
    """What a page points to and loads, and the anchors it has."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One element."""
        values = {name: value for name, value in attrs if value is not None}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a":
            self.links |= {values["href"]} if "href" in values else set()
        else:
            self.loads |= {values[name] for name in ("src", "href", "srcset", "data") if name in values}


def pages(site: Path) -> list[Path]:
    """Of the site; the one for addresses that there are not is shown by servers only."""
    return [page for page in sorted(site.rglob("*.html")) if page.name != "404.html"]


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts, pictures: all are files of the site, also those that a style names."""
    assert len(pages(site)) > 60
    for page in pages(site):
        for target in Targets(page).loads - {""}:
            if target.startswith("data:"):
                continue
            parts = urlsplit(target)
            assert not parts.scheme, (page, target)
            assert not parts.netloc, (page, target)
            assert (page.parent / unquote(parts.path)).is_file(), (page, target)
    for style in site.rglob("*.css"):
        named = re.findall(r"(?:@import\s+|url\()['\"]?([^'\")\s]+)", style.read_text())
        assert not [name for name in named if not name.startswith("data:")], style


def test_links_lead_to_pages_and_anchors_of_the_site(site: Path) -> None:
    """In the HTML, with those that come from docstrings and from the frame of the site."""
    known = {page: Targets(page) for page in pages(site)}
    for page, targets in known.items():
        for link in targets.links - {"."}:
            parts = urlsplit(link)
            assert not parts.scheme, f"{page.name} points out of the site: {link}"
            there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if there.suffix == ".ipynb":  # to be taken along, and no page
                assert there.is_file(), (page.name, link)
                continue
            assert there in known, (page.name, link)
            if parts.fragment and parts.fragment != "__codelineno":
                assert unquote(parts.fragment) in known[there].anchors, (page.name, link)


def test_a_wrong_anchor_or_page_fails_the_build(tmp_path: Path) -> None:
    """So that nobody has to look."""
    pytest.importorskip("mkdocs")
    (tmp_path / "docs").mkdir()
    config = tmp_path / "mkdocs.yml"
    text = re.sub(
        r"^(nav|plugins|not_in_nav|extra_\w+):.*\n(?:[ -].*\n)*",
        "",
        ROOT.joinpath("mkdocs.yml").read_text(),
        flags=re.M,
    )
    config.write_text(text + "\nplugins: []\n")
    page = tmp_path / "docs" / "index.md"
    for link, right in (("#here", True), ("#there", False), ("nowhere.md", False)):
        page.write_text(f"# Page\n\n## Here\n\n[link]({link})\n")
        ran = built(tmp_path / "site", config=config)
        assert (ran.returncode == 0) is right, (link, ran.stderr)


def test_every_document_is_in_the_navigation_and_the_index(site: Path) -> None:
    """But for decisions, which are read by number; the index leads to each."""
    documents = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    listed = {Path(urlsplit(link).path).stem for link in Targets(site / "index.html").links}
    assert documents <= listed
    told = set(re.findall(r"\((\w[\w-]*)\.md[#)]", (ROOT / "docs" / "index.md").read_text()))
    assert documents == told


def test_the_api_page_has_every_public_name(site: Path) -> None:
    """With its docstring: the first words of each stand on the page."""
    page = site / "api.html"
    anchors = Targets(page).anchors
    text = " ".join(html.unescape(re.sub(r"<[^>]+>", "", page.read_text())).split())
    for name in kanonflow.__all__:
        assert f"kanonflow.{name}" in anchors, name
        told = (getattr(kanonflow, name).__doc__ or "").split("\n")[0].partition("``")[0].split(";")[0]
        assert " ".join(told.split())[:40].strip(" .") in text, name


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """The site by a server on this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *told: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_the_screen(site: Path, browser: Any, width: int) -> None:
    """Opened as a file, without a network. Wide tables and code scroll by themselves. Nothing else is asked for."""
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
    asked: set[str] = set()
    said: list[str] = []
    tab = context.new_page()
    tab.on("request", lambda request: asked.add(urlsplit(request.url).scheme))
    tab.on("pageerror", lambda error: said.append(str(error)))
    wide = {}
    for page in pages(site):
        tab.goto(page.as_uri())
        if (found := tab.evaluate("document.scrollingElement.scrollWidth")) > width:
            wide[page.name] = found
        cut = tab.evaluate(
            """width => [...document.querySelectorAll('article > *, article :is(li, p, h1, h2, h3, h4)')]
               .filter(each => each.checkVisibility() && each.getBoundingClientRect().right > width + 1
                 && !each.closest('.md-typeset__scrollwrap, pre'))
               .map(each => each.textContent.slice(0, 40))""",
            width,
        )
        assert not cut, (page.name, cut)
    context.close()
    assert not wide, wide
    assert asked <= {"file", "data"}
    assert not said


@pytest.mark.browser
def test_the_search_works_without_a_network(served: str, browser: Any) -> None:
    """Of a site that this machine serves: a word of the guarantees is found where it is explained."""
    from playwright import sync_api

    context = browser.new_context(viewport={"width": 1280, "height": 900})
    asked: set[str] = set()
    tab = context.new_page()
    tab.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
    tab.goto(f"{served}/index.html")
    tab.locator(".md-search__input").click()
    for _ in range(6):  # what is typed before the index is read is not asked for
        tab.locator(".md-search__input").fill("")
        tab.locator(".md-search__input").press_sequentially("swap condition")
        with contextlib.suppress(sync_api.TimeoutError):
            # Results of the first letters come first, on a machine that is busy.
            found = tab.locator(".md-search-result__item a[href*=guarantees]").first
            found.wait_for(state="attached", timeout=15_000)
            break
    assert found.count()
    context.close()
    assert asked == {urlsplit(served).netloc}


@pytest.mark.browser
def test_a_page_that_is_opened_as_a_file_shows_no_search(site: Path, browser: Any) -> None:
    """It would find nothing there."""
    tab = browser.new_page()
    tab.goto((site / "index.html").as_uri())
    assert not tab.locator(".md-search").count()
    tab.close()
