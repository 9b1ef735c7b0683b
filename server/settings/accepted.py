"""Describes the values that a setting accepts."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic import ValidationError

from server.settings.fields import Settings

_REFUSED = "\n"
"""A value that every validator of Confab refuses."""


def describe_accepted_values(field: str) -> str:
    """Return which values a setting accepts, as the end of a sentence."""
    info = Settings.model_fields[field]
    # The type of an optional setting is the first one of a union with None.
    optional = type(None) in get_args(info.annotation)
    kind = get_args(info.annotation)[0] if optional else info.annotation
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    if kind is bool:
        return "true or false"
    if kind in (int, float):
        return f"a {'whole number' if kind is int else 'number'} {_range(info.metadata)}"
    return _ask_validator(field) or "a text that is not empty"


def _ask_validator(field: str) -> str | None:
    refused: dict[str, Any] = {field: _REFUSED}
    try:
        Settings(**refused)
    except ValidationError as error:
        for details in error.errors():
            reason = details.get("ctx", {}).get("error")
            # Messages of pydantic are written for programmers; those of Confab's validators say what is accepted.
            if details["loc"][:1] == (field,) and isinstance(reason, ValueError):
                return str(reason)
    return None


def _range(metadata: list[Any]) -> str:
    low: object = None
    high: object = None
    for bound in metadata:
        match bound:
            case annotated_types.Ge(ge=low):
                low = f"from {low}"
            case annotated_types.Gt(gt=low):
                low = f"above {low}"
            case annotated_types.Le(le=high):
                pass
    return f"{low} to {high}"
