"""Charts as geometry: what a template draws as SVG. Sizes are in units of the drawing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

WIDTH: Final = 960.0
HEIGHT: Final = 200.0
GAP: Final = 0.15
"""Share of a bar's place that stays free."""
STEPS: Final = (1.0, 2.0, 5.0, 10.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Rect:
    """A part of a bar; `kind` says what it stands for."""

    kind: str
    x: float
    y: float
    width: float
    height: float


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A line; `paths` are its unbroken parts, as SVG's `points`."""

    kind: str
    paths: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Chart:
    """Rects or lines below `most`, the value at the upper edge."""

    most: float
    rects: tuple[Rect, ...] = ()
    lines: tuple[Line, ...] = ()
    width: float = WIDTH
    height: float = HEIGHT


def ceiling(value: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power > value:
        power /= 10
    while power * 10 <= value:
        power *= 10
    return next(step * power for step in STEPS if step * power >= value)


def bars(columns: Sequence[Mapping[str, float]], kinds: Sequence[str]) -> Chart:
    """Stacked bars, the first kind at the bottom."""
    most = ceiling(max((sum(column.values()) for column in columns), default=0.0))
    place = WIDTH / max(1, len(columns))
    rects = []
    for number, column in enumerate(columns):
        top = HEIGHT
        for kind in kinds:
            height = HEIGHT * column.get(kind, 0) / most
            if height <= 0:
                continue
            top -= height
            x = (number + GAP / 2) * place
            rects.append(Rect(kind, round(x, 2), round(top, 2), _width(place), round(height, 2)))
    return Chart(most, rects=tuple(rects))


def lines(series: Mapping[str, Sequence[float | None]]) -> Chart:
    """Lines over the same places; a missing value breaks a line."""
    values = [v for one in series.values() for v in one if v is not None]
    most = ceiling(max(values, default=0.0))
    return Chart(most, lines=tuple(Line(k, _paths(v, most)) for k, v in series.items()))


def _width(place: float) -> float:
    return round(place * (1 - GAP), 2)


def _paths(values: Sequence[float | None], most: float) -> tuple[str, ...]:
    place = WIDTH / max(1, len(values))
    parts: list[list[str]] = [[]]
    for number, value in enumerate(values):
        if value is None:
            parts.append([])
            continue
        x, y = (number + 0.5) * place, HEIGHT * (1 - value / most)
        parts[-1].append(f"{x:.1f},{y:.1f}")
        if len(parts[-1]) == 1:  # one point alone is drawn as a dash of a bar's width
            parts[-1].append(f"{x + place * (1 - GAP) / 2:.1f},{y:.1f}")
    return tuple(" ".join(part) for part in parts if part)
