"""The judges find each kind of violation, in a history that is right in everything else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.judges.history import Json
from tests.chaos.judges.messages import MISSING_AFTER_REPLAY, judge_messages
from tests.chaos.judges.record import Record
from tests.chaos.judges.recovery import Recovery, recoveries
from tests.chaos.judges.sessions import judge_sessions

PAIR = "p_a_b"
THREAD = "t_1_p_a_b"
GROUP = "g_1"


class Story:
    """A correct history: `a` sends two messages to `b`, who reads the first; then all is read. Times in seconds."""

    def __init__(self) -> None:
        self.lines: list[Json] = []
        self.tries = 0
        self.now = 0.0
        self.first = self.send("a", "one", "m_1", 1)
        self.second = self.send("a", "two", "m_2", 2)
        self.page = self.ask("b", "messages", {"id": PAIR}, page(message("m_1", 1, "one"), message("m_2", 2, "two")))
        self.read = self.ask("b", "markRead", {"id": PAIR, "seq": 1}, session("b", writeSeq=2, readSeq=1, activeTs=30))
        self.event = self.event_of("b", message("m_2", 2, "two") | {"idempotencyKey": None})
        history = {PAIR: [message("m_1", 1, "one"), message("m_2", 2, "two")]}
        mine = session("a", writeSeq=2, readSeq=2, deliveredSeq=2, peerReadSeq=1, unreadCount=0)
        self.fresh_a = self.line("fresh", user="a", sessions={PAIR: mine}, total=0, histories=history)
        theirs = session("b", writeSeq=2, readSeq=1, deliveredSeq=1, peerReadSeq=2, unreadCount=1)
        self.fresh_b = self.line("fresh", user="b", sessions={PAIR: theirs}, total=1, histories=history)
        rows = [row("m_1", PAIR, 1, "a", "one"), row("m_2", PAIR, 2, "a", "two")]
        self.stored = self.line("stored", messages=rows, intervals={f"{GROUP} a": [[1, 4], [8, -1]]})

    def line(self, what: str, **fields: object) -> Json:
        self.now += 1.0
        self.lines.append({"t": self.now, "what": what, **fields})
        return self.lines[-1]

    def ask(self, user: str, operation: str, variables: Json, value: object, code: str = "ok") -> Json:
        """Add a try and its answer, and return the answer."""
        self.tries += 1
        self.line("invoke", id=self.tries, device=f"{user}/1", user=user, operation=operation, variables=variables)
        return self.line("answer", id=self.tries, code=code, value=value)

    def event_of(self, user: str, created: Json) -> Json:
        """Add the live event of a message to one of a user's devices."""
        event = {"__typename": "MessageCreated", "message": created}
        return self.line("event", device=f"{user}/1", user=user, subscription="live", live=True, event=event)

    def send(self, user: str, text: str, id: str, seq: int, conversation: str = PAIR, *, key: bool = True) -> Json:
        given = {"content": text} | ({"idempotencyKey": text} if key else {})
        value = {"message": {"id": id, "conversationId": conversation, "seq": seq, "content": text}, "replayed": False}
        return self.ask(user, "sendMessage", {"input": given}, value)

    def lose(self, user: str = "all") -> None:
        self.line("fault", name="loss", state="begins", lost=user)

    def judged(self) -> list[str]:
        """Return the kinds of the violations, each once."""
        record = Record.of(self.lines)
        return sorted({violation.kind for violation in (*judge_messages(record), *judge_sessions(record))})


def message(id: str, seq: int, text: str, sender: str = "a", **more: object) -> Json:
    plain = {"state": "NORMAL", "editCount": 0, "contentType": "TEXT", "mentionsAll": False, "mentions": []}
    given = {"id": id, "seq": seq, "content": text, "conversationId": PAIR, "sender": {"id": sender}}
    return plain | given | more


def page(*messages: Json) -> Json:
    return {"pageInfo": {"hasNextPage": False}, "edges": [{"node": one} for one in messages]}


