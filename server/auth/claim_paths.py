"""Finds claims of a token by name or path."""

from __future__ import annotations

from typing import Any


def find_claim(claims: dict[str, Any], path: str) -> Any:
    """Return the value of a claim, or None.

    `path` is the name of a claim, or the names of nested claims separated by dots. Names may contain dots themselves:
    at each level the longest existing name is taken. For example, `https://example.org/roles` is one claim, and
    `realm_access.roles` is the claim `roles` inside `realm_access` unless a claim has the whole text as its name.
    """
    value: Any = claims
    while path:
        if not isinstance(value, dict):
            return None
        name = path
        while name not in value:
            name, dot, _ = name.rpartition(".")
            if not dot:
                return None
        value = value[name]
        path = path[len(name) + 1 :]
    return value
