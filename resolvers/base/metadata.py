"""Metadata: JSON values that clients store with messages, groups and users."""

from __future__ import annotations

import math

import orjson

from resolvers.base.errors import InvalidInput

MAX_BYTES = 8_192
MAX_DEPTH = 8
"""Arrays and objects inside one another. A scalar has depth 0."""

_SCALARS = frozenset({str, int, float, bool, type(None)})


def encode_metadata(value: object, field: str = "metadata") -> str | None:
    """Return a value as it is stored: JSON text, compact, with sorted keys, so that equal values have equal texts.

    It is stored as text, because MongoDB does not accept every text as the name of a field. None means no metadata.

    Raises:
        InvalidInput: The value has more than 8 KiB or 8 levels, or JSON in UTF-8 can't represent it.
    """
    if value is None:
        return None
    try:
        encoded = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        # Integers above 64 bits, lone surrogates, or more than 254 levels.
        _check_depth(value, field)
        raise InvalidInput(
            f"{field} must not contain lone surrogates, or integers of more than 64 bits; write these as strings",
            field=field,
        ) from None
    if len(encoded) > MAX_BYTES:
        raise InvalidInput(f"{field} must have at most {MAX_BYTES} bytes as JSON in UTF-8", field=field)
    _check_depth(value, field)
    return encoded.decode()


def _check_depth(value: object, field: str, depth: int = 0) -> None:
    """Raise InvalidInput for a value that is nested too deeply, or that is not JSON. Recurses at most 9 times."""
    if isinstance(value, list | dict):
        if depth == MAX_DEPTH:
            raise InvalidInput(f"{field} must have at most {MAX_DEPTH} levels of arrays and objects", field=field)
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, field, depth + 1)
    elif type(value) not in _SCALARS or (isinstance(value, float) and not math.isfinite(value)):
        raise InvalidInput(
            f"{field} must be JSON: strings, finite numbers, booleans, null, arrays, objects", field=field
        )
