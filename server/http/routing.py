"""Matching of paths."""

from __future__ import annotations

import re

from starlette.routing import Route, WebSocketRoute


def match_whole_path(route: Route | WebSocketRoute) -> None:
    """Let a route match whole paths only. Starlette's `$` also matches before a line feed at the end (`%0a`)."""
    route.path_regex = re.compile(route.path_regex.pattern.removesuffix("$") + r"\Z")
