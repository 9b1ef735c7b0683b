"""`confab config`: prints the effective settings, and where each comes from."""

from __future__ import annotations

import json
import os

from rich.console import Console

from server.settings import SECRET_FIELDS, Settings, redact_url, variable
from server.settings.checks import SECRET_FILES
from server.settings.reference import format_value, list_sections

_DEFAULT = "default"
_READ_INTO = {file: secret for file, secret, _ in SECRET_FILES}


def print_settings(settings: Settings, console: Console, *, as_json: bool) -> None:
    """Print variable, value and source of each setting, by section or as one JSON object."""
    if as_json:
        rows = {
            variable(field): {"value": _shown(settings, field), "source": _source(settings, field)}
            for _, _, fields in list_sections()
            for field in fields
        }
        console.print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    width = max(len(variable(field)) for field in Settings.model_fields)
    for title, _, fields in list_sections():
        console.print(title, style="bold")
        for field in fields:
            source = _source(settings, field)
            line = f"  {variable(field):{width}}  {_shown(settings, field) or '-'}  [{source}]"
            console.print(line, style="dim" if source == _DEFAULT else "")
        console.print()


def _shown(settings: Settings, field: str) -> str:
    value = getattr(settings, field)
    if field in SECRET_FIELDS:
        return "(set, not shown)" if value else ""
    read_into = _READ_INTO.get(field)
    if read_into and getattr(settings, read_into) and _source(settings, field) != _DEFAULT:
        return f"(read into {variable(read_into)})"
    text = format_value(value)
    if _source(settings, field) == _DEFAULT or "://" not in text or isinstance(value, tuple):
        return text
    # User names, passwords and options of an address may be secret.
    return redact_url(text) + ("?..." if "?" in text else "")


def _source(settings: Settings, field: str) -> str:
    if field not in settings.model_fields_set:
        return _DEFAULT
    given = {name.upper() for name, value in os.environ.items() if value}
    if variable(field) in given:
        return "environment"
    for file, secret in _READ_INTO.items():
        if field == secret and variable(file) in given:
            return variable(file)
    return "confab dev"
