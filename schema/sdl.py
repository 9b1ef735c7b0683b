"""The schema as text: what is committed as `schema.graphql` and what frontends generate their types from."""

from __future__ import annotations

from schema.root import SCHEMA


def print_sdl() -> str:
    """The whole schema in SDL, with descriptions."""
    return SCHEMA.as_str() + "\n"
