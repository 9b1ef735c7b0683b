"""The readable part of a thread in a channel: by seq, and by the place of each reply in the channel."""

from __future__ import annotations

import pytest

from store.base.ids import ConversationId, MessageId, UserId, thread_id
from store.base.snowflakes import EPOCH_MS, first_id_at
from store.channels.channel_history import ChannelHistory
from store.messages.message import Message, MessageKind

CHANNEL = ConversationId("c_1.1")
PARENT = 5


def reply(parent_seq: int) -> Message:
    thread = thread_id(CHANNEL, PARENT)
    return Message(MessageId(1), thread, UserId("alice"), MessageKind.TEXT, "", seq=1, parent_seq=parent_seq)


@pytest.mark.parametrize(
    ("ranges", "readable"),
    [
        ([(1, None)], {5, 7, 9, 12}),
        ([(5, None)], {5, 7, 9, 12}),
        ([(6, None)], set()),
        ([(1, 7)], {5, 7}),
        ([(1, 4)], set()),
        ([(1, 7), (10, None)], {5, 7, 12}),
        ([(1, 2), (4, None)], {5, 7, 9, 12}),
    ],
)
def test_replies_are_readable_as_the_channel_is_at_their_time(
    ranges: list[tuple[int, int | None]], readable: set[int]
) -> None:
    history = ChannelHistory(ranges, 0)
    assert {at for at in (5, 7, 9, 12) if history.has_reply(PARENT, None, reply(at))} == readable
    assert history.has_parent(PARENT, None) is bool(readable)


def test_a_thread_is_readable_if_its_parent_was_sent_after_the_reader_joined() -> None:
    joined_at_ms = EPOCH_MS + 1_000
    history, first = ChannelHistory(None, joined_at_ms), MessageId(first_id_at(joined_at_ms))
    for parent, is_readable in ((first, True), (MessageId(first - 1), False), (None, False)):
        assert history.has_parent(PARENT, parent) is is_readable
        assert history.has_reply(PARENT, parent, reply(5)) is is_readable
