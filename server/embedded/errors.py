"""What can keep the embedded servers from running: one sentence each, for the person at the terminal."""

from __future__ import annotations


class EmbeddedError(Exception):
    """An embedded server can't run. The message says what is wrong and what to do."""


class PortTaken(EmbeddedError):
    """Somebody else listens on the port."""
