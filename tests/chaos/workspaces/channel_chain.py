"""The events of one channel that a device receives, compared with what the contract promises.

A chain begins when the device looks at the channel for the first time, or after `reset: true`, and goes on over any
number of connections, each resumed from the rev of the last event. In it:

- Revs grow. So no event comes twice, and missed events come before live ones.
- A message is created once, and never comes in an older form than before.
- Every acknowledged message that was sent after the chain began comes, as long as its user can see the channel.
"""

from __future__ import annotations

import time

from tests.chaos.judges.history import Json
from tests.chaos.load.view import Text, text_of
from tests.chaos.tally import RunTally


class ChannelChain:
    """The events of one channel on one device."""

    def __init__(self, device: str, channel: str, tally: RunTally) -> None:
        self.channel = channel
        self.rev: int | None = None
        """The position from which the device resumes; None: from now on."""
        self.began = float("inf")
        """Seconds since the epoch. Each message whose sending began later has to arrive."""
        self.caught_up = False
        self.texts: dict[int, Text] = {}
        self.created: set[str] = set()
        self._device = device
        self._tally = tally

    def begin(self, rev: int) -> None:
        """Begin with the rev of a snapshot that was taken just now."""
        self.rev, self.began = rev, time.time()

    def take_message(self, event: Json) -> None:
        """Check the creation, an edit or the recall of a message."""
        self._advance(event)
        message = event["message"]
        text, before = text_of(message), self.texts.get(message["seq"])
        if event["change"] == "CREATED":
            if message["id"] in self.created:
                self._wrong(f"created twice: {event}")
            self.created.add(message["id"])
        if before is not None and text.age < before.age:
            self._wrong(f"an older form after {before}: {event}")
        if (message["content"] is None) != (message["state"] == "RECALLED"):
            self._wrong(f"content and state do not fit: {event}")
        self.texts[message["seq"]] = text

    def take_caught_up(self, event: Json) -> bool:
        """Take the end of the missed events. Returns whether the chain starts over."""
        begins = event["reset"] or self.rev is None
        if begins:
            self.began = time.time()
            self.texts.clear()
            self.created.clear()
        elif event["rev"] < (self.rev or 0):
            self._wrong(f"caught up at {event['rev']}, after {self.rev}")
        self.rev, self.caught_up = event["rev"], True
        return bool(begins)

    def _advance(self, event: Json) -> None:
        if self.rev is not None and event["rev"] <= self.rev:
            self._wrong(f"{event['rev']} after {self.rev}: {event}")
        self.rev = event["rev"]

    def _wrong(self, sentence: str) -> None:
        self._tally.problem(f"{self._device}, {self.channel}: {sentence}")
