"""Errors of fetching. None of them reaches a client.

FetchFailed
├── AddressRefused   the address may not be fetched; nothing was sent to it
└── TooLarge         more bytes than allowed
"""

from __future__ import annotations


class FetchFailed(Exception):
    """There is no usable answer. The text may contain the name of a host, which users have sent; `reason` does not."""

    @property
    def reason(self) -> str:
        """The kind of failure, for logs."""
        return str(self).partition(":")[0]


class AddressRefused(FetchFailed):
    """The address may not be fetched. Nothing was sent to it, not even a request for a connection."""


class TooLarge(FetchFailed):
    """More bytes arrived than allowed."""
