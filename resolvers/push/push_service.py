"""The interface of services that carry pushes to devices: Web Push, APNs, FCM."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from store.base.ids import ConversationId
from store.devices.device import PushAddress


class PushOutcome(StrEnum):
    """Outcome of a push."""

    ACCEPTED = "ACCEPTED"
    """The service has it. Whether the device gets it is not known."""
    GONE = "GONE"
    """The address is not valid any more. It is forgotten, and nothing is sent to it again."""
    REFUSED = "REFUSED"
    """The service refused this push, or the credentials. Sending it again would have the same result."""
    UNREACHABLE = "UNREACHABLE"
    """No answer, or the service is overloaded. It may be sent again."""
    NOT_CONFIGURED = "NOT_CONFIGURED"
    """This deployment has no credentials for the service, or the device has no push address."""


@dataclass(frozen=True, slots=True)
class PushMessage:
    """A push to one device.

    Attributes:
        conversation: What it is about.
        tag: Identifies the conversation: a push replaces an earlier one with the same tag. At most 32 characters of
            base64url, so that it can be the collapse key of every service.
        badge: Number on the icon of the app.
        title: First line of the notification.
        body: Its text.
        is_quiet: Nothing is shown: the device removes the notification with this tag, and sets the badge. `title` and
            `body` are empty.
    """

    conversation: ConversationId | None
    tag: str
    badge: int
    title: str = ""
    body: str = ""
    is_quiet: bool = False


@dataclass(frozen=True, slots=True)
class PushResult:
    """Outcome of one push.

    Attributes:
        outcome: What became of it.
        reason: For people: what the service said. None if it was accepted.
        retry_after_seconds: Time for which the service asked not to be sent anything, at most an hour; None: it did not
            ask. For Web Push it is about this address only: users name these services, and may name hostile ones.
    """

    outcome: PushOutcome
    reason: str | None = None
    retry_after_seconds: float | None = None


class PushService(Protocol):
    """One service. Implementations bound the number of requests at the same time, and the time of each."""

    async def send(self, address: PushAddress, message: PushMessage) -> PushResult:
        """Send a push once. Raises nothing: failures are outcomes."""
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...
