"""All settings of the process: read once from CONFAB_ variables, checked, then frozen."""

from server.settings.checks import check_fit_to_serve, find_foreign_token_warning
from server.settings.errors import SettingsError
from server.settings.fields import DEVELOPMENT_SECRET, SECRET_FIELDS, UNLIMITED, Settings
from server.settings.loading import load_settings
from server.settings.section import variable
from server.settings.validators import MIN_SECRET_BYTES, redact_url

__all__ = [
    "DEVELOPMENT_SECRET",
    "MIN_SECRET_BYTES",
    "SECRET_FIELDS",
    "UNLIMITED",
    "Settings",
    "SettingsError",
    "check_fit_to_serve",
    "find_foreign_token_warning",
    "load_settings",
    "redact_url",
    "variable",
]
