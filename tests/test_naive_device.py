"""The naive device asks again where an answer is older than the events that it has already applied."""

from __future__ import annotations

from tests.naive_device import Json, NaiveDevice

GROUP = "g_1"


def session(**fields: object) -> Json:
    plain = {
        "conversation": {"id": GROUP}, "status": "ACTIVE", "activeTs": 10, "writeTs": 10, "writeSeq": 1, "readSeq": 1,
        "deliveredSeq": 1, "unreadCount": 0, "unreadMentionCount": 0, "unreadStatus": False, "muteStatus": False,
        "peerReadSeq": None, "peerDeliveredSeq": None, "subBiz": None, "lastMessage": None,
    }  # fmt: skip
    return plain | fields


def message(seq: int, **fields: object) -> Json:
    plain = {
        "id": f"m_{seq}", "seq": seq, "conversationId": GROUP, "sender": {"id": "ann"}, "contentType": "TEXT",
        "content": "hello", "state": "NORMAL", "editCount": 0, "mentionsAll": False, "mentions": [],
    }  # fmt: skip
    return plain | fields


def test_an_answer_without_a_mention_that_an_event_showed_is_asked_for_again() -> None:
    device = NaiveDevice("ben")
    device.take(session())
    device.apply_created(message(3))
    assert device.to_ask == {GROUP}
    device.to_ask.clear()
    device.apply_created(message(2, mentions=[{"id": "ben"}]))
    device.take(session(activeTs=20, writeSeq=3, unreadCount=2))
    assert device.to_ask == {GROUP}
    device.to_ask.clear()
    device.take(session(activeTs=30, writeSeq=3, unreadCount=2, unreadMentionCount=1))
    assert not device.to_ask
    assert device.differences({GROUP: session(writeSeq=3, unreadCount=2, unreadMentionCount=1)}, 2) == []
