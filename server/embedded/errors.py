"""Errors of embedded servers. Each message is one sentence for the user at the terminal."""

from __future__ import annotations


class EmbeddedError(Exception):
    """Raised when an embedded server cannot run. The message says what is wrong and what to do."""


class PortTaken(EmbeddedError):
    """Raised when another program listens on the port."""
