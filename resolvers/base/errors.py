"""The tree of failures a caller can be told. Each leaf is one code of the contract's ErrorCode.

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
└── Unavailable              UNAVAILABLE             retryable

Whatever else is raised is a defect: INTERNAL to the caller, the details in the log only.
"""

from __future__ import annotations

from typing import ClassVar

A_MOMENT_MS = 1_000
"""When to try again what only the client's own doing makes possible, such as ending one of its streams."""


class ConfabError(Exception):
    """A failure with a code of the contract. `field` names the one input at fault, if there is one; `retry_after_ms` says in how
    many milliseconds another try may do, where that is known."""

    code: ClassVar[str]
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, field: str | None = None, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after_ms = retry_after_ms


class Unauthenticated(ConfabError):
    code = "UNAUTHENTICATED"


class Forbidden(ConfabError):
    code = "FORBIDDEN"


class NotFound(ConfabError):
    code = "NOT_FOUND"


class NotAMember(ConfabError):
    code = "NOT_A_MEMBER"


class InvalidInput(ConfabError):
    code = "INVALID_INPUT"


class RateLimited(ConfabError):
    code = "RATE_LIMITED"
    retryable = True


class QueryTooComplex(ConfabError):
    code = "QUERY_TOO_COMPLEX"


class IdempotencyConflict(ConfabError):
    code = "IDEMPOTENCY_CONFLICT"


class RecallTimeout(ConfabError):
    code = "RECALL_TIMEOUT"


class GroupTooSmall(ConfabError):
    code = "GROUP_TOO_SMALL"


class GroupFull(ConfabError):
    code = "GROUP_FULL"


class OwnerCannotLeave(ConfabError):
    code = "OWNER_CANNOT_LEAVE"


class PrivateCannotDelete(ConfabError):
    code = "PRIVATE_CANNOT_DELETE"


class Unavailable(ConfabError):
    code = "UNAVAILABLE"
    retryable = True
