"""Limits of connections from clients: time, rate, and file descriptors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from server.http.descriptor_guard import DescriptorGuard
from subscriptions.realtime.unsent_answers import UnsentAnswers

CLIENT_LIMITS_STATE = "confab.client_limits"
"""Key of the application's ClientLimits in the lifespan state, where the HTTP server finds them."""

USER_KEY = "confab.user"
"""Key of the request's user in the ASGI scope, whose unsent answers are counted."""

RATE_WINDOW_SECONDS = 10.0
"""Time over which the rate of a client is measured."""


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Limits of each HTTP connection."""

    head_seconds: float = 10.0
    """Time limit for the head of a request; of the first request, from the opening of the connection."""
    body_seconds: float = 30.0
    """Time limit for the body of a request, after its head."""
    answer_seconds: float = 120.0
    """Time limit for the client to accept the bytes that wait for it."""
    min_bytes_per_second: int = 1024
    """Minimum rate of a client that sends a body or reads an answer, over RATE_WINDOW_SECONDS."""
    close_seconds: float = 10.0
    """Time limit for the client to accept the last bytes before the connection is closed."""
    window_seconds: float = RATE_WINDOW_SECONDS
    unsent: UnsentAnswers = field(default_factory=UnsentAnswers)
    descriptors: DescriptorGuard = field(default_factory=DescriptorGuard.unlimited)
    dropped: Counter[str] = field(default_factory=Counter)
    """Connections that were dropped because they were too slow, by part: head, body or answer."""

    def count_dropped(self) -> Mapping[str, int]:
        """Return the number of connections that were dropped so far, by reason."""
        others = {"unread_answers": self.unsent.dropped, "descriptors": self.descriptors.dropped_or_refused}
        return {"head": 0, "body": 0, "answer": 0, **self.dropped, **others}

    @property
    def min_bytes_per_window(self) -> float:
        """Minimum number of bytes in each window."""
        return self.min_bytes_per_second * self.window_seconds