def session(user: str, **fields: object) -> Json:
    plain = {
        "writeSeq": 0, "readSeq": 0, "deliveredSeq": 0, "unreadCount": 0, "unreadMentionCount": 0, "muteStatus": False,
        "status": "ACTIVE", "activeTs": 50, "peerReadSeq": 0, "peerDeliveredSeq": 0, "conversation": {"id": PAIR},
        "unreadStatus": False, "mutedUntil": None, "priority": 0, "categoryId": None, "subBiz": None,
    }  # fmt: skip
    return plain | {"id": f"s_{user}_{PAIR}"} | fields


def row(id: str, conversation: str, seq: int, sender: str, text: str, **more: object) -> Json:
    plain = {"kind": "TEXT", "key": text}
    return plain | {"id": id, "conversation": conversation, "seq": seq, "sender": sender, "text": text} | more


def test_a_correct_history_has_no_violations() -> None:
    assert Story().judged() == []


def _unstore(story: Story) -> None:
    story.stored["messages"].pop()


def _hide(story: Story) -> None:
    story.fresh_a["histories"] = {PAIR: [message("m_1", 1, "one")]}


def _store_twice(story: Story) -> None:
    story.stored["messages"].append(row("m_3", PAIR, 3, "a", "two"))


def _answer_twice(story: Story) -> None:
    story.send("a", "two", "m_3", 3)
    story.stored["messages"].append(row("m_3", PAIR, 3, "a", "other", key=None))


def _store_twice_after_a_loss_of_another(story: Story) -> None:
    _store_twice(story)
    story.lose("b")


def _show_a_message_that_is_not_stored(story: Story) -> None:
    story.event["event"]["message"] = message("m_9", 9, "nine")


def _move_to_another_seq(story: Story) -> None:
    story.page["value"] = page(message("m_1", 1, "one"), message("m_2", 3, "two"))


def _take_a_seq(story: Story) -> None:
    story.stored["messages"].append(row("m_4", PAIR, 2, "b", "four"))


def _reverse_a_page(story: Story) -> None:
    story.page["value"]["edges"].reverse()


def _give_a_lower_seq(story: Story) -> None:
    story.send("a", "late", "m_0", 0)
    for fresh in (story.fresh_a, story.fresh_b):
        fresh["histories"][PAIR] = [message("m_0", 0, "late"), *fresh["histories"][PAIR]]
    story.stored["messages"].append(row("m_0", PAIR, 0, "a", "late"))


def _leave_out_of_a_page(story: Story) -> None:
    story.page["value"]["edges"].pop()


def _show_a_stranger(story: Story) -> None:
    story.page["value"]["edges"].append({"node": message("m_5", 5, "five", conversationId=GROUP)})
    story.event_of("a", message("m_5", 5, "five", conversationId=GROUP))
    story.page["value"]["edges"].pop()
    story.stored["messages"].append(row("m_5", GROUP, 5, "b", "five"))


def _show_a_key(story: Story) -> None:
    story.event["event"]["message"]["idempotencyKey"] = "two"


def _revive(story: Story) -> None:
    story.ask("a", "recallMessage", {"id": "m_2"}, {"state": "RECALLED"})
    story.ask("b", "messages", {"id": PAIR}, page(message("m_2", 2, "two")))


def _forget_an_edit(story: Story) -> None:
    story.ask("a", "editMessage", {"id": "m_2"}, {"editCount": 1})
    story.ask("b", "messages", {"id": PAIR}, page(message("m_2", 2, "two")))


def _count_one_too_few(story: Story) -> None:
    story.fresh_b["sessions"][PAIR]["unreadCount"] = 0
    story.fresh_b["total"] = 0


def _miss_a_mention(story: Story) -> None:
    story.fresh_b["histories"] = {PAIR: [message("m_1", 1, "one"), message("m_2", 2, "two", mentions=[{"id": "b"}])]}


