"""What a device is told by messageEvents, held against what the contract promises of it.

A chain is what a device hears from one moment at which it began anew (its first CaughtUp, or one with `reset: true`) to the
next, over any number of connections and servers, each resumed from the cursor of the last event that it applied. Within it:

- A message's creation is told once. Across a reset it may be told again, since what was told before doesn't count any more.
  One exception: where messages were logged out of order, a cursor from the middle of a replay names the events that were told
  ahead of it, up to MOST_AHEAD (subscriptions/realtime/replay.py); past those, resuming from there repeats some. So what is told again
  after a replay of more events than that broke off is counted, not refused.
- What is replayed comes before CaughtUp, the creations of one conversation in order of seq. What is live comes in order of the
  user's clock, which two servers that write at once may make another one.
- A message is never told as it was before something told earlier: edits count up, and nothing holds its content after a recall.
  Where the message came to be within the chain, its creation comes before its revisions.
- Receipts are high-water marks: one that is told again, or after a further one, changes nothing, and is counted.
- Keys of idempotency and ticks are shown to the sender alone. Typing is not replayed, and not told to who types.
- Every message that was sent after the chain began, and acknowledged, is told in it to each member (`missing`). One sent within
  RESET_SECONDS of a reset (`truth`) that isn't is counted, and no problem yet: that gap is still to be closed.

The loss of a user's state, in Redis, whole or in part, ends in a reset; a chain that goes on across one has to keep all of this.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from subscriptions.realtime.replay import MOST_AHEAD
from tests.chaos.history import Json
from tests.chaos.wire import Tally

_MARGIN_SECONDS = 2.0
"""A message that was created sooner after the chain began may have been known before it."""


class Chain:
    """One device's."""

    def __init__(self, name: str, user: str, tally: Tally, skew: float = 0.0) -> None:
        """skew: by how many seconds servers' clocks differ."""
        self._skew = skew
        self.began = float("inf")
        """When, in seconds since the epoch. A message whose sending began later has to be told."""
        self.caught_up = False
        self.name = name
        self._user = user
        self._tally = tally
        self._told: dict[str, tuple[bool, int]] = {}
        """By message: whether it was recalled, and how often edited, as last told."""
        self._receipts: dict[tuple[str, str, str], int] = {}
        self._replayed: defaultdict[str, int] = defaultdict(int)
        self._replay = 0
        self._broken_off = False

    def __len__(self) -> int:
        return len(self._told)

    def begin(self, at: float) -> None:
        """With a cursor from elsewhere: what comes after it was shown at this time, or later."""
        self.began = at

    def connected(self) -> None:
        """It subscribes again, from its cursor."""
        if not self.caught_up and self._replay > MOST_AHEAD:
            self._broken_off = True
        self.caught_up = False
        self._replay = 0
        self._replayed.clear()

    def hear_caught_up(self, event: Json) -> bool:
        """Whether it begins anew."""
        begins = event["reset"] or self.began == float("inf")
        if begins:
            self._told.clear()
            self._receipts.clear()
            self.began = time.time()
            self._broken_off = False
        if event["reset"] and self._replay:
            self._wrong(f"{self._replay} events were replayed, and then a reset")
        self._tally.notes["events replayed"] += self._replay
        self._tally.notes["replays"] += not self.caught_up and self._replay > 0
        self.caught_up, self._replay, self._broken_off = True, 0, False
        return bool(begins)

    def hear_message(self, event: Json) -> None:
        """A message was created, edited or recalled."""
        message, what = event["message"], event["__typename"]
        self._check_for_whom(message)
        name = message["id"]
        recalled, edits = message["state"] == "RECALLED", message["editCount"]
        before = self._told.get(name)
        if what == "MessageCreated":
            self._check_created(message, before)
        elif before is None and self._is_of_this_chain(message):
            self._wrong(f"told of a revision before the message: {event}")
        if (message["content"] is None) != recalled:
            self._wrong(f"content and state don't fit: {event}")
        if before is not None and (recalled, edits) < before:
            self._wrong(f"told as it was before {before}: {event}")
        self._told[name] = recalled, edits
        if not self.caught_up:
            self._replay += 1

    def _check_created(self, message: Json, before: tuple[bool, int] | None) -> None:
        conversation, seq = message["conversationId"], message["seq"]
        if before is not None:
            if self._broken_off:
                self._tally.notes["told again after a long replay that broke off"] += 1
            else:
                self._wrong(f"told twice in one chain, {'live' if self.caught_up else 'replayed'}: {message}")
        if not self.caught_up:
            if seq <= self._replayed[conversation]:
                self._wrong(f"replayed after seq {self._replayed[conversation]}: {message}")
            self._replayed[conversation] = seq
        elif not self._skew:
            self._tally.lags.append(
                time.time() * 1000 - datetime.fromisoformat(message["createdAt"]).timestamp() * 1000
            )

    def _is_of_this_chain(self, message: Json) -> bool:
        """Whether it came to be within the chain, for one who could read it then."""
        created = datetime.fromisoformat(message["createdAt"]).timestamp()
        return created > self.began + _MARGIN_SECONDS + self._skew and message["conversationId"].startswith("p_")

    def _check_for_whom(self, message: Json) -> None:
        own = message["sender"]["id"] == self._user and message["contentType"] != "SYSTEM"
        if message["idempotencyKey"] is not None and not own:
            self._wrong(f"the sender's key is shown to them alone: {message}")
        if "delivery" in message and (message["delivery"] is not None) != own:
            self._wrong(f"ticks are shown to the sender alone: {message}")

    def hear_receipt(self, event: Json) -> None:
        key = (event["conversationId"], event["user"]["id"], event["status"])
        before = self._receipts.get(key, 0)
        self._tally.notes["receipts told again"] += event["seq"] == before
        self._tally.notes["receipts told after a further one"] += event["seq"] < before
        self._receipts[key] = max(before, event["seq"])
        if not self.caught_up:
            self._replay += 1

    def hear_typing(self, event: Json) -> None:
        if not self.caught_up:
            self._wrong(f"typing was replayed: {event}")
        if event["user"]["id"] == self._user:
            self._wrong(f"one's own typing: {event}")

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Which of these messages were not told."""
        return [id for id in ids if id not in self._told]

    def _wrong(self, sentence: str) -> None:
        self._tally.problem(f"{self.name}: {sentence}")
