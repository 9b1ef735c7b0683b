"""Reads docker-compose.yml like `docker compose`, with variables of the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "Dockerfile"

SERVERS = ("server-1", "server-2")

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Z0-9_]+)(?:(?P<empty>:?)-(?P<otherwise>[^}]*))?\}")


def interpolated(environment: Mapping[str, str]) -> str:
    """Return the text with `${NAME}`, `${NAME-default}` and `${NAME:-default}` replaced."""

    def value(match: re.Match[str]) -> str:
        found = environment.get(match["name"])
        if found is None or (match["empty"] and not found):
            return match["otherwise"] or ""
        return found

    return _VARIABLE.sub(value, COMPOSE_FILE.read_text())


def compose_file(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the parsed file. Without `environment`, no variable is set."""
    parsed: dict[str, Any] = yaml.safe_load(interpolated(environment or {}))
    return parsed
