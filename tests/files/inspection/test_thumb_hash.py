"""ThumbHashes equal those of the reference implementation (evanw/thumbhash, js/thumbhash.js)."""

from __future__ import annotations

import base64

import pytest

from resolvers.files.inspection.decoding import thumb_hash

REFERENCE = [
    (100, 75, "opaque", "HwgGDYJ3h1dnVwh1dmV4du1flpsg"),
    (75, 100, "opaque", "HwgGBQJlRIanYWNwdXZ3Zrv+S2h/"),
    (100, 100, "opaque", "H/gBDwBVVYBYWiszFENIWGd1pvuZZl8C"),
    (1, 1, "opaque", "wwYKVwAI9wiIh4hwj3CI+AiIcH/4AAAA"),
    (100, 1, "opaque", "VhoukYR3d4eIiAiId4iAhAg="),
    (3, 100, "opaque", "2+gJOQ6DkAeIinNnj0pyOAc="),
    (64, 48, "holes", "HwiGDIIMhQFEBIRVho+m80WDj3+A8PcHDw=="),
    (48, 64, "ramp", "H/iBDAQ3qEMMmXV3l0vPqfIJd3eHeIh4Bw=="),
    (20, 20, "clear", "AAiCBQAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="),
    (33, 32, "ramp", "oTiCDYQ3JU8aP5NHSDYPWcRgcHeIiIiIdw=="),
]
"""Width, height, kind of transparency, and the hash that the reference made."""


def _pixels(width: int, height: int, kind: str) -> bytes:
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            alpha = {"opaque": 255, "holes": 255 if (x + y) % 5 else 0, "clear": 0, "ramp": x * 255 // width}[kind]
            pixels += bytes(((x * 7 + y * 3) % 256, (x * x + y * 11) % 256, (x * y + 40) % 256, alpha))
    return bytes(pixels)


def _nibbles(encoded: bytes) -> list[int]:
    return [half for byte in encoded for half in (byte & 15, byte >> 4)]


@pytest.mark.parametrize(("width", "height", "kind", "expected"), REFERENCE)
def test_hash_equals_that_of_the_reference(width: int, height: int, kind: str, expected: str) -> None:
    encoded, reference = thumb_hash.encode(width, height, _pixels(width, height, kind)), base64.b64decode(expected)
    if kind == "opaque":
        assert encoded == reference
        return
    assert encoded[:6] == reference[:6]
    # Some waves of regular patterns are half-way between two steps, where the order of the additions decides.
    differences = [abs(one - other) for one, other in zip(_nibbles(encoded), _nibbles(reference), strict=True)]
    assert max(differences) <= 1
