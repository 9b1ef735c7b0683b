"""Reads the settings from the environment, and explains in sentences what is wrong with them."""

from __future__ import annotations

import difflib
import os
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from server.settings.accepted import describe_accepted_values
from server.settings.checks import find_contradictions, read_secret_files
from server.settings.errors import SettingsError
from server.settings.fields import RENAMED, SECRET_FIELDS, Settings
from server.settings.section import ENV_PREFIX, variable
from server.settings.validators import redact_url


def load_settings(**overrides: Any) -> Settings:
    """Return the settings of the environment; `overrides` take precedence. Raises SettingsError with all problems.

    A CONFAB_ variable that is not a setting is refused too: a misspelt variable would have no effect.
    """
    problems = _find_unknown_variables()
    try:
        settings = Settings(**overrides)
    except ValidationError as error:
        problems += [_describe(details) for details in error.errors()]
    else:
        problems += find_contradictions(settings)
        if not problems:
            settings, problems = read_secret_files(settings)
        if not problems:
            return settings
    raise SettingsError(problems)


def _find_unknown_variables() -> list[str]:
    known = {variable(field) for field in Settings.model_fields}
    renamed = {variable(old): variable(new) for old, new in RENAMED.items()}
    problems = []
    for name in sorted(os.environ):
        upper = name.upper()
        # CONFAB_TEST_… variables configure the test suite.
        if not upper.startswith(ENV_PREFIX) or upper.startswith("CONFAB_TEST_") or upper in known:
            continue
        if upper in renamed:
            problems.append(f"{name} was renamed: set {renamed[upper]} instead.")
            continue
        close = difflib.get_close_matches(upper, known, 1)
        hint = f": did you mean {close[0]}?" if close else "."
        problems.append(f"{name} is not a setting of Confab{hint}")
    return problems


def _describe(details: ErrorDetails) -> str:
    field = str(details["loc"][0]) if details["loc"] else ""
    if field in RENAMED:
        return f"{field} was renamed: set {RENAMED[field]} instead."
    if field not in Settings.model_fields:
        return f"{field or 'A value'} is not a setting of Confab."
    name = variable(field)
    # Validators of Confab say which values are accepted. Messages of pydantic are written for programmers.
    reason = details.get("ctx", {}).get("error")
    accepted = str(reason) if isinstance(reason, ValueError) else describe_accepted_values(field)
    if field in SECRET_FIELDS:
        return f"{name} should be {accepted}."
    return f"{name} is {redact_url(str(details['input']))!r}, but should be {accepted}."
