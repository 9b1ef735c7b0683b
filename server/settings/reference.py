"""The reference of all settings, in Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from server.settings.accepted import describe_accepted_values
from server.settings.fields import Settings
from server.settings.section import variable

_INTRODUCTION = """\
# Settings

All settings of a server. They come from environment variables, are checked before anything starts, and do not change
while a server runs. An unknown `CONFAB_` variable is an error. An empty variable counts as not set.

`confab config` prints the effective settings and where each comes from. How to use the important ones:
[operations](operations.md).

This file is generated from `server/settings/` by `make settings`.
"""

_FIELD = re.compile("`(" + "|".join(Settings.model_fields) + ")`")


def list_sections() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield title, explanation and fields of each section, in the order of the reference."""
    for section in Settings.__bases__:
        title, _, explanation = inspect.cleandoc(section.__doc__ or "").partition("\n")
        yield title.rstrip("."), explanation.strip(), tuple(section.__annotations__)


def format_reference() -> str:
    """Return the reference: a table for each section, with default, accepted values and meaning of each setting."""
    parts = [_INTRODUCTION]
    for title, explanation, fields in list_sections():
        parts.append(f"\n## {title}\n")
        if explanation:
            parts.append(f"\n{explanation}\n")
        parts.append("\n| variable | default | accepted | meaning |\n|---|---|---|---|\n")
        parts += [_row(field) for field in fields]
    return "".join(parts)


def _row(field: str) -> str:
    info = Settings.model_fields[field]
    meaning = _FIELD.sub(_variable_in_code, " ".join((info.description or "").split()))
    default = format_value(info.default)
    cells = (f"`{variable(field)}`", f"`{default}`" if default else "", describe_accepted_values(field), meaning)
    return f"| {' | '.join(cells)} |\n"


def _variable_in_code(field: re.Match[str]) -> str:
    return f"`{variable(field[1])}`"


def format_value(value: Any) -> str:
    """Return a value as it is written in the environment. Empty for None and for an empty list."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)
