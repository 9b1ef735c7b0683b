"""A push service of the tests: it records what it is sent, and answers what a test wants."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from resolvers.push.push_service import PushMessage, PushOutcome, PushResult
from store.devices.device import PushAddress

ACCEPTED = PushResult(PushOutcome.ACCEPTED)
GONE = PushResult(PushOutcome.GONE, "the address is not valid any more")
REFUSED = PushResult(PushOutcome.REFUSED, "bad payload")
UNREACHABLE = PushResult(PushOutcome.UNREACHABLE, "no answer")


@dataclass(frozen=True)
class Push:
    """A push that the service got."""

    token: str
    message: PushMessage

    @property
    def text(self) -> tuple[str, str]:
        return self.message.title, self.message.body


class RecordingService:
    """Stands for APNs, FCM or Web Push. The processes of a test share it."""

    def __init__(self) -> None:
        self.pushes: list[Push] = []
        self.answers: deque[PushResult] = deque()
        """The next answers; then ACCEPTED."""
        self.usual = ACCEPTED
        self.gate = asyncio.Event()
        """While it is cleared, nothing is answered."""
        self.gate.set()
        self.at_once = self.most_at_once = 0

    async def send(self, address: PushAddress, message: PushMessage) -> PushResult:
        self.pushes.append(Push(address.token, message))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.gate.wait()
        finally:
            self.at_once -= 1
        return self.answers.popleft() if self.answers else self.usual

    async def close(self) -> None:
        return

    def to(self, user: str) -> list[Push]:
        """Return the pushes to the devices of a user."""
        return [push for push in self.pushes if push.token.startswith(f"{user}:")]

    def shown_to(self, user: str) -> list[Push]:
        return [push for push in self.to(user) if not push.message.is_quiet]

    def quiet_to(self, user: str) -> list[Push]:
        return [push for push in self.to(user) if push.message.is_quiet]

    def texts(self, user: str) -> list[tuple[str, str]]:
        """Return title and body of the notifications that a user got."""
        return [push.text for push in self.shown_to(user)]
