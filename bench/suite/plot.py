"""The figures as a picture: CPU per operation and server, and its growth with size. SVG, written by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from bench.suite.figures import Figures
from bench.suite.stage import BASELINE, CONFAB, EJABBERD, FLOOR, NODE

_COLOURS = {CONFAB: "#0b66c3", NODE: "#3f8f4f", EJABBERD: "#8f5bb5", BASELINE: "#d9772b", FLOOR: "#8a8f98"}
_INK, _FAINT = "#1f2328", "#d0d7de"
_WIDTH = 960
_LEFT, _RIGHT = 300, 90
_BAR, _GAP = 14, 14
_CHART_WIDTH, _CHART_HEIGHT = 270, 190


@dataclass(frozen=True, slots=True)
class Bars:
    """One operation in the upper part. size: the largest measured one, if the operation grows."""

    scenario: str
    title: str
    grows: bool = False


BARS = (
    Bars("private-http", "private message over HTTP"),
    Bars("private-ws", "private message over the WebSocket"),
    Bars("group-rest", "a delivery in a group", grows=True),
    Bars("sessions-rest", "first page of 50 sessions", grows=True),
    Bars("sync-rest", "sync after 3 changes", grows=True),
    Bars("history-rest", "page of 50 messages"),
    Bars("read-rest", "markRead of 500 messages"),
    Bars("opening", "opening a connection"),
)
CURVES = (
    ("group-rest", "CPU a delivery, all online", "members"),
    ("sessions-rest", "CPU a first page of sessions", "sessions of the user"),
    ("sync-rest", "CPU a sync after 3 changes", "sessions of the user"),
)


class Drawing:
    """Shapes in order."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def rectangle(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self._parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>')

    def text(self, x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, bold: bool = False) -> None:
        weight = ' font-weight="600"' if bold else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{_INK}"{weight}>'
            f"{escape(text)}</text>"
        )

    def line(self, points: Sequence[tuple[float, float]], colour: str, width: float = 1.0) -> None:
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width}"/>')

    def dot(self, x: float, y: float, colour: str) -> None:
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>')

    def svg(self, height: float) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" '
            'font-family="system-ui, sans-serif" role="img" aria-label="CPU of operations by contestant">'
        )
        return "\n".join([head, *self._parts, "</svg>"]) + "\n"


class Scale:
    """Maps positive values to positions on a logarithmic axis, with powers of ten at both ends unless `tight`."""

    def __init__(self, values: Sequence[float], start: float, end: float, *, tight: bool = False) -> None:
        self.low, self.high = math.log10(min(values)), math.log10(max(values))
        if not tight:
            self.low, self.high = math.floor(self.low), math.ceil(self.high)
        if self.low == self.high:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self._start + share * (self._end - self._start)

    def tens(self) -> list[float]:
        """Return the powers of ten on the axis."""
        return [10.0**power for power in range(math.ceil(self.low), math.floor(self.high) + 1)]


def draw(figures: Sequence[Figures]) -> str:
    """Return the whole picture."""
    drawing = Drawing()
    drawn = [one for one in figures if one.contestant in _COLOURS and one.cpu_all > 0]
    shown = [(bars, rows) for bars in BARS if (rows := _rows_of(bars, drawn))]
    drawing.rectangle(0, 0, _WIDTH, 10_000, "#ffffff")
    _legend(drawing)
    bottom = _draw_bars(drawing, shown, 60) if shown else 60
    curves = [(*curve, [one for one in drawn if one.scenario == curve[0]]) for curve in CURVES]
    curves = [curve for curve in curves if len({one.size for one in curve[-1]}) > 1]
    for place, (_, title, axis, rows) in enumerate(curves):
        _draw_curve(drawing, 60 + place * (_CHART_WIDTH + 40), bottom + 50, title, axis, rows)
    return drawing.svg(bottom + (_CHART_HEIGHT + 110 if curves else 20))


def _rows_of(bars: Bars, figures: Sequence[Figures]) -> list[Figures]:
    rows = [one for one in figures if one.scenario == bars.scenario]
    if bars.grows and rows:
        # The largest size measured for all servers.
        largest = min(
            max(one.size or 0 for one in rows if one.contestant == name) for name in {r.contestant for r in rows}
        )
        rows = [one for one in rows if one.size == largest]
    return sorted(rows, key=lambda one: list(_COLOURS).index(one.contestant))


def _legend(drawing: Drawing) -> None:
    drawing.text(20, 26, "CPU of server and databases, an operation", size=15, bold=True)
    for place, (name, colour) in enumerate(_COLOURS.items()):
        x = 450 + 100 * place
        drawing.rectangle(x, 15, 12, 12, colour)
        drawing.text(x + 18, 26, name)


def _draw_bars(drawing: Drawing, shown: Sequence[tuple[Bars, list[Figures]]], top: float) -> float:
    values = [_micros(one) for _, rows in shown for one in rows]
    scale, y = Scale(values, _LEFT, _WIDTH - _RIGHT), top
    heights = sum(len(rows) * _BAR + _GAP for _, rows in shown)
    for ten in scale.tens():
        drawing.line([(scale(ten), top - 8), (scale(ten), top + heights - _GAP + 4)], _FAINT)
        drawing.text(scale(ten), top + heights + 8, _time(ten), anchor="middle", size=11)
    for bars, rows in shown:
        size = f" of {rows[0].size:,}" if rows[0].scenario == "group-rest" else ""
        many = f", {rows[0].size:,} sessions" if bars.grows and not size else ""
        drawing.text(_LEFT - 12, y + len(rows) * _BAR / 2 + 4, bars.title + size + many, anchor="end")
        for one in rows:
            end = scale(_micros(one))
            drawing.rectangle(_LEFT, y, max(1.5, end - _LEFT), _BAR - 2, _COLOURS[one.contestant])
            drawing.text(end + 6, y + _BAR - 4, _time(_micros(one)), size=11)
            y += _BAR
        y += _GAP
    return y + 10


def _draw_curve(drawing: Drawing, x: float, y: float, title: str, axis: str, rows: Sequence[Figures]) -> None:
    bottom, right = y + _CHART_HEIGHT, x + _CHART_WIDTH - 30
    across = Scale([one.size or 1 for one in rows], x + 12, right - 12, tight=True)
    up = Scale([_micros(one) for one in rows], bottom, y)
    drawing.text(x, y - 14, title, bold=True)
    for ten in up.tens():
        drawing.line([(x, up(ten)), (right, up(ten))], _FAINT)
        drawing.text(x - 6, up(ten) + 4, _time(ten), anchor="end", size=11)
    for size in sorted({one.size or 1 for one in rows}):
        drawing.text(across(size), bottom + 16, f"{size:,}", anchor="middle", size=11)
    drawing.text((x + right) / 2, bottom + 34, axis, anchor="middle", size=11)
    for name, colour in _COLOURS.items():
        of_name = sorted((one.size or 1, _micros(one)) for one in rows if one.contestant == name)
        points = [(across(size), up(value)) for size, value in of_name]
        if points:
            drawing.line(points, colour, 2)
        for point in points:
            drawing.dot(*point, colour)


def _micros(figures: Figures) -> float:
    return 1e6 * figures.cpu_all / figures.per


def _time(micros: float) -> str:
    if micros >= 1e6:
        return f"{micros / 1e6:,.3g} s"
    return f"{micros / 1e3:,.3g} ms" if micros >= 1e3 else f"{micros:,.3g} µs"
