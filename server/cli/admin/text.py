"""Views as text: one value a line, with the names of values in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_INDENT = "  "
_WIDEST_ITEM = 160


def lines_of(view: dict[str, Any], depth: int = 0) -> Iterator[str]:
    """Yield the lines of a view."""
    for name, value in view.items():
        label = f"{_INDENT * depth}{name.replace('_', ' ')}:"
        if isinstance(value, dict) and value:
            yield label
            yield from lines_of(value, depth + 1)
        elif isinstance(value, list) and value:
            yield label
            yield from _item_lines(value, depth + 1)
        else:
            yield f"{label} {_text_of(value)}"


def _item_lines(items: list[Any], depth: int) -> Iterator[str]:
    for item in items:
        if not isinstance(item, dict):
            yield f"{_INDENT * depth}- {_text_of(item)}"
            continue
        line = ", ".join(f"{name.replace('_', ' ')} {_text_of(value)}" for name, value in item.items())
        if len(line) <= _WIDEST_ITEM and not any(isinstance(value, dict) and value for value in item.values()):
            yield f"{_INDENT * depth}- {line}"
        else:
            first, *others = lines_of(item, depth + 1)
            yield f"{_INDENT * depth}- {first.strip()}"
            yield from others


def _text_of(value: Any) -> str:
    match value:
        case None | [] | {}:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int():
            return str(value)
        case list():
            return "[" + ", ".join(map(_text_of, value)) + "]"
        case str():
            # A name may have control characters, which could change what the terminal shows.
            return "".join(letter if letter.isprintable() else "�" for letter in value)
        case _:
            return str(value)
