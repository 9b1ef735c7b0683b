"""Messages are indexed in parts that MongoDB writes in a short time, however long their texts are."""

from __future__ import annotations

import pytest

from store.base.ids import MessageId, UserId, private_id
from store.messages.message import Message, MessageKind
from store.search.index_parts import MOST_CHARACTERS, index_parts

TALK = private_id(UserId("anna"), UserId("bert"))


def messages_of(*lengths: int) -> list[Message]:
    return [
        Message(MessageId(seq), TALK, UserId("anna"), MessageKind.TEXT, "x" * length, seq, seq)
        for seq, length in enumerate(lengths, 1)
    ]


@pytest.mark.parametrize(
    ("lengths", "sizes"),
    [
        ([], []),
        ([10] * 7, [3, 3, 1]),
        ([10] * 6, [3, 3]),
        ([MOST_CHARACTERS, 1, MOST_CHARACTERS - 1, 1], [1, 2, 1]),
        ([MOST_CHARACTERS + 1] * 2, [1, 1]),
    ],
)
def test_parts_are_bounded_and_hold_each_message_once(lengths: list[int], sizes: list[int]) -> None:
    messages = messages_of(*lengths)
    parts = list(index_parts(messages, 3))
    assert [len(part) for part in parts] == sizes
    assert [message for part in parts for message in part] == messages