def _add_up_wrongly(story: Story) -> None:
    story.fresh_b["total"] = 2


def _add_up_wrongly_in_an_answer(story: Story) -> None:
    sessions = [session("b", unreadCount=1, writeSeq=2, readSeq=1, activeTs=60)]
    story.ask("b", "syncSessions", {"since": None}, {"sessions": sessions, "hasMore": False, "totalUnread": 0})


def _answer_with_an_older_session(story: Story) -> None:
    story.second["value"]["session"] = session("a", writeSeq=1, readSeq=1, deliveredSeq=1)


def _unread(story: Story) -> None:
    story.ask("b", "session", {"id": PAIR}, session("b", writeSeq=2, activeTs=60))


def _move_the_clock_back(story: Story) -> None:
    story.ask("b", "session", {"id": PAIR}, session("b", writeSeq=2, readSeq=1, activeTs=29))


def _forget_an_event(story: Story) -> None:
    story.ask("b", "session", {"id": PAIR}, session("b", writeSeq=1, readSeq=1, activeTs=60))


def _forget_an_own_message(story: Story) -> None:
    story.ask("a", "session", {"id": PAIR}, session("a", writeSeq=2, readSeq=1))


def _take_delivery_back(story: Story) -> None:
    for count in (1, 0):
        story.ask("a", "delivery", {"id": "m_1"}, {"id": "m_1", "delivery": {"deliveredCount": 1, "readCount": count}})


def _read_ahead_of_the_peer(story: Story) -> None:
    story.fresh_a["sessions"][PAIR]["peerReadSeq"] = 2


def _forget_a_setting(story: Story) -> None:
    story.ask(
        "b", "pinSession", {"id": PAIR, "priority": 5}, session("b", writeSeq=2, readSeq=1, activeTs=40, priority=5)
    )


def _stop_the_clock(story: Story) -> None:
    story.first["value"]["session"] = session("a", writeSeq=1, readSeq=1, deliveredSeq=1, activeTs=20)
    story.second["value"]["session"] = session("a", writeSeq=2, readSeq=2, deliveredSeq=2, activeTs=20)


def _show_two_states_of_one_tick(story: Story) -> None:
    story.ask("b", "session", {"id": PAIR}, session("b", writeSeq=2, readSeq=1, activeTs=30, priority=5))


