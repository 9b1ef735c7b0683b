"""Errors of the command line."""

from __future__ import annotations

from store.base.errors import StoreError, Unreachable

_DATABASES = {"mongodb": "MongoDB at CONFAB_MONGO_URL", "redis": "Redis at CONFAB_REDIS_URL"}


class CommandError(Exception):
    """Raised when a command fails. The message says in one sentence what is wrong and what to do."""


def database_error(error: StoreError) -> CommandError:
    """Return the error for a failed call. If a database failed, it names the setting with the address.

    The address itself is not in it: it may have a password.
    """
    reason = f"{str(error).rstrip('.')}."
    database = error.database if isinstance(error, Unreachable) else None
    return CommandError(reason if database is None else f"{_DATABASES[database]} failed: {reason}")
