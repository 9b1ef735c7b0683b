"""The base of the sections of settings."""

from __future__ import annotations

from pydantic_settings import BaseSettings, SettingsConfigDict

ENV_PREFIX = "CONFAB_"


class Section(BaseSettings):
    """A part of the settings. Its docstring is its title in the reference, and those of its fields their meanings."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        frozen=True,
        extra="forbid",
        env_ignore_empty=True,
        validate_default=False,
        use_attribute_docstrings=True,
    )


def variable(field: str) -> str:
    """Return the environment variable that sets a field."""
    return ENV_PREFIX + field.upper()