@pytest.mark.parametrize(
    ("spoil", "kinds"),
    [
        (_unstore, ["lost", "vanished"]),
        (_hide, ["lost"]),
        (_store_twice, ["duplicated"]),
        (_answer_twice, ["duplicated", "lost"]),
        (_store_twice_after_a_loss_of_another, ["duplicated"]),
        (_show_a_message_that_is_not_stored, ["vanished"]),
        (_move_to_another_seq, ["moved"]),
        (_take_a_seq, ["moved"]),
        (_reverse_a_page, ["out of order"]),
        (_give_a_lower_seq, ["out of order"]),
        (_leave_out_of_a_page, ["missing"]),
        (_show_a_stranger, ["outside"]),
        (_show_a_key, ["key"]),
        (_revive, ["revived"]),
        (_forget_an_edit, ["revived"]),
        (_count_one_too_few, ["miscounted"]),
        (_miss_a_mention, ["miscounted"]),
        (_add_up_wrongly, ["miscounted"]),
        (_add_up_wrongly_in_an_answer, ["miscounted"]),
        (_answer_with_an_older_session, ["stale session"]),
        (_unread, ["backwards"]),
        (_move_the_clock_back, ["backwards"]),
        (_forget_an_event, ["backwards"]),
        (_forget_an_own_message, ["backwards"]),
        (_take_delivery_back, ["delivery backwards"]),
        (_read_ahead_of_the_peer, ["ahead"]),
        (_forget_a_setting, ["forgotten"]),
        (_stop_the_clock, ["ambiguous", "clock"]),
        (_show_two_states_of_one_tick, ["ambiguous"]),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
def test_each_kind_of_violation_is_found_and_no_other(spoil: Callable[[Story], None], kinds: list[str]) -> None:
    story = Story()
    spoil(story)
    assert story.judged() == kinds


def _leave_while_a_message_is_sent(story: Story, *, is_answered_before: bool) -> None:
    """Let `b` leave a workspace, and be shown a message that `a` sends to a PRIVATE channel there at that time."""
    channel = "c_1.2"
    shown = message("m_5", 5, "five", conversationId=channel)
    story.stored["messages"].append(row("m_5", channel, 5, "a", "five"))
    story.stored["intervals"] |= {f"{channel} a": [[1, -1]], f"{channel} b": [[1, 4]]}
    story.fresh_a["histories"] = {**story.fresh_a["histories"], channel: [shown]}
    if is_answered_before:
        story.ask("b", "leaveWorkspace", {"id": "w_1"}, True)
        story.send("a", "five", "m_5", 5, channel)
        story.event_of("b", shown)
        return
    story.line("invoke", id=100, device="b/1", user="b", operation="leaveWorkspace", variables={"id": "w_1"})
    story.send("a", "five", "m_5", 5, channel)
    story.event_of("b", shown)
    story.line("answer", id=100, code="ok", value=True)


@pytest.mark.parametrize("is_answered_before", [True, False])
def test_a_departure_from_a_workspace_holds_from_its_answer_on(is_answered_before: bool) -> None:
    story = Story()
    _leave_while_a_message_is_sent(story, is_answered_before=is_answered_before)
    assert story.judged() == (["outside"] if is_answered_before else [])


def _broadcast_a_reply(story: Story, code: str) -> None:
    """Let `b` mark the conversation unread at seq 2, and then send a reply whose copy is at seq 3 there."""
    marked = session("b", writeSeq=2, readSeq=1, activeTs=40, unreadStatus=True)
    story.ask("b", "setUnread", {"id": PAIR}, marked)
    given = {"threadOf": "m_1", "content": "three", "idempotencyKey": "three", "broadcast": True}
    reply = {"id": "m_3", "conversationId": THREAD, "seq": 1, "content": "three"}
    value = {"message": reply, "replayed": False} if code == "ok" else None
    story.ask("b", "sendMessage", {"input": given}, value, code)
    story.stored["messages"] += [
        row("m_3", THREAD, 1, "b", "three", copy=False),
        row("m_4", PAIR, 3, "b", "three", key=None, copy=True),
    ]
    story.fresh_b["sessions"][PAIR] |= {"writeSeq": 3, "readSeq": 3, "unreadCount": 0}
    story.fresh_b["total"] = 0
    story.fresh_a["sessions"][PAIR] |= {"writeSeq": 3, "peerReadSeq": 3, "unreadCount": 1}
    story.fresh_a["total"] = 1
    # Both users share this list.
    story.fresh_a["histories"][PAIR].append(message("m_4", 3, "three", "b"))


@pytest.mark.parametrize("code", ["ok", "lost"])
@pytest.mark.parametrize(("shown", "kinds"), [(False, []), (True, ["forgotten"])])
def test_the_copy_of_a_reply_ends_an_unread_mark(code: str, shown: bool, kinds: list[str]) -> None:
    story = Story()
    _broadcast_a_reply(story, code)
    story.fresh_b["sessions"][PAIR]["unreadStatus"] = shown
    assert story.judged() == kinds


@pytest.mark.parametrize(("shown", "kinds"), [(False, ["forgotten"]), (True, [])])
def test_the_copy_of_a_reply_before_an_unread_mark_keeps_it(shown: bool, kinds: list[str]) -> None:
    story = Story()
    _broadcast_a_reply(story, "ok")
    marked = session("b", writeSeq=3, readSeq=3, deliveredSeq=3, activeTs=60, unreadStatus=True)
    story.ask("b", "setUnread", {"id": PAIR}, marked)
    story.fresh_b["sessions"][PAIR]["unreadStatus"] = shown
    assert story.judged() == kinds


def test_the_copy_of_a_reply_of_another_user_keeps_an_unread_mark() -> None:
    story = Story()
    story.ask("b", "setUnread", {"id": PAIR}, session("b", writeSeq=2, readSeq=1, activeTs=40, unreadStatus=True))
    story.stored["messages"].append(row("m_4", PAIR, 3, "a", "three", key=None, copy=True))
    assert story.judged() == ["forgotten"]


@pytest.mark.parametrize("shown", [False, True])
def test_a_mark_between_an_unread_copy_and_a_later_message_is_not_judged(shown: bool) -> None:
    """The session in the answer may have messages that came after the mark, so the mark may be at 2, 3 or 4."""
    story = Story()
    _broadcast_a_reply(story, "ok")
    marked = session("b", writeSeq=4, readSeq=1, activeTs=60, unreadStatus=True)
    story.ask("b", "setUnread", {"id": PAIR}, marked)
    story.fresh_b["sessions"][PAIR] |= {"writeSeq": 4, "unreadStatus": shown}
    assert story.judged() == []


@pytest.mark.parametrize("spoil", [_forget_a_setting, _stop_the_clock, _show_two_states_of_one_tick])
def test_settings_and_ticks_are_not_judged_while_servers_are_disturbed(spoil: Callable[[Story], None]) -> None:
    story = Story()
    story.line("fault", name="kill a server", state="begins")
    spoil(story)
    assert story.judged() == []


def test_a_message_stored_twice_is_found_also_if_redis_was_lost_between_two_tries() -> None:
    story = Story()
    story.ask("a", "sendMessage", {"input": {"content": "three", "idempotencyKey": "three"}}, None, "lost")
    story.lose()
    story.send("a", "three", "m_4", 4)
    story.stored["messages"] += [row("m_3", PAIR, 3, "a", "three"), row("m_4", PAIR, 4, "a", "three")]
    story.fresh_a["histories"] = {PAIR: [message(f"m_{n}", n, "") for n in range(1, 5)]}
    assert story.judged() == ["duplicated"]


def test_a_message_missing_after_a_replay_is_a_known_limit_while_servers_die() -> None:
    story = Story()
    story.line("fault", name="kill a server", state="begins")
    story.second["value"]["replayed"] = True
    _leave_out_of_a_page(story)
    assert story.judged() == [MISSING_AFTER_REPLAY]


def test_overlapping_requests_may_be_answered_in_any_order() -> None:
    story = Story()
    story.line("invoke", id=90, device="b/1", user="b", operation="session", variables={"id": PAIR})
    story.line("invoke", id=91, device="b/2", user="b", operation="session", variables={"id": PAIR})
    story.line("answer", id=91, code="ok", value=session("b", writeSeq=2, readSeq=2, activeTs=70))
    story.line("answer", id=90, code="ok", value=session("b", writeSeq=2, readSeq=1, activeTs=60))
    assert story.judged() == []


def test_recovery_ends_with_the_first_send_and_delivery_begun_after_the_fault() -> None:
    story = Story()
    story.line("fault", name="a fault", state="begins")
    story.ask("b", "session", {"id": PAIR}, session("b", writeSeq=2, readSeq=1, activeTs=60))
    story.ask("b", "session", {"id": PAIR}, None, "UNAVAILABLE")
    story.line("fault", name="a fault (of a kind)", state="healed")
    healed = story.now
    story.event_of("b", message("m_2", 2, "two"))
    story.send("a", "three", "m_3", 3)
    answered = story.now
    story.event_of("b", message("m_3", 3, "three"))
    found = recoveries(story.lines, Record.of(story.lines))
    assert found == [Recovery("a fault (of a kind)", answered - healed, story.now - healed, 2, 1, 1.0)]
