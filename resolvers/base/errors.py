"""Errors that callers receive. Each leaf of the tree is one code of the contract's ErrorCode.

ConfabError
├── Unauthenticated          UNAUTHENTICATED
├── Forbidden                FORBIDDEN
├── NotFound                 NOT_FOUND
├── NotAMember               NOT_A_MEMBER
├── InvalidInput             INVALID_INPUT
├── RateLimited              RATE_LIMITED            retryable
├── QueryTooComplex          QUERY_TOO_COMPLEX
├── IdempotencyConflict      IDEMPOTENCY_CONFLICT
├── RecallTimeout            RECALL_TIMEOUT
├── GroupTooSmall            GROUP_TOO_SMALL
├── GroupFull                GROUP_FULL
├── OwnerCannotLeave         OWNER_CANNOT_LEAVE
├── PrivateCannotDelete      PRIVATE_CANNOT_DELETE
├── SlowModeActive           SLOW_MODE               retryable
├── Blocked                  BLOCKED
├── Banned                   BANNED
├── Rejected                 REJECTED
├── Archived                 ARCHIVED
├── LimitReached             LIMIT_REACHED
├── FileTooLarge             TOO_LARGE
└── Unavailable              UNAVAILABLE             retryable

Any other exception is a defect: the caller receives INTERNAL, the details are in the log only.
"""

from __future__ import annotations

from typing import ClassVar

A_MOMENT_MS = 1_000
"""Retry time for a request that the client must prepare first, for example by ending one of its streams."""


class ConfabError(Exception):
    """An error with a code of the contract.

    `field`: the invalid input, if there is exactly one. `retry_after_ms`: time after which the request may succeed, if
    it is known.
    """

    code: ClassVar[str]
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, field: str | None = None, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after_ms = retry_after_ms


class Unauthenticated(ConfabError):
    """Raised without a valid token."""

    code = "UNAUTHENTICATED"


class Forbidden(ConfabError):
    """Raised when the caller's rights do not allow the request."""

    code = "FORBIDDEN"


class NotFound(ConfabError):
    """Raised for an object that does not exist, or that the caller may not see."""

    code = "NOT_FOUND"


class NotAMember(ConfabError):
    """Raised when a user is no longer in a conversation."""

    code = "NOT_A_MEMBER"


class InvalidInput(ConfabError):
    """Raised for input that is wrong by itself."""

    code = "INVALID_INPUT"


class RateLimited(ConfabError):
    """Raised when a user does something too often."""

    code = "RATE_LIMITED"
    retryable = True


class QueryTooComplex(ConfabError):
    """Raised for an operation that would cost too much."""

    code = "QUERY_TOO_COMPLEX"


class IdempotencyConflict(ConfabError):
    """Raised when an idempotency key was used with another input."""

    code = "IDEMPOTENCY_CONFLICT"


class RecallTimeout(ConfabError):
    """Raised when it is too late to recall a message."""

    code = "RECALL_TIMEOUT"


class GroupTooSmall(ConfabError):
    """Raised for a new group with too few members."""

    code = "GROUP_TOO_SMALL"


class GroupFull(ConfabError):
    """Raised when a group would have too many members."""

    code = "GROUP_FULL"


class OwnerCannotLeave(ConfabError):
    """Raised when the owner of a group leaves it."""

    code = "OWNER_CANNOT_LEAVE"


class PrivateCannotDelete(ConfabError):
    """Raised for an attempt to delete a private conversation."""

    code = "PRIVATE_CANNOT_DELETE"


class SlowModeActive(ConfabError):
    """Raised if a member writes in a channel with slow mode before the wait is over."""

    code = "SLOW_MODE"
    retryable = True


class Blocked(ConfabError):
    """Raised when a user writes privately to somebody who blocked them."""

    code = "BLOCKED"


class Banned(ConfabError):
    """Raised when a user is banned from a workspace, or from the whole deployment."""

    code = "BANNED"


class Rejected(ConfabError):
    """Raised for a message that a content rule does not allow."""

    code = "REJECTED"
    times_out_sender = False
    """True: the sender has to get a time-out."""


class Archived(ConfabError):
    """Raised for a change of what is in an archived channel."""

    code = "ARCHIVED"


class LimitReached(ConfabError):
    """Raised when there would be too many of something."""

    code = "LIMIT_REACHED"


class FileTooLarge(ConfabError):
    """Raised for a file that is larger than allowed."""

    code = "TOO_LARGE"


class Unavailable(ConfabError):
    """Raised when the server can't answer at the moment."""

    code = "UNAVAILABLE"
    retryable = True
