"""The schema as text: committed as `schema.graphql`, from which frontends generate their types."""

from __future__ import annotations

import textwrap

from schema.root import SCHEMA

_LINE_LENGTH = 120


def print_sdl() -> str:
    """Return the whole schema in SDL: descriptions, unions and arguments are wrapped to lines of 120 characters."""
    lines: list[str] = []
    in_description = False
    for line in SCHEMA.as_str().splitlines():
        quotes = line.count('"""')
        if in_description and not quotes:
            lines += _wrap(line)
        elif line.startswith("union ") and len(line) > _LINE_LENGTH:
            lines += _wrap_union(line)
        elif line.startswith("  ") and "(" in line and len(line) > _LINE_LENGTH:
            lines += _wrap_arguments(line)
        else:
            lines.append(line)
        in_description ^= quotes == 1
    return "\n".join(lines) + "\n"


def _wrap(line: str) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    wrapped = textwrap.wrap(
        line, _LINE_LENGTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapped or [line]


def _wrap_union(line: str) -> list[str]:
    head, _, members = line.partition(" = ")
    return [f"{head} =", *(f"  | {member}" for member in members.split(" | "))]


def _wrap_arguments(line: str) -> list[str]:
    head, _, rest = line.partition("(")
    arguments, _, result = rest.rpartition(")")
    return [f"{head}(", *_wrap(f"    {arguments}"), f"  ){result}"]
