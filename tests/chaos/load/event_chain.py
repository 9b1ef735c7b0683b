"""The events of messageEvents that a device receives, compared with what the contract promises.

A chain is what a device receives from a moment at which it started over (its first CaughtUp, or one with `reset: true`)
to the next, over any number of connections and servers, each resumed from the cursor of the last applied event. In it:

- The creation of a message comes once. After a reset it may come again. One exception: where messages were logged out
  of order, a cursor from the middle of a replay names the events that were replayed ahead of it, up to MAX_AHEAD
  (subscriptions/realtime/replay.py). Resuming after more than those repeats some. So a repetition after a longer
  replay that broke off is counted, and is no problem.
- Replayed events come before CaughtUp, creations of one conversation in order of seq. Live events come in order of the
  user's clock, which can differ from the order of seq when two servers write at the same time.
- A message never comes in an older form than before: edits count up, and no content follows a recall. Where the message
  was created within the chain, its creation comes before its revisions.
- Receipts are high-water marks: one that comes again, or after a further one, changes nothing, and is counted.
- Idempotency keys and delivery come to the sender alone. Typing is not replayed, and does not come to the user who
  types.
- Every acknowledged message that was sent after the chain began comes to each member (`missing`). One that was sent
  within RESET_SECONDS of a reset (judges/final_check.py) and is missing is counted, and is no problem yet.

After the loss of a user's state in Redis, whole or in part, a reset ends the chain; a chain that goes on keeps all
this.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from subscriptions.realtime.replay import MAX_AHEAD
from tests.chaos.judges.history import Json
from tests.chaos.load.load_state import is_of_threads
from tests.chaos.tally import RunTally

_MARGIN_SECONDS = 2.0
"""A message that was created sooner after the chain began may have been known before."""


class EventChain:
    """The events of one subscription of one device."""

    def __init__(self, name: str, user: str, tally: RunTally, skew: float = 0.0) -> None:
        """Start empty. skew: seconds by which the servers' clocks differ."""
        self._skew = skew
        self.began = float("inf")
        """Seconds since the epoch. A message whose sending began later has to arrive."""
        self.caught_up = False
        self.name = name
        self._user = user
        self._tally = tally
        self._newest: dict[str, tuple[bool, int]] = {}
        """By message: whether it was recalled, and the number of edits, in its newest event."""
        self.mentions: set[str] = set()
        """The messages in channels whose Mentioned events came."""
        self._receipts: dict[tuple[str, str, str], int] = {}
        self._replayed: defaultdict[str, int] = defaultdict(int)
        self._replay = 0
        self._broken_off = False

    def __len__(self) -> int:
        return len(self._newest)

    def begin(self, at: float) -> None:
        """Begin the chain with the cursor of a snapshot that was taken at this time or later."""
        self.began = at

    def resubscribed(self) -> None:
        """The device subscribes again, from its cursor."""
        if not self.caught_up and self._replay > MAX_AHEAD:
            self._broken_off = True
        self.caught_up = False
        self._replay = 0
        self._replayed.clear()

    def handle_caught_up(self, event: Json) -> bool:
        """Return whether the chain starts over."""
        begins = event["reset"] or self.began == float("inf")
        if begins:
            self._newest.clear()
            self.mentions.clear()
            self._receipts.clear()
            self.began = time.time()
            self._broken_off = False
        if event["reset"] and self._replay:
            self._wrong(f"{self._replay} events were replayed before a reset")
        self._tally.notes["events replayed"] += self._replay
        self._tally.notes["replays"] += not self.caught_up and self._replay > 0
        self.caught_up, self._replay, self._broken_off = True, 0, False
        return bool(begins)

    def handle_message(self, event: Json) -> None:
        """Check the creation, an edit or the recall of a message."""
        message = event["message"]
        self._check_recipient(message)
        name = message["id"]
        recalled, edits = message["state"] == "RECALLED", message["editCount"]
        before = self._newest.get(name)
        if event["__typename"] == "MessageCreated":
            self._check_created(message, before)
        elif before is None and self._is_of_this_chain(message):
            self._wrong(f"a revision came before the message: {event}")
        if (message["content"] is None) != recalled:
            self._wrong(f"content and state do not fit: {event}")
        if before is not None and (recalled, edits) < before:
            self._wrong(f"an older form after {before}: {event}")
        self._newest[name] = recalled, edits
        if not self.caught_up:
            self._replay += 1

    def _check_created(self, message: Json, before: tuple[bool, int] | None) -> None:
        conversation, seq = message["conversationId"], message["seq"]
        if before is not None:
            if self._broken_off:
                self._tally.notes["repeated after a long replay that broke off"] += 1
            else:
                self._wrong(f"created twice in one chain, {'live' if self.caught_up else 'replayed'}: {message}")
        if not self.caught_up:
            if seq <= self._replayed[conversation]:
                self._wrong(f"replayed after seq {self._replayed[conversation]}: {message}")
            self._replayed[conversation] = seq
        elif not self._skew:
            self._tally.lags.append(
                time.time() * 1000 - datetime.fromisoformat(message["createdAt"]).timestamp() * 1000
            )

    def _is_of_this_chain(self, message: Json) -> bool:
        """Return whether the message was created within the chain, and was readable for the user then."""
        created = datetime.fromisoformat(message["createdAt"]).timestamp()
        return created > self.began + _MARGIN_SECONDS + self._skew and message["conversationId"].startswith("p_")

    def _check_recipient(self, message: Json) -> None:
        own = message["sender"]["id"] == self._user and message["contentType"] != "SYSTEM"
        if message["idempotencyKey"] is not None and not own:
            self._wrong(f"the key came to another user than the sender: {message}")
        # Threads have no receipts.
        has_delivery = own and not is_of_threads(message["conversationId"])
        if "delivery" in message and (message["delivery"] is not None) != has_delivery:
            self._wrong(f"delivery has to come to the sender alone: {message}")

    def handle_mention(self, event: Json) -> None:
        """Check a Mentioned event: it comes once, to the users that the message mentions."""
        message = event["message"]
        if message["id"] in self.mentions and not self._broken_off:
            self._wrong(f"mentioned twice in one chain: {message}")
        if all(user["id"] != self._user for user in message["mentions"]) or message["sender"]["id"] == self._user:
            self._wrong(f"the message does not mention the user, or is their own: {message}")
        self.mentions.add(message["id"])
        if not self.caught_up:
            self._replay += 1

    def handle_receipt(self, event: Json) -> None:
        """Note a receipt, and count repetitions."""
        key = (event["conversationId"], event["user"]["id"], event["status"])
        before = self._receipts.get(key, 0)
        self._tally.notes["receipts repeated"] += event["seq"] == before
        self._tally.notes["receipts after a further one"] += event["seq"] < before
        self._receipts[key] = max(before, event["seq"])
        if not self.caught_up:
            self._replay += 1

    def handle_mark(self) -> None:
        """Count a replayed event about reactions, pins or a thread."""
        if not self.caught_up:
            self._replay += 1

    def handle_typing(self, event: Json) -> None:
        """Check a TypingStarted event."""
        if not self.caught_up:
            self._wrong(f"typing was replayed: {event}")
        if event["user"]["id"] == self._user:
            self._wrong(f"the user's own typing: {event}")

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Return those messages whose creation did not arrive."""
        return [id for id in ids if id not in self._newest]

    def _wrong(self, sentence: str) -> None:
        self._tally.problem(f"{self.name}: {sentence}")
