"""The typed change of a session in whose conversation messages expire: see `store/sessions/changes.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from store.base.ids import ConversationId


@dataclass(frozen=True, slots=True)
class Expire:
    """Messages up to `seq` are expired; `n`: countable messages up to there.

    It is an event of the session only if the user sees a difference. No row stores it: a load takes it from the head.
    """

    kind: ClassVar[str] = "expire"
    conversation: ConversationId
    seq: int
    n: int

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the floor."""
        return {"c": self.conversation, "s": self.seq, "n": self.n}
