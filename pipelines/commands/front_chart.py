"""A front as a drawing: loss against the limit of a rule, one line a setting; SVG, or a page that holds it."""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 760, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 210, 44, 56
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")


def front_chart(
    title: str, x_label: str, y_label: str, lines: Mapping[str, Sequence[tuple[float, float]]]
) -> str:
    """The SVG of named lines of points (x, y), both drawn in their order of x; y begins at 0.

    The marks of the x axis are the values that occur: a front is measured at a few of them.
    """
    marks = sorted({x for points in lines.values() for x, _ in points}) or [0.0]
    top = max((y for points in lines.values() for _, y in points), default=0.0) * 1.08 or 1.0
    wide = (marks[-1] - marks[0]) or 1.0
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM

    def across(x: float) -> float:
        return _LEFT + 14 + (x - marks[0]) / wide * (right - _LEFT - 28)

    def up(y: float) -> float:
        return bottom - y / top * (bottom - _TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        f' height="{HEIGHT}" font-family="sans-serif" font-size="12" fill="#222">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(_LEFT, 24, title, "start", 'font-weight="bold" font-size="15"'),
        f'<path d="M{_LEFT},{_TOP} V{bottom} H{right}" fill="none" stroke="#444"/>',
        _text((_LEFT + right) / 2, HEIGHT - 14, x_label, "middle"),
        _text(
            18, (_TOP + bottom) / 2, y_label, "middle", f'transform="rotate(-90 18 {(_TOP + bottom) / 2})"'
        ),
    ]
    parts += [_text(across(x), bottom + 19, f"{x:g}", "middle") for x in marks]
    for fifth in range(6):
        y = top * fifth / 5
        parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{up(y):.1f}" y2="{up(y):.1f}" stroke="#e4e4e4"/>')
        parts.append(_text(_LEFT - 8, up(y) + 4, f"{y:.3g}", "end"))
    for index, (name, points) in enumerate(lines.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        drawn = [(across(x), up(y)) for x, y in sorted(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in drawn)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"/>' for x, y in drawn]
        at = _TOP + 10 + 20 * index
        parts.append(f'<circle cx="{right + 22}" cy="{at}" r="4" fill="{colour}"/>')
        parts.append(_text(right + 34, at + 4, name, "start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def as_page(svg: str, title: str) -> str:
    """An HTML page with nothing but the drawing."""
    head = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title></head>'
    )
    return f"{head}\n<body>\n{svg}</body></html>\n"


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'
