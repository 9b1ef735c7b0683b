"""A deployment for chat imports, and access to its rows and keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis import Redis

from server.chat_import.command import ImportSummary, import_chat
from server.chat_import.log_file import read_chat
from server.chat_import.plan import make_plan
from server.services import open_services
from server.settings import Settings
from store.base.clock import SystemClock

SAMPLE = Path(__file__).parents[1] / "data" / "irc-sample.jsonl"
GROUP = "#sailing [test]"


class DaysLater(SystemClock):
    def now_ms(self) -> int:
        return super().now_ms() + 3 * 24 * 3600 * 1000


@dataclass(frozen=True)
class Deployment:
    """A database and a key prefix for one test, and direct access to them."""

    settings: Settings
    rows: Any
    keys: Redis

    async def run(
        self, path: Path, report: Callable[[int], None] = lambda _: None, *, later: bool = False, **changed: Any
    ) -> ImportSummary:
        """Run an import with its own services."""
        chat = read_chat(path)
        settings = self.settings.model_copy(update=changed)
        async with open_services(settings, DaysLater() if later else None) as services:
            return await import_chat(services, chat, make_plan(chat), GROUP, report)

    def texts(self) -> list[str]:
        """Return the texts of all messages in order."""
        return [row["t"] for row in self.messages()]

    def messages(self) -> list[dict[str, Any]]:
        return list(self.rows["messages"].find({"k": {"$ne": "S"}}).sort("s", 1))

    def names(self) -> dict[str, str]:
        return {row["_id"]: row["n"] for row in self.rows["users"].find()}

    def members(self) -> set[str]:
        return {row["_id"].split(" ")[1] for row in self.rows["members"].find()}

    def forget_keys(self) -> None:
        """Delete the idempotency keys, as after a day."""
        self._delete("*:key:*")

    def forget_all(self) -> None:
        """Delete all keys of the deployment in Redis."""
        self._delete("*")

    def _delete(self, pattern: str) -> None:
        found = list(self.keys.scan_iter(match=self.settings.redis_prefix + pattern, count=1000))
        if found:
            self.keys.delete(*found)


def expected_texts(path: Path) -> list[str]:
    """Return the texts of a log, read without product code."""
    rows = map(json.loads, path.read_text().splitlines())
    return [row["text"] for row in rows if row["kind"] == "message" and row["text"].strip()]
