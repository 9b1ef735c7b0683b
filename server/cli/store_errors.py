"""Errors of the store as errors of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from server.errors import CommandError, database_error
from store.base.errors import StoreError
from store.mongo.migrations import NewerData


@contextmanager
def store_errors_as_command_errors() -> Iterator[None]:
    """Raise CommandError in place of NewerData and of each StoreError within the block."""
    try:
        yield
    except NewerData as newer:
        raise CommandError(str(newer)) from newer
    except StoreError as error:
        raise database_error(error) from error
