"""Errors of the command line."""

from __future__ import annotations

from store.base.errors import StoreError, Unreachable

_DATABASES = {"mongodb": "MongoDB at CONFAB_MONGO_URL", "redis": "Redis at CONFAB_REDIS_URL"}


class CommandError(Exception):
    """Raised when a command fails. The message says in one sentence what is wrong and what to do."""


def database_error(error: StoreError) -> CommandError:
    """Return the error for a failed call to a database. It names the setting that holds the address.

    The reason has the host and the port at most: the address in the setting may have a password.
    """
    database = error.database if isinstance(error, Unreachable) else None
    name = _DATABASES[database] if database is not None else " or ".join(_DATABASES.values())
    return CommandError(f"{name} failed: {str(error).rstrip('.')}.")
