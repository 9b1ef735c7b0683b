"""Every code this server closes a WebSocket with, what it says, and whether clients come back.

`retryable` is what clients of graphql-transport-ws make of the code: after a terminal one they give up for
good, so a terminal code is right only where the same client would be refused again.

| code | meaning                                                                    | clients |
|------|----------------------------------------------------------------------------|---------|
| 1012 | the server restarts; the reason says how many milliseconds to wait         | retry   |
| 1013 | too many connections or operations, a slow reader, or we are in trouble    | retry   |
| 4400 | a frame that is none of the protocol                                       | give up |
| 4401 | an operation before the acknowledgement                                    | give up |
| 4403 | the token was refused, or has expired                                      | retry   |
| 4406 | none of the offered subprotocols is ours                                   | give up |
| 4408 | no connection_init in time, or no sign of life                             | retry   |
| 4409 | the operation's id is in use                                               | give up |
| 4429 | a second connection_init                                                   | give up |
| 4500 | a defect of this server                                                    | give up |

What breaks the WebSocket protocol itself never comes this far: 1002, 1007 (no UTF-8), and 1009 (a message past the
limit) are the HTTP server's, and terminal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

REASON_BYTES = 123
"""What a close frame has room for beside its code (RFC 6455)."""


@dataclass(frozen=True, slots=True)
class Close:
    """How a connection ends. `reason` is at most REASON_BYTES long in UTF-8."""

    code: int
    reason: str
    retryable: bool

    def because(self, reason: str) -> Close:
        """The same code with another reason, cut to what fits."""
        return replace(self, reason=clip_reason(reason))


def clip_reason(reason: str) -> str:
    """`reason` cut to REASON_BYTES of UTF-8, never inside a character."""
    return reason.encode()[:REASON_BYTES].decode(errors="ignore")


SERVICE_RESTART = Close(1012, "Service restart", retryable=True)
TOO_SLOW = Close(1013, "Too slow", retryable=True)
TRY_AGAIN_LATER = Close(1013, "Try again later", retryable=True)
INVALID_MESSAGE = Close(4400, "Invalid message received", retryable=False)
UNAUTHORIZED = Close(4401, "Unauthorized", retryable=False)
FORBIDDEN = Close(4403, "Forbidden", retryable=True)
TOKEN_EXPIRED = Close(4403, "Token expired", retryable=True)
SUBPROTOCOL_NOT_ACCEPTABLE = Close(4406, "Subprotocol not acceptable", retryable=False)
INIT_TIMEOUT = Close(4408, "Connection initialisation timeout", retryable=True)
KEEP_ALIVE_TIMEOUT = Close(4408, "Keep-alive timeout", retryable=True)
SUBSCRIBER_EXISTS = Close(4409, "Subscriber already exists", retryable=False)
TOO_MANY_INITS = Close(4429, "Too many initialisation requests", retryable=False)
INTERNAL_ERROR = Close(4500, "Internal server error", retryable=False)
