"""ThumbHash: a preview of an image in about 25 bytes (evanw/thumbhash)."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, floor, pi
from operator import mul
from typing import NamedTuple

MAX_SIDE = 100
"""Longest side of an image that has a hash."""


class _Channel(NamedTuple):
    average: float
    waves: Sequence[float]
    """Amplitudes of the cosine waves, from 0 to 1."""
    scale: float


def encode(width: int, height: int, rgba: bytes) -> bytes:
    """Return the ThumbHash of an image of at most 100 x 100 pixels, four bytes each, not premultiplied."""
    pixels = width * height
    alphas = [value / 255 for value in rgba[3::4]]
    total = sum(alphas)
    planes = [[value / 255 for value in rgba[channel::4]] for channel in range(3)]
    averages = [sum(map(mul, plane, alphas)) / total if total else 0.0 for plane in planes]
    has_alpha = total < pixels
    if has_alpha:
        planes = [
            [average * (1 - alpha) + alpha * value for value, alpha in zip(plane, alphas, strict=True)]
            for plane, average in zip(planes, averages, strict=True)
        ]
    red, green, blue = planes
    longest = max(width, height)
    luminance_limit = 5 if has_alpha else 7
    columns = max(1, _round(luminance_limit * width / longest))
    rows = max(1, _round(luminance_limit * height / longest))

    luminance = _encode_channel(
        [(r + g + b) / 3 for r, g, b in zip(red, green, blue, strict=True)],
        width,
        height,
        max(3, columns),
        max(3, rows),
    )
    yellow_blue = _encode_channel(
        [(r + g) / 2 - b for r, g, b in zip(red, green, blue, strict=True)], width, height, 3, 3
    )
    red_green = _encode_channel([r - g for r, g in zip(red, green, strict=True)], width, height, 3, 3)
    channels = [luminance, yellow_blue, red_green]

    is_landscape = width > height
    header = (
        _round(63 * luminance.average)
        | _round(31.5 + 31.5 * yellow_blue.average) << 6
        | _round(31.5 + 31.5 * red_green.average) << 12
        | _round(31 * luminance.scale) << 18
        | has_alpha << 23
        | (rows if is_landscape else columns) << 24
        | _round(63 * yellow_blue.scale) << 27
        | _round(63 * red_green.scale) << 33
        | is_landscape << 39
    )
    encoded = bytearray(header.to_bytes(5, "little"))
    if has_alpha:
        alpha = _encode_channel(alphas, width, height, 5, 5)
        channels.append(alpha)
        encoded.append(_round(15 * alpha.average) | _round(15 * alpha.scale) << 4)
    nibbles = [_round(15 * wave) for channel in channels for wave in channel.waves]
    nibbles += [0] * (len(nibbles) % 2)
    encoded += bytes(low | high << 4 for low, high in zip(nibbles[::2], nibbles[1::2], strict=True))
    return bytes(encoded)


def _encode_channel(values: Sequence[float], width: int, height: int, columns: int, rows: int) -> _Channel:
    """Return the discrete cosine transform of a channel: first along its rows, then along its columns."""
    horizontal = [[cos(pi / width * wave * (x + 0.5)) for x in range(width)] for wave in range(columns)]
    vertical = [[cos(pi / height * wave * (y + 0.5)) for y in range(height)] for wave in range(rows)]
    lines = [values[start : start + width] for start in range(0, width * height, width)]
    sums = [[sum(map(mul, line, wave)) for line in lines] for wave in horizontal]
    amplitudes = [
        sum(map(mul, sums[column], vertical[row])) / (width * height)
        for row in range(rows)
        for column in range(columns)
        if column * rows < columns * (rows - row)
    ]
    average, *waves = amplitudes
    scale = max(map(abs, waves), default=0.0)
    return _Channel(average, [0.5 + 0.5 / scale * wave for wave in waves] if scale else waves, scale)


def _round(value: float) -> int:
    """Round as JavaScript does: halves go up."""
    return floor(value + 0.5)
