"""What a page must be in a real browser: whole, offline, readable on a phone, in the dark, and by keyboard."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WIDTHS = (390, 1280)
SCHEMES = ("light", "dark")
LEAST_TEXT = 11
"""Pixels, as rendered."""

_TEXTS = """() => {
  const shown = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = text => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const svg = element instanceof SVGElement;
    let scale = 1;
    if (svg) { const m = element.getScreenCTM(); scale = Math.hypot(m.a, m.b); }
    let behind = [255, 255, 255, 255];
    for (let at = element; at; at = at.parentElement) {
      const found = rgba(getComputedStyle(at).backgroundColor);
      if (found[3]) { behind = found; break; }
    }
    shown.push({
      text: node.textContent.trim().slice(0, 40), svg, size: parseFloat(style.fontSize) * scale,
      bold: parseInt(style.fontWeight) >= 700, colour: rgba(svg ? style.fill : style.color), behind,
    });
  }
  return shown;
}"""


def chromium() -> str | None:
    """Where the machine's Chromium is; None: it has none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


@contextmanager
def opened(browser: Any, page: Path, width: int, scheme: str) -> Iterator[Any]:
    """A page from its file, without a network, all its tables unfolded. It must not say or ask for anything."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, bypass_csp=True
    )
    said: list[str] = []
    asked: list[str] = []
    tab = context.new_page()
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    try:
        tab.goto(page.absolute().as_uri())
        tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        yield tab
        assert not said, said
        assert len(asked) == 1, asked
    finally:
        context.close()


def check_page(browser: Any, page: Path) -> None:
    """All of it, at every width and in both schemes."""
    for width in WIDTHS:
        for scheme in SCHEMES:
            with opened(browser, page, width, scheme) as tab:
                check_fits(tab, width)
                check_texts(tab.evaluate(_TEXTS))
    with opened(browser, page, WIDTHS[0], SCHEMES[0]) as tab:
        check_keyboard(tab)


def check_fits(tab: Any, width: int) -> None:
    """Nothing is wider than the screen, but tables in a box that scrolls."""
    assert tab.evaluate("document.scrollingElement.scrollWidth") <= width
    outside = tab.evaluate(
        """width => [...document.querySelectorAll('body *')].filter(each => !each.closest('.scroll table')
             && each.checkVisibility() && each.getBoundingClientRect().right > width + 1
           ).map(each => each.tagName + ' ' + each.textContent.slice(0, 40))""",
        width,
    )
    assert not outside, outside


def check_texts(texts: list[dict[str, Any]]) -> None:
    """No text is too small or too faint: WCAG 2.2, AA."""
    assert any(each["svg"] for each in texts)
    assert any(not each["svg"] for each in texts)
    small = [each for each in texts if each["size"] < LEAST_TEXT]
    assert not small, small
    for each in texts:
        large = each["size"] >= 24 or (each["bold"] and each["size"] >= 18.66)
        assert contrast(each["colour"], each["behind"]) >= (3 if large else 4.5), each


def check_keyboard(tab: Any) -> None:
    """Tab comes to every link, every fold and every box that scrolls; Enter opens a fold and closes it."""
    reachable = tab.evaluate("document.querySelectorAll('a[href], summary, [tabindex=\"0\"]').length")
    assert reachable
    reached = 0
    for _ in range(reachable):
        tab.keyboard.press("Tab")
        reached += tab.evaluate("document.activeElement.matches('a[href], summary, [tabindex=\"0\"]')")
    assert reached == reachable
    fold = tab.locator("summary").first
    fold.focus()
    before = tab.evaluate("document.activeElement.parentElement.open")
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.parentElement.open") != before


def contrast(one: list[int], other: list[int]) -> float:
    """Of two colours, as red, green and blue from 0 to 255, by WCAG's definition; 1 to 21."""
    bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _luminance(colour: list[int]) -> float:
    parts = (each / 255 for each in colour[:3])
    linear = [each / 12.92 if each <= 0.04045 else math.pow((each + 0.055) / 1.055, 2.4) for each in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
