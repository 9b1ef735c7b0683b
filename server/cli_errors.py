"""Why a command can't be carried out."""

from __future__ import annotations


class CommandError(Exception):
    """The message is one sentence for the person at the terminal: what is wrong, and what to do."""
