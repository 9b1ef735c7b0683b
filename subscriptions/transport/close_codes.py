"""The codes with which this server closes a WebSocket, their reasons, and how clients react.

`retryable`: clients of graphql-transport-ws reconnect after the code. After a terminal code they never reconnect, so a
terminal code is right only if the same client would be refused again.

| code | meaning                                                                       | clients |
|------|-------------------------------------------------------------------------------|---------|
| 1012 | the server restarts; the reason says how many milliseconds to wait            | retry   |
| 1013 | too many connections or operations, a slow reader, or the server has problems | retry   |
| 4400 | the message does not belong to the protocol, or a part of it is malformed     | give up |
| 4401 | an operation before the acknowledgement, or the device was removed            | give up |
| 4403 | a token is needed, was refused, has expired, or may not act for users         | retry   |
| 4406 | the client offered no supported subprotocol                                   | give up |
| 4408 | no connection_init in time, or no sign of life                                | retry   |
| 4409 | the operation's id is in use                                                  | give up |
| 4429 | a second connection_init                                                      | give up |
| 4500 | a defect of this server                                                       | give up |

The HTTP server closes for violations of the WebSocket protocol itself: 1002, 1007 (not UTF-8), and 1009 (a message
above the size limit). These are terminal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

MAX_REASON_BYTES = 123
"""Size of the reason in a close frame (RFC 6455)."""


@dataclass(frozen=True, slots=True)
class Close:
    """A close code and its reason, which has at most MAX_REASON_BYTES in UTF-8."""

    code: int
    reason: str
    retryable: bool

    def because(self, reason: str) -> Close:
        """Return the same code with another reason, cut to the size that fits."""
        return replace(self, reason=clip_reason(reason))


class CloseRequired(Exception):
    """Raised to end the connection: the peer broke the protocol, or the connection is refused."""

    def __init__(self, close: Close) -> None:
        super().__init__(close)
        self.close = close


def clip_reason(reason: str) -> str:
    """Cut a reason to MAX_REASON_BYTES of UTF-8, never inside a character."""
    return reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore")


SERVICE_RESTART = Close(1012, "Service restart", retryable=True)
TOO_SLOW = Close(1013, "Too slow", retryable=True)
TRY_AGAIN_LATER = Close(1013, "Try again later", retryable=True)
INVALID_MESSAGE = Close(4400, "Invalid message received", retryable=False)
UNAUTHORIZED = Close(4401, "Unauthorized", retryable=False)
DEVICE_REMOVED = Close(4401, "This device was removed", retryable=False)
FORBIDDEN = Close(4403, "Forbidden", retryable=True)
TOKEN_EXPIRED = Close(4403, "Token expired", retryable=True)
SUBPROTOCOL_NOT_ACCEPTABLE = Close(4406, "Subprotocol not acceptable", retryable=False)
INIT_TIMEOUT = Close(4408, "Connection initialisation timeout", retryable=True)
KEEP_ALIVE_TIMEOUT = Close(4408, "Keep-alive timeout", retryable=True)
SUBSCRIBER_EXISTS = Close(4409, "Subscriber already exists", retryable=False)
TOO_MANY_INITS = Close(4429, "Too many initialisation requests", retryable=False)
INTERNAL_ERROR = Close(4500, "Internal server error", retryable=False)
