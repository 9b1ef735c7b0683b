"""What a device is told, as it happens or later, held against the model: all that its user may read, once, and nothing else."""

from __future__ import annotations

from collections import Counter

from tests.invariants.room_model import DISMISSED, Json
from tests.invariants.session_model import SessionModel, Told
from tests.invariants.session_reading import plain

_CHANGING = {"content", "state", "replyTo", "editCount", "editedAt", "recalledAt", "delivery"}


def _may_be_left_out(model: SessionModel, told: Told) -> bool:
    """Whoever was away when a group was dismissed hears no more of it; nor of edits, where a message was recalled."""
    what, name, seq, _ = told
    room = model.rooms[name]
    return room.ended == DISMISSED or (what == "MessageUpdated" and room.said[seq - 1].recalled)


class Ears:
    """The events that one device heard since it last agreed with the model.

    `replaying`: the model at the moment when the device came back, until it has heard of what it missed. `bursts`: things
    happened at once since then, so how many acknowledgements they made depends.
    """

    def __init__(self, user: str) -> None:
        self.bursts = False
        self.replaying: SessionModel | None = None
        self._user = user
        self._since = 0
        self.skipped = False
        self._synced_since = 0
        self._caught_up = False
        self._heard: Counter[Told] = Counter()
        self._synced: Counter[tuple[str, str]] = Counter()
        self._messages: list[Json] = []
        self._recalled: set[tuple[str, int]] = set()

    def begin(self, model: SessionModel) -> None:
        """What happened so far is settled."""
        self._since = len(model.told[self._user])
        self._synced_since = len(model.synced[self._user])
        self.skipped = self._caught_up = self.bursts = False
        self._heard.clear()
        self._synced.clear()
        self._messages.clear()

    def missed(self, model: SessionModel, since: int, bursts: bool) -> None:
        """From now on it is told what the user was to hear after so many events."""
        self.begin(model)
        self.replaying, self.bursts, self._caught_up, self._since = model, bursts, True, since

    def hear_sync(self, event: Json) -> None:
        """Why which sessions changed. Behind a gateway, it comes with them."""
        if event["reason"] == "CATCH_UP":
            self._caught_up = True
            return
        names = [session["conversation"]["id"] for session in event["sessions"]]
        assert names and not event["reset"] and not event["hasMore"], event
        for name in [name for name in names if not name.startswith("b_")] or names:
            self._synced[event["reason"], name] += 1

    def hear(self, event: Json) -> None:
        match event["__typename"]:
            case "CaughtUp":
                self.replaying = None
                self.skipped = self.skipped or event["reset"]
            case "ReceiptAdvanced":
                self._heard[event["status"], event["conversationId"], event["seq"], event["user"]["id"]] += 1
            case what:
                message = event["message"]
                name, seq = message["conversationId"], message["seq"]
                assert message["content"] is None or (name, seq) not in self._recalled, (
                    f"told after its recall: {event}"
                )
                if message["state"] == "RECALLED":
                    self._recalled.add((name, seq))
                self._heard[what, name, seq, message["sender"]["id"]] += 1
                if self.replaying:
                    self._check_replayed(self.replaying, message)
                else:
                    self._messages.append(message)

    def _check_replayed(self, model: SessionModel, message: Json) -> None:
        """What was missed is shown as it is now."""
        room = model.rooms[message["conversationId"]]
        assert room.ended != DISMISSED, f"{self._user} is told of a dismissed group: {message}"
        expected = model.shown(self._user, message["conversationId"], room.said[message["seq"] - 1])
        got = plain(message)
        assert got == expected, f"{self._user} missed {expected} and is told {got}"

    def wrong(self, model: SessionModel, only: str | None = None) -> str:
        """What was not heard, or should not have been, in one conversation or in all."""
        told = model.told[self._user][self._since :]
        expected = Counter(what for what in told if only is None or what[1] == only)
        more, missing = self._heard - expected, expected - self._heard
        if self.bursts:
            more, missing = (
                Counter({t: n for t, n in c.items() if t[0] not in ("READ", "DELIVERED")}) for c in (more, missing)
            )
        missing = Counter({t: n for t, n in missing.items() if not _may_be_left_out(model, t)})
        if more or (missing and not self.skipped):
            return f"heard without need {dict(more)}, did not hear {dict(missing)}"
        if not self.bursts and not self._caught_up:
            why = Counter(model.synced[self._user][self._synced_since :])
            if why != self._synced:
                return f"of sessions expected {dict(why - self._synced)}, heard {dict(self._synced - why)}"
        for message in self._messages:
            self._check_live(model, message)
        return ""

    def _check_live(self, model: SessionModel, message: Json) -> None:
        """A message as it was when it was told of, or as it has become since."""
        name, seq = message["conversationId"], message["seq"]
        room, got = model.rooms[name], plain(message)
        said, expected = room.said[seq - 1], model.payloads[self._user, name, seq]
        for field in expected.keys() - _CHANGING:
            assert got[field] == expected[field], f"{self._user} {name}: expected {expected}, told {got}"
        assert (got["delivery"] is None) == (expected["delivery"] is None), f"{self._user} {name}: {got}"
        assert got["editCount"] < len(said.texts) or said.system, f"{self._user} {name}: {got}"
        assert (got["state"] == "RECALLED") == got["recalledAt"] == (got["content"] is None and not said.system), got
        assert got["content"] in (*said.texts, None) and (got["content"] is not None or said.recalled or said.system), (
            got
        )
        readings = (expected["replyTo"], room.shown(self._user, said)["replyTo"])
        answers = {reading["seq"] if reading else None for reading in readings}
        assert (got["replyTo"]["seq"] if got["replyTo"] else None) in answers, (
            f"{self._user} {name}: {expected}, told {got}"
        )
