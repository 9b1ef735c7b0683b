"""The judges find what is wrong: each kind of violation, in a history that is right but for that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.history import Json
from tests.chaos.judge_messages import KNOWN_LIMIT, judge_messages
from tests.chaos.judge_sessions import judge_sessions
from tests.chaos.record import Record
from tests.chaos.recovery import Recovery, recoveries

PAIR = "p_a_b"
GROUP = "g_1"


class Story:
    """A history that is right: `a` sends two messages to `b`, who reads the first; then all is looked at. Times are seconds."""

    def __init__(self) -> None:
        self.lines: list[Json] = []
        self.tries = 0
        self.now = 0.0
        self.first = self.send("a", "one", "m_1", 1)
        self.second = self.send("a", "two", "m_2", 2)
        self.page = self.ask("b", "messages", {"id": PAIR}, page(message("m_1", 1, "one"), message("m_2", 2, "two")))
        self.read = self.ask("b", "markRead", {"id": PAIR, "seq": 1}, session("b", writeSeq=2, readSeq=1, activeTs=30))
        self.event = self.line(
            "event", who="b/1", user="b", of="live", live=True,
            event={"__typename": "MessageCreated", "message": message("m_2", 2, "two") | {"idempotencyKey": None}},
        )  # fmt: skip
        history = {PAIR: [message("m_1", 1, "one"), message("m_2", 2, "two")]}
        mine = session("a", writeSeq=2, readSeq=2, deliveredSeq=2, peerReadSeq=1, unreadCount=0)
        self.fresh_a = self.line("fresh", user="a", sessions={PAIR: mine}, total=0, histories=history)
        theirs = session("b", writeSeq=2, readSeq=1, deliveredSeq=1, peerReadSeq=2, unreadCount=1)
        self.fresh_b = self.line("fresh", user="b", sessions={PAIR: theirs}, total=1, histories=history)
        rows = [row("m_1", PAIR, 1, "a", "one"), row("m_2", PAIR, 2, "a", "two")]
        self.stored = self.line("stored", messages=rows, intervals={f"{GROUP} a": [[1, 4], [8, -1]]})

    def line(self, what: str, **told: object) -> Json:
        self.now += 1.0
        self.lines.append({"t": self.now, "what": what, **told})
        return self.lines[-1]

    def ask(self, user: str, op: str, variables: Json, value: object, code: str = "ok") -> Json:
        """A try and its answer, which is given back."""
        self.tries += 1
        self.line("invoke", id=self.tries, who=f"{user}/1", user=user, op=op, vars=variables)
        return self.line("answer", id=self.tries, code=code, value=value)

    def send(self, user: str, text: str, id: str, seq: int, conversation: str = PAIR, *, key: bool = True) -> Json:
        given = {"content": text} | ({"idempotencyKey": text} if key else {})
        value = {"message": {"id": id, "conversationId": conversation, "seq": seq, "content": text}, "replayed": False}
        return self.ask(user, "sendMessage", {"input": given}, value)

    def lose(self, whose: str = "all") -> None:
        self.line("fault", name="loss", state="begins", lost=whose)

    def judged(self) -> list[str]:
        """The kinds of what is wrong, each once."""
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
    }  # fmt: skip
    return plain | {"id": f"s_{user}_{PAIR}"} | fields


def row(id: str, conversation: str, seq: int, sender: str, text: str, **more: object) -> Json:
    plain = {"kind": "TEXT", "key": text}
    return plain | {"id": id, "conversation": conversation, "seq": seq, "sender": sender, "text": text} | more


def test_a_history_that_is_right_has_nothing_wrong() -> None:
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


def _show_what_is_not_stored(story: Story) -> None:
    story.event["event"]["message"] = message("m_9", 9, "nine")


def _move(story: Story) -> None:
    story.page["value"] = page(message("m_1", 1, "one"), message("m_2", 3, "two"))


def _take_a_place(story: Story) -> None:
    story.stored["messages"].append(row("m_4", PAIR, 2, "b", "four"))


def _turn_a_page_round(story: Story) -> None:
    story.page["value"]["edges"].reverse()


def _place_below(story: Story) -> None:
    story.send("a", "late", "m_0", 0)
    for fresh in (story.fresh_a, story.fresh_b):
        fresh["histories"][PAIR] = [message("m_0", 0, "late"), *fresh["histories"][PAIR]]
    story.stored["messages"].append(row("m_0", PAIR, 0, "a", "late"))


def _leave_out_of_a_page(story: Story) -> None:
    story.page["value"]["edges"].pop()


def _show_a_stranger(story: Story) -> None:
    story.page["value"]["edges"].append({"node": message("m_5", 5, "five", conversationId=GROUP)})
    story.line("event", who="a/1", user="a", of="live", live=True, event={"__typename": "MessageCreated", "message": message("m_5", 5, "five", conversationId=GROUP)})  # fmt: skip
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


def _add_up_wrongly_meanwhile(story: Story) -> None:
    sessions = [session("b", unreadCount=1, writeSeq=2, readSeq=1, activeTs=60)]
    story.ask("b", "syncSessions", {"since": None}, {"sessions": sessions, "hasMore": False, "totalUnread": 0})


def _answer_before_it_is_shown(story: Story) -> None:
    story.second["value"]["session"] = session("a", writeSeq=1, readSeq=1, deliveredSeq=1)


def _unread(story: Story) -> None:
    story.ask("b", "session", {"id": PAIR}, session("b", writeSeq=2, activeTs=60))


def _turn_the_clock_back(story: Story) -> None:
    story.ask("b", "session", {"id": PAIR}, session("b", writeSeq=2, readSeq=1, activeTs=29))


def _forget_what_was_told(story: Story) -> None:
    story.ask("b", "session", {"id": PAIR}, session("b", writeSeq=1, readSeq=1, activeTs=60))


def _forget_what_was_sent(story: Story) -> None:
    story.ask("a", "session", {"id": PAIR}, session("a", writeSeq=2, readSeq=1))


def _take_ticks_back(story: Story) -> None:
    for count in (1, 0):
        story.ask("a", "ticks", {"id": "m_1"}, {"id": "m_1", "delivery": {"deliveredCount": 1, "readCount": count}})


def _read_for_another(story: Story) -> None:
    story.fresh_a["sessions"][PAIR]["peerReadSeq"] = 2


@pytest.mark.parametrize(
    ("spoil", "kinds"),
    [
        (_unstore, ["lost", "vanished"]),
        (_hide, ["lost"]),
        (_store_twice, ["doubled"]),
        (_answer_twice, ["doubled", "lost"]),
        (_store_twice_after_a_loss_of_another, ["doubled"]),
        (_show_what_is_not_stored, ["vanished"]),
        (_move, ["moved"]),
        (_take_a_place, ["moved"]),
        (_turn_a_page_round, ["disordered"]),
        (_place_below, ["disordered"]),
        (_leave_out_of_a_page, ["missing"]),
        (_show_a_stranger, ["outside"]),
        (_show_a_key, ["key"]),
        (_revive, ["revived"]),
        (_forget_an_edit, ["revived"]),
        (_count_one_too_few, ["miscounted"]),
        (_miss_a_mention, ["miscounted"]),
        (_add_up_wrongly, ["miscounted"]),
        (_add_up_wrongly_meanwhile, ["miscounted"]),
        (_answer_before_it_is_shown, ["unshown"]),
        (_unread, ["backwards"]),
        (_turn_the_clock_back, ["backwards"]),
        (_forget_what_was_told, ["backwards"]),
        (_forget_what_was_sent, ["backwards"]),
        (_take_ticks_back, ["ticks backwards"]),
        (_read_for_another, ["ahead"]),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
def test_each_kind_of_violation_is_found_and_no_other_is_suspected(
    spoil: Callable[[Story], None], kinds: list[str]
) -> None:
    story = Story()
    spoil(story)
    assert story.judged() == kinds


def test_a_key_that_was_lost_with_redis_between_two_tries_is_counted_apart() -> None:
    story = Story()
    story.ask("a", "sendMessage", {"input": {"content": "three", "idempotencyKey": "three"}}, None, "lost")
    story.lose()
    story.send("a", "three", "m_4", 4)
    story.stored["messages"] += [row("m_3", PAIR, 3, "a", "three"), row("m_4", PAIR, 4, "a", "three")]
    story.fresh_a["histories"] = {PAIR: [message(f"m_{n}", n, "") for n in range(1, 5)]}
    assert story.judged() == [KNOWN_LIMIT]


def test_of_two_requests_at_one_time_either_may_be_answered_first() -> None:
    story = Story()
    story.line("invoke", id=90, who="b/1", user="b", op="session", vars={"id": PAIR})
    story.line("invoke", id=91, who="b/2", user="b", op="session", vars={"id": PAIR})
    story.line("answer", id=91, code="ok", value=session("b", writeSeq=2, readSeq=2, activeTs=70))
    story.line("answer", id=90, code="ok", value=session("b", writeSeq=2, readSeq=1, activeTs=60))
    assert story.judged() == []


def test_a_fault_is_over_with_the_first_send_and_the_first_delivery_that_began_after_it() -> None:
    story = Story()
    story.line("fault", name="a fault", state="begins")
    story.ask("b", "session", {"id": PAIR}, session("b", writeSeq=2, readSeq=1, activeTs=60))
    story.ask("b", "session", {"id": PAIR}, None, "UNAVAILABLE")
    story.line("fault", name="a fault (of a kind)", state="healed")
    healed = story.now
    story.line("event", who="b/1", user="b", of="live", live=True, event={"__typename": "MessageCreated", "message": message("m_2", 2, "two")})  # fmt: skip
    story.send("a", "three", "m_3", 3)
    answered = story.now
    story.line("event", who="b/1", user="b", of="live", live=True, event={"__typename": "MessageCreated", "message": message("m_3", 3, "three")})  # fmt: skip
    found = recoveries(story.lines, Record.of(story.lines))
    assert found == [Recovery("a fault (of a kind)", answered - healed, story.now - healed, 2, 1, 1.0)]
