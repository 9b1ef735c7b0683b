"""Completeness of a search at one moment."""

from __future__ import annotations

from typing import NamedTuple

from store.base.clock import Clock
from store.search.index_states import IndexStates
from store.search.unindexed_messages import UnindexedList, UnindexedMessages


class Completeness(NamedTuple):
    """Completeness of a search.

    Attributes:
        is_past_indexed: All messages are in the index, or wait for it. False also if that is not known.
        waiting: The messages that wait for the index. A search has to compare them too.
        indexed_up_to_ms: All messages that were sent before this time are in the index as they were then, or wait.
    """

    is_past_indexed: bool
    waiting: UnindexedList
    indexed_up_to_ms: int

    @property
    def is_complete(self) -> bool:
        """True if a search misses no message when it asks the index and compares the messages that wait."""
        return self.is_past_indexed and self.waiting.is_whole


class SearchCompleteness:
    """Finds out how far the index is complete.

    It compares the notes in Redis with the state in MongoDB that this process read a second or two ago.
    """

    def __init__(self, waiting: UnindexedMessages, states: IndexStates, clock: Clock) -> None:
        self._waiting = waiting
        self._states = states
        self._clock = clock

    async def read(self) -> Completeness:
        """Return the completeness of a search that asks the index after this call. One round trip to Redis.

        Every message that was sent or edited before the call is in `waiting` or in the index; otherwise `is_complete`
        is False. Raises Unreachable.
        """
        now = self._clock.now_ms()
        waiting, known = await self._waiting.list_all(), self._states.known
        # Searches find the messages that wait. Their times would say when others wrote.
        times = [] if waiting.is_whole else [message.changed_at_ms for message in waiting.messages]
        past = known.state.indexed_up_to_ms if known is not None else 0
        is_known = known is not None and known.is_fresh and not known.is_recovering
        if known is None or not is_known or not waiting.epoch or known.epoch != waiting.epoch:
            # Redis may have been lost: messages that were sent before its present epoch may not be noted.
            begin = int(waiting.epoch.partition("-")[0]) if waiting.epoch else 0
            return Completeness(False, waiting, min([now, *times, begin if past is None else min(past, begin)]))
        return Completeness(past is None, waiting, min([now, *times, *([] if past is None else [past])]))
