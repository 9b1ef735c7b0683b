"""Comparison of JSON values that names what differs."""

from __future__ import annotations

from typing import Any


def differences(first: Any, second: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    """Return the differences of two JSON values by path."""
    if isinstance(first, dict) and isinstance(second, dict):
        parts = [differences(first.get(name), second.get(name), f"{path}/{name}") for name in {*first, *second}]
        return {path: pair for part in parts for path, pair in part.items()}
    return {} if first == second else {path: (first, second)}
