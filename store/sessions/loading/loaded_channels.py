"""A user's sessions in channels as a load has read them from MongoDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import orjson

from store.base.ids import ConversationId
from store.sessions.fields import MENTIONED, SessionFields
from store.sessions.session_lists import Record, count_unread_mentions, followed_list, list_entry

_ACTIVE_TS, _FOLLOWS = SessionFields.active_ts.stored, SessionFields.follows.stored
_MUTED, _MUTED_UNTIL = SessionFields.muted.stored, SessionFields.muted_until_ms.stored


@dataclass(slots=True)
class LoadedChannels:
    """Sessions in channels, with their lists. They are in no list of sessions and in no sum.

    Attributes:
        records: All of them.
        entries: Their entries in lists, in no order.
        mute_ends: Ends of mutes (ms), with their channels.
        mentions: Numbers of unread mentions, where there are any and the channel is not muted.
    """

    records: Mapping[ConversationId, Record]
    entries: list[str] = field(init=False, default_factory=list)
    mute_ends: list[tuple[int, ConversationId]] = field(init=False, default_factory=list)
    mentions: dict[ConversationId, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Make the lists. `contribution` in `_lists.lua` has the same rules."""
        for channel, record in self.records.items():
            is_muted = _MUTED in record
            if is_muted and _MUTED_UNTIL in record:
                self.mute_ends.append((int(record[_MUTED_UNTIL]), channel))
            mentions = 0 if is_muted else count_unread_mentions(channel, record)
            if mentions:
                self.mentions[channel] = mentions
                self.entries.append(list_entry(MENTIONED, mentions, channel))
            if _FOLLOWS in record:
                self.entries.append(list_entry(followed_list(channel), 0, channel))

    def parts(self, size: int) -> Iterator[list[Any]]:
        """Yield what `load_part` stores, as its arguments, for up to `size` sessions and entries of lists at once."""
        names = list(self.records)
        for start in range(0, max(len(names), len(self.entries)), size):
            some = names[start : start + size]
            records = [self.records[name] for name in some]
            words: list[Any] = []
            for key, pairs in (
                ("channels", zip(some, map(orjson.dumps, records), strict=True)),
                ("channel_index", zip((int(record[_ACTIVE_TS]) for record in records), some, strict=True)),
                ("channel_list", zip(repeat(0), self.entries[start : start + size], strict=False)),
            ):
                members = list(chain.from_iterable(pairs))
                words += (key, len(members), *members)
            yield words

    @property
    def totals(self) -> list[Any]:
        """Arguments of `load_channels_finish` after the token."""
        return [len(self.records), len(self.entries), *chain.from_iterable(self.mute_ends)]
