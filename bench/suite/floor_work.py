"""The minimum work of the databases: the round trips of the design by the bare drivers, without any check.

Each script of Confab is one plain command here, also for each member of a group. Waiting commands are sent
together, as Confab's writes are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import orjson
from pymongo import AsyncMongoClient, UpdateOne
from pymongo.write_concern import WriteConcern
from redis.asyncio import Redis

T = TypeVar("T")
R = TypeVar("R")

DATABASE = "bench_floor"
TRIPS = {"private": (1, 2), "group": (1, 2), "sessions": (0, 2), "sync": (0, 2), "history": (1, 1), "read": (1, 2)}
"""Round trips by operation, to MongoDB and to Redis."""

_BATCH = 200
_PAGE = 50


class Batcher(Generic[T, R]):
    """Executes waiting items in one batch, one batch after the other."""

    def __init__(self, work: Callable[[list[T]], Awaitable[Sequence[R]]]) -> None:
        self._work = work
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._task: asyncio.Task[None] | None = None

    def __call__(self, item: T) -> asyncio.Future[R]:
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return future

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
            for (_, future), result in zip(batch, await self._work([item for item, _ in batch]), strict=True):
                future.set_result(result)
        self._task = None


class Message:
    """A message being sent."""

    __slots__ = ("at", "conversation", "id", "members", "sender", "seq", "text")

    def __init__(self, sender: str, conversation: str, members: Sequence[str], text: str) -> None:
        self.sender = sender
        self.conversation = conversation
        self.members = members
        self.text = text
        self.at = time.time_ns()
        self.id = self.at
        self.seq = 0


class Databases:
    """The round trips."""

    def __init__(self, mongo_url: str, redis_url: str) -> None:
        self._redis = Redis.from_url(redis_url)
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(mongo_url, retryWrites=False)
        database = client.get_database(DATABASE, write_concern=WriteConcern(w="majority", j=True))
        self._messages, self._heads = database["messages"], database["conversations"]
        self._sessions, self._marks = database["sessions"], database["receipts"]
        self.reserve: Batcher[Message, int] = Batcher(self._reserve)
        self.commit: Batcher[Message, None] = Batcher(self._commit)
        self.show: Batcher[Message, None] = Batcher(self._show)

    async def open(self) -> None:
        await self._messages.create_index([("c", 1), ("b", 1), ("s", 1)], unique=True)

    # A message.

    async def _reserve(self, batch: list[Message]) -> list[int]:
        pipeline = self._redis.pipeline(transaction=False)
        for message in batch:
            pipeline.hincrby("floor:heads", message.conversation, 1)
            pipeline.xadd("floor:outbox", {"m": message.text})
        results = await pipeline.execute()
        return [int(seq) for seq in results[::2]]

    async def _commit(self, batch: list[Message]) -> list[None]:
        rows = [
            {"_id": m.id, "c": m.conversation, "b": 0, "s": m.seq, "n": m.seq, "u": m.sender, "k": "T", "t": m.text}
            for m in batch
        ]
        heads = [
            UpdateOne({"_id": m.conversation}, {"$max": {"s": m.seq, "n": m.seq, "w": m.at}}, upsert=True)
            for m in batch
        ]
        await asyncio.gather(
            self._messages.insert_many(rows, ordered=False),
            self._heads.bulk_write(heads, ordered=False),
        )
        return [None] * len(batch)

    async def _show(self, batch: list[Message]) -> list[None]:
        pipeline = self._redis.pipeline(transaction=False)
        for message in batch:
            record = orjson.dumps({"s": message.seq, "t": message.text})
            for member in message.members:
                pipeline.hset(f"floor:sessions:{member}", message.conversation, record)
            pipeline.xtrim("floor:outbox", maxlen=100)
        await pipeline.execute()
        return [None] * len(batch)

    # Reading.

    async def page(self, user: str) -> list[Any]:
        """Return the newest sessions: first their order, then the sessions."""
        names = await self._redis.zrange(f"floor:list:{user}", 0, _PAGE - 1, desc=True)
        return await self._listed(user, names)

    async def changed(self, user: str) -> list[Any]:
        """Return the three sessions that changed last."""
        names = await self._redis.zrange(f"floor:list:{user}", 0, 2, desc=True)
        return await self._listed(user, names)

    async def _listed(self, user: str, names: Any) -> list[Any]:
        values: Any = await self._redis.hmget(f"floor:sessions:{user}", names) if names else []
        return [orjson.loads(value) for value in values]

    async def history(self, user: str, conversation: str) -> list[Any]:
        """Return the newest messages, with one check in parallel whether the user may read them."""
        await self._redis.hget(f"floor:sessions:{user}", conversation)
        cursor = self._messages.find({"c": conversation, "b": 0}, sort=[("s", -1)], limit=_PAGE, batch_size=_PAGE + 1)
        return [row["node"] for row in await cursor.to_list(None)]

    async def read(self, user: str, conversation: str) -> None:
        """Change one row and insert one mark, between two round trips to Redis."""
        now = time.time_ns()
        await self._redis.set(f"floor:lock:{user}", now, px=5000)
        await asyncio.gather(
            self._sessions.update_one(
                {"_id": f"{user} {conversation}"}, {"$max": {"r": 500, "rn": 500, "a": now}}, upsert=True
            ),
            self._marks.insert_one({"_id": f"{conversation} {user} {now}", "at": now}),
        )
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.hset(f"floor:sessions:{user}", conversation, now)
        pipeline.delete(f"floor:lock:{user}")
        await pipeline.execute()


def shown(message: Message) -> dict[str, Any]:
    """Return a message as clients see it."""
    return {
        "id": f"m_{message.id}",
        "conversationId": message.conversation,
        "seq": message.seq,
        "content": message.text,
        "contentType": "TEXT",
        "state": "NORMAL",
        "createdAt": datetime.fromtimestamp(message.at / 1e9, UTC).isoformat(),
        "sender": {"id": message.sender, "displayName": f"Person {message.sender}", "avatarUrl": None},
    }


def session_of(message: Message) -> dict[str, Any]:
    """Return the sender's session after the message."""
    ms = message.at // 1_000_000
    return {
        "id": f"s_{message.sender}_{message.conversation}",
        "writeSeq": message.seq,
        "readSeq": message.seq,
        "unreadCount": 0,
        "activeTs": ms,
        "writeTs": ms,
    }
