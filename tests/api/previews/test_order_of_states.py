"""Of two states of a message, the one with other embeds later is the later one, in any order of arrival."""

from __future__ import annotations

import pytest

from resolvers.live.newest_states import NewestStates
from store.base.ids import ConversationId, MessageId, UserId
from store.messages.message import Message, MessageKind
from store.previews.message_embeds import MessageEmbeds

SENT = Message(MessageId(7), ConversationId("g_1"), UserId("ann"), MessageKind.TEXT, "hi", 3, 2)
SHOWN = SENT._replace(embeds=MessageEmbeds(version=1))
EDITED = SHOWN._replace(edits=1)
SUPPRESSED = EDITED._replace(embeds=MessageEmbeds(version=2))
RECALLED = SENT._replace(text=None, edits=1, recalled_at_ms=9)
STATES = (SENT, SHOWN, EDITED, SUPPRESSED, RECALLED)


@pytest.mark.parametrize("later", range(1, len(STATES)))
def test_a_subscriber_never_sees_an_earlier_state_after_a_later_one(later: int) -> None:
    for earlier in STATES[:later]:
        seen = NewestStates()
        assert seen.advance(STATES[later])
        assert STATES[later].is_newer_than(earlier) and not earlier.is_newer_than(STATES[later])
        assert not seen.advance(earlier)
        assert seen.advance(STATES[later])
