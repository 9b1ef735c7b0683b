"""One user's session of a conversation, as a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from store.base.ids import ConversationId, UserId


@dataclass(frozen=True, slots=True)
class Session:
    """One user's context of one conversation, or of a subBiz (its gateway). `record`: as the scripts keep it (its fields:
    `_sessions.lua`)."""

    user: UserId
    conversation: ConversationId
    record: Mapping[str, Any]

    @property
    def is_gateway(self) -> bool:
        """Whether it stands for all sessions of a subBiz."""
        return self.conversation.startswith("b_")

    @property
    def valid(self) -> bool:
        """Not deleted, or alive again since a countable message came after the deletion; of no group that has ended. A gateway: one
        inside is."""
        if self.is_gateway:
            return bool(self.record.get("gn"))
        if "dd" in self.record or (self.write_seq == 0 and self.conversation.startswith("p_")):
            return False
        return "xn" not in self.record or self.n > self.record["xn"]

    @property
    def frozen(self) -> bool:
        """Of a former member: nothing that happens in the group reaches it any more."""
        return "f" in self.record

    @property
    def exists(self) -> bool:
        """A private conversation exists from its first message."""
        return self.write_seq > 0 or not self.conversation.startswith("p_")

    @property
    def write_seq(self) -> int:
        return int(self.record["s"])

    @property
    def n(self) -> int:
        """Countable messages up to writeSeq."""
        return int(self.record["n"])

    @property
    def read_seq(self) -> int:
        """How far the user is done with it: read, deleted, or in a group that has ended."""
        return max(self.acknowledged_seq, self._gone_seq)

    @property
    def acknowledged_seq(self) -> int:
        """How far the user has read as the senders know it: deleting tells them nothing."""
        return int(self.record["r"])

    @property
    def read_n(self) -> int:
        """Countable messages up to acknowledged_seq."""
        return int(self.record["rn"])

    @property
    def delivered_seq(self) -> int:
        return max(int(self.record["d"]), self._gone_seq)

    @property
    def _gone_seq(self) -> int:
        return self.write_seq if "dd" in self.record else int(self.record.get("x", 0))

    @property
    def received_seq(self) -> int:
        """How far the user has received as the senders know it: deleting tells them nothing."""
        return int(self.record["d"])

    @property
    def unread_count(self) -> int:
        """Countable messages after what was read or deleted; a gateway: of all inside that are not muted."""
        if self.is_gateway:
            return int(self.record.get("gu", 0))
        return max(0, self.n - max(self.read_n, self.record.get("xn", 0))) if self.valid else 0

    @property
    def unread_mention_count(self) -> int:
        """Of the unread messages, those that mention the user or everybody."""
        if self.is_gateway:
            return int(self.record.get("gq", 0))
        return sum(seq > self.read_seq for seq in self.record.get("ms", ())) if self.valid else 0

    @property
    def unread_status(self) -> bool:
        """Marked unread, and not read since: reading further, by sending too, takes the mark away."""
        return "us" in self.record and self.acknowledged_seq <= self.record["us"]

    @property
    def muted(self) -> bool:
        return self.record.get("m") == 1

    @property
    def muted_until_ms(self) -> int | None:
        return int(self.record["mu"]) if "mu" in self.record else None

    @property
    def priority(self) -> int:
        return int(self.record["p"])

    @property
    def category(self) -> str | None:
        return self.record.get("ca")

    @property
    def sub_biz(self) -> str | None:
        """The subBiz it is in. A gateway is in none."""
        return self.record.get("sb")

    @property
    def active_ts(self) -> int:
        return int(self.record["a"])

    @property
    def write_ts(self) -> int:
        return int(self.record["w"])

    @property
    def peer_read_seq(self) -> int:
        return int(self.record.get("pr", 0))

    @property
    def peer_delivered_seq(self) -> int:
        return int(self.record.get("pd", 0))

    @property
    def newest_inside(self) -> ConversationId | None:
        """The conversation inside a subBiz that was written to last. Gateways only."""
        inside = self.record.get("lc")
        return ConversationId(inside) if inside else None


def session_from(user: UserId, conversation: ConversationId, record: bytes) -> Session:
    """A session from the record that the scripts keep."""
    return Session(user, conversation, orjson.loads(record))
