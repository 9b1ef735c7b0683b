"""Compares the events that a device received, live or replayed, with those of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tests.invariants.machine.reading import plain
from tests.invariants.machine.received_reactions import ReceivedReactions
from tests.invariants.model.conversation import DISMISSED, Json
from tests.invariants.model.sessions import GROUP_CHANGED, ModelEvent, SessionModel

_CHANGING = {
    "content",
    "state",
    "replyTo",
    "editCount",
    "editedAt",
    "recalledAt",
    "recalledBy",
    "delivery",
    "reactions",
    "isPinned",
}


def _may_be_left_out(model: SessionModel, told: ModelEvent) -> bool:
    """Return whether an event need not arrive: of a group dismissed meanwhile, or an edit before a recall."""
    what, name, seq, _ = told
    conversation = model.conversations[name]
    if what == GROUP_CHANGED:
        return conversation.ended is not None
    return conversation.ended == DISMISSED or (what == "MessageUpdated" and conversation.messages[seq - 1].recalled)


class ReceivedEvents:
    """The events that one device received since it last agreed with the model.

    `replaying` is the model during a replay in which nothing else happens, until the device has caught up. `bursts` is
    True if operations ran concurrently since then: the number of receipts then depends on their order.
    """

    def __init__(self, user: str, ids: Mapping[tuple[str, int], str]) -> None:
        self.bursts = False
        self.replaying: SessionModel | None = None
        self._user = user
        self._since = 0
        self.skipped = False
        self._synced_since = 0
        self._caught_up = False
        self._received: Counter[ModelEvent] = Counter()
        self._synced: Counter[tuple[str, str]] = Counter()
        self._messages: list[Json] = []
        self._groups: dict[str, Json] = {}
        self._recalled: set[tuple[str, int]] = set()
        self._pin_counts: dict[str, int] = {}
        self._reactions = ReceivedReactions(user, ids)

    def begin(self, model: SessionModel) -> None:
        """Begin to expect the events after this moment."""
        self._since = len(model.events[self._user])
        self._synced_since = len(model.session_events[self._user])
        self.skipped = self._caught_up = self.bursts = False
        self._received.clear()
        self._synced.clear()
        self._messages.clear()
        self._groups.clear()
        self._pin_counts.clear()
        self._reactions.begin(model)

    def missed(self, model: SessionModel, since: int, bursts: bool) -> None:
        """Expect the events since a position in the model's events, by a replay."""
        self.begin(model)
        self.replaying, self.bursts, self._caught_up, self._since = model, bursts, True, since

    def note_sync(self, event: Json) -> None:
        """Note the reason and the sessions of a syncSession event. A gateway comes with the session inside it."""
        if event["reason"] == "CATCH_UP":
            self._caught_up = True
            return
        names = [session["conversation"]["id"] for session in event["sessions"]]
        assert names and not event["reset"] and not event["hasMore"], event
        for name in [name for name in names if not name.startswith("b_")] or names:
            self._synced[event["reason"], name] += 1

    def note_event(self, event: Json) -> None:
        match event["__typename"]:
            case "CaughtUp":
                self.replaying = None
                self.skipped = self.skipped or event["reset"]
            case "ReceiptAdvanced":
                self._received[event["status"], event["conversationId"], event["seq"], event["user"]["id"]] += 1
            case "GroupChanged":
                name = event["group"]["id"]
                self._received[GROUP_CHANGED, name, 0, ""] += 1
                self._groups[name] = {field: value for field, value in event["group"].items() if field != "id"}
            case "ReactionsChanged":
                self._reactions.note(event)
            case what:
                message = event["message"]
                name, seq = message["conversationId"], message["seq"]
                if what == "PinsChanged":
                    self._pin_counts[name] = event["pinCount"]
                assert message["content"] is None or (name, seq) not in self._recalled, (
                    f"told after its recall: {event}"
                )
                if message["state"] == "RECALLED":
                    self._recalled.add((name, seq))
                self._received[what, name, seq, message["sender"]["id"]] += 1
                if self.replaying:
                    self._check_replayed(self.replaying, message)
                else:
                    self._messages.append(message)

    def _check_replayed(self, model: SessionModel, message: Json) -> None:
        """Check that a replayed message has its present form."""
        conversation = model.conversations[message["conversationId"]]
        assert conversation.ended != DISMISSED, f"{self._user} got an event of a dismissed group: {message}"
        expected = model.message_for(self._user, message["conversationId"], conversation.messages[message["seq"] - 1])
        got = plain(message)
        assert got == expected, f"{self._user} missed {expected} and is told {got}"

    def wrong(self, model: SessionModel, only: str | None = None) -> str:
        """Return the difference between received and expected events as text, in one conversation or in all."""
        told = model.events[self._user][self._since :]
        expected = Counter(what for what in told if only is None or what[1] == only)
        more, missing = self._received - expected, expected - self._received
        if self.bursts:
            uncertain = ("READ", "DELIVERED", GROUP_CHANGED)
            more, missing = (Counter({t: n for t, n in c.items() if t[0] not in uncertain}) for c in (more, missing))
        if self._caught_up:
            # A replay shows several changes of a group as one.
            missing = Counter({t: n for t, n in missing.items() if t[0] != GROUP_CHANGED or not self._received[t]})
        missing = Counter({t: n for t, n in missing.items() if not _may_be_left_out(model, t)})
        if more or (missing and not self.skipped):
            return f"received without need {dict(more)}, did not receive {dict(missing)}"
        if not self.bursts and not self._caught_up:
            why = Counter(model.session_events[self._user][self._synced_since :])
            if why != self._synced:
                return f"of sessions expected {dict(why - self._synced)}, received {dict(self._synced - why)}"
        for message in self._messages:
            self._check_live(model, message)
        if self.skipped:
            return ""
        for name, count in self._pin_counts.items():
            conversation = model.conversations[name]
            if self._user in conversation.members and count != len(conversation.pins):
                return f"{name} has {len(conversation.pins)} pinned messages, last told {count}"
        changed = {name for what, name, _, _ in told if what == GROUP_CHANGED}
        return self._wrong_groups(model) or self._reactions.wrong(model, changed, only)

    def _wrong_groups(self, model: SessionModel) -> str:
        """Compare the newest state of each group that changed with the one that the user may see.

        The visibility of the history may have changed since a former member received it.
        """
        for name, group in self._groups.items():
            conversation = model.conversations[name]
            if self._user in conversation.members and group != conversation.shared_group():
                return f"{name}: expected {conversation.shared_group()}, told {group}"
            if self._user in conversation.left:
                seen = conversation.left[self._user].shared_group()
                if group | {"historyVisibility": seen["historyVisibility"]} != seen:
                    return f"{name}: expected {seen} for a former member, got {group}"
        return ""

    def _check_live(self, model: SessionModel, message: Json) -> None:
        """Check that a live message has the form of its event, or a later one."""
        name, seq = message["conversationId"], message["seq"]
        conversation, got = model.conversations[name], plain(message)
        sent, expected = conversation.messages[seq - 1], model.event_messages[self._user, name, seq]
        for field in expected.keys() - _CHANGING:
            assert got[field] == expected[field], f"{self._user} {name}: expected {expected}, told {got}"
        assert (got["delivery"] is None) == (expected["delivery"] is None), f"{self._user} {name}: {got}"
        assert got["editCount"] < len(sent.texts) or sent.system, f"{self._user} {name}: {got}"
        assert got["recalledBy"] == (sent.recalled_by if got["recalledAt"] else None), got
        assert (got["state"] == "RECALLED") == got["recalledAt"] == (got["content"] is None and not sent.system), got
        assert got["content"] in (*sent.texts, None) and (got["content"] is not None or sent.recalled or sent.system), (
            got
        )
        readings = (expected["replyTo"], conversation.message_for(self._user, sent)["replyTo"])
        answers = {reading["seq"] if reading else None for reading in readings}
        assert (got["replyTo"]["seq"] if got["replyTo"] else None) in answers, (
            f"{self._user} {name}: {expected}, told {got}"
        )
