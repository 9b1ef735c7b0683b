"""Processes of one deployment with clocks that tests move, on an event loop that lasts between steps."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from pymongo import MongoClient
from redis import Redis

from server.services import open_services
from server.settings import UNLIMITED, load_settings
from tests.api.client import TIMEOUT_SECONDS, Api, parse_refusal
from tests.checking import find_differences
from tests.clock import ManualClock
from tests.invariants.model.sessions import Json, Op, date_time
from tests.user_ids import people_of

SESSION = """
    id writeSeq readSeq deliveredSeq readCount unreadCount unreadMentionCount unreadStatus muteStatus mutedUntil
    priority categoryId subBiz status activeTs writeTs peerReadSeq peerDeliveredSeq conversation { id }
    lastMessage { seq conversationId state editCount reactions { emoji count } }
"""
GROUP = """title name avatarUrl metadata memberCount viewerRole historyVisibility status owner { id }
    visibleRanges { fromSeq toSeq } lastMessage { seq } members { edges { node { role user { id } } } }"""
REVISED = "content editCount"
CREATE_GROUP = "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id } }"
SYNC = f"""query ($since: Cursor, $first: Int = 100) {{ syncSessions(since: $since, first: $first) {{
    cursor hasMore totalUnread reset sessions {{ {SESSION} }} }} }}"""


def _change_session(parameters: str, call: str) -> str:
    return f"mutation ({parameters}) {{ {call} {{ {SESSION} }} }}"


def _change_group(parameters: str, call: str) -> str:
    return f"mutation ({parameters}) {{ {call} {{ {GROUP} }} }}"


DOCUMENTS = {
    "send": f"""mutation ($input: SendMessageInput!) {{ sendMessage(input: $input) {{
        message {{ id seq }} session {{ {SESSION} }} }} }}""",
    "read": _change_session("$id: ID!, $seq: Int", "markRead(conversationId: $id, upToSeq: $seq)"),
    "receive": _change_session("$id: ID!, $seq: Int!", "ackDelivered(conversationId: $id, upToSeq: $seq)"),
    "read_many": _change_session("$ids: [ID!]", "markManyRead(conversationIds: $ids)"),
    "receive_many": _change_session("$marks: [DeliveryMark!]!", "ackManyDelivered(marks: $marks)"),
    "delete": _change_session("$id: ID!, $hard: Boolean", "deleteSession(conversationId: $id, hard: $hard)"),
    "mute": _change_session(
        "$id: ID!, $muted: Boolean!, $until: DateTime", "muteSession(conversationId: $id, muted: $muted, until: $until)"
    ),
    "pin": _change_session("$id: ID!, $priority: Int", "pinSession(conversationId: $id, priority: $priority)"),
    "remind": _change_session("$id: ID!", "setUnread(conversationId: $id)"),
    "assign": _change_session(
        "$ids: [ID!]!, $category: ID", "assignCategory(conversationIds: $ids, categoryId: $category)"
    ),
    "invite": _change_group("$id: ID!, $users: [ID!]!", "inviteMembers(groupId: $id, userIds: $users)"),
    "remove": _change_group("$id: ID!, $user: ID!", "removeMember(groupId: $id, userId: $user)"),
    "transfer": _change_group("$id: ID!, $user: ID!", "transferOwner(groupId: $id, userId: $user)"),
    "role": _change_group(
        "$id: ID!, $user: ID!, $role: GroupRole!", "setMemberRole(groupId: $id, userId: $user, role: $role)"
    ),
    "update": _change_group("$id: ID!, $input: UpdateGroupInput!", "updateGroup(groupId: $id, input: $input)"),
    "edit": f"""mutation ($id: ID!, $content: String!) {{
        editMessage(messageId: $id, content: $content) {{ {REVISED} }} }}""",
    "recall": f"mutation ($id: ID!) {{ recallMessage(messageId: $id) {{ {REVISED} }} }}",
    "react": "mutation ($id: ID!, $emoji: String!) { addReaction(messageId: $id, emoji: $emoji) { id } }",
    "unreact": "mutation ($id: ID!, $emoji: String!) { removeReaction(messageId: $id, emoji: $emoji) { id } }",
    "clear": "mutation ($id: ID!, $emoji: String) { clearReactions(messageId: $id, emoji: $emoji) { id } }",
    "pin_message": "mutation ($id: ID!) { pinMessage(messageId: $id) { id } }",
    "unpin_message": "mutation ($id: ID!) { unpinMessage(messageId: $id) { id } }",
    "leave": "mutation ($id: ID!) { leaveGroup(groupId: $id) }",
    "dismiss": "mutation ($id: ID!) { dismissGroup(groupId: $id) }",
    "dissolve": "mutation ($id: ID!) { deleteConversation(conversationId: $id) }",
}


def variables(op: Op, ids: Mapping[tuple[str, int], str]) -> Json:
    """Return the variables of a mutation. ids: of messages, by conversation and seq."""
    match op.kind:
        case "send":
            mentions, mentions_all, text, reply = op.value
            to: Json = {"conversationId": op.target, "mentionAll": mentions_all}
            if op.target.startswith("p_"):
                (peer,) = (user for user in people_of(op.target) if user != op.user)
                to = {"toUserId": peer, "subBiz": op.target.partition("~")[2] or None}
            answered = ids[op.target, reply] if reply is not None else None
            return {"input": to | {"content": text, "mentions": mentions, "replyToId": answered}}
        case "read" | "receive":
            return {"id": op.target, "seq": op.value}
        case "read_many":
            return {"ids": op.value}
        case "receive_many":
            return {"marks": [{"conversationId": name, "upToSeq": seq} for name, seq in op.value]}
        case "delete":
            return {"id": op.target, "hard": op.value}
        case "mute":
            until = date_time(op.value) if op.value else None
            return {"id": op.target, "muted": op.value is not False, "until": until}
        case "pin":
            return {"id": op.target, "priority": op.value}
        case "assign":
            return {"ids": op.value[0], "category": op.value[1]}
        case "invite":
            return {"id": op.target, "users": op.value}
        case "edit":
            return {"id": ids[op.target, op.value[0]], "content": op.value[1]}
        case "react" | "unreact" | "clear":
            return {"id": ids[op.target, op.value[0]], "emoji": op.value[1]}
        case "pin_message" | "unpin_message":
            return {"id": ids[op.target, op.value]}
        case "recall":
            return {"id": ids[op.target, op.value[0]]}
        case "remove" | "transfer":
            return {"id": op.target, "user": op.value}
        case "role":
            return {"id": op.target, "user": op.value[0], "role": op.value[1]}
        case "update":
            return {"id": op.target, "input": op.value}
        case _:
            return {"id": op.target}


class ClockedDeployment:
    """The processes and their loop, and the loss of their keys in Redis.

    `ids` are those of all messages that were seen, by conversation and seq.
    """

    def __init__(
        self, mongo_url: str, redis_url: str, mongo: MongoClient[Json], redis: Redis, process_count: int = 2
    ) -> None:
        mark = secrets.token_hex(6)
        self.steps: Counter[str] = Counter()
        self.clocks = tuple(ManualClock() for _ in range(process_count))
        self._prefix, self._database = f"t{mark}:", f"test_{mark}"
        self._settings = load_settings(
            **UNLIMITED,
            mongo_url=mongo_url,
            redis_url=redis_url,
            mongo_database=self._database,
            redis_prefix=self._prefix,
        )
        self._mongo, self._redis = mongo, redis
        self._runner = asyncio.Runner()
        self._open = AsyncExitStack()
        self.apis: tuple[Api, ...] = ()
        self.ids: dict[tuple[str, int], str] = {}

    def open(self) -> None:
        self.apis = tuple(self.run(self._process(clock)) for clock in self.clocks)

    async def _process(self, clock: ManualClock) -> Api:
        services = await self._open.enter_async_context(open_services(self._settings, clock))
        return Api(services, self._mongo, self._database)

    def close(self) -> None:
        self.run(self._open.aclose())
        self._runner.close()
        self.lose()
        self._mongo.drop_database(self._database)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    @property
    def now(self) -> int:
        """The time of the deployment, in ms."""
        times = {api.services.app.store.clock.now_ms() for api in self.apis}
        assert len(times) == 1, "the processes disagree about the time"
        return times.pop()

    def move_clocks(self, by: Sequence[int]) -> None:
        for clock, ms in zip(self.clocks, by, strict=True):
            clock.ms += ms

    async def call(self, op: Op, process: int) -> Any:
        """Send a mutation. Returns the value of its field, or its error."""
        response = await self.apis[process].run(op.user, DOCUMENTS[op.kind], **variables(op, self.ids))
        if "errors" in response:
            return parse_refusal(response["errors"][0])
        (value,) = response["data"].values()
        return value

    async def quiet(self, *, published: bool = True) -> None:
        """Wait until nothing is under way. published: also until the last reactions are, 500 ms after those before."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            for api in (*self.apis, *self.apis):
                await api.wait_until_idle()
                app = api.services.app
                events = app.reactions.notify.__self__  # type: ignore[attr-defined]
                while app.bus._sending or (published and events.pending):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)

    async def check_derived_data(self) -> None:
        """Check that all stored numbers and cached states agree with the records, as `confab check` does."""
        await self.quiet()
        found = await find_differences(self.apis[0].services.app.store)
        assert not found, "\n".join(map(str, found))

    async def housekeeping(self) -> None:
        """Do now what every process does at intervals of real time, after clocks moved or Redis lost data."""
        for api in (*self.apis, *self.apis):
            # The second time, each process knows the other's clock.
            store = api.services.app.store
            await store.deployment.worker_numbers.lease(store.ids, 0)
        for api in self.apis:
            await api.services.housekeeper.check_redis()
            await api.services.app.hub.check_feeds()

    def lose(self, share: float = 1, seed: int | None = None, marks: dict[str, str] | None = None) -> list[str]:
        """Delete keys from Redis, and return their names.

        With a seed, each key is deleted with the probability `share`, and only keys that may be lost alone at a quiet
        moment. The choice depends on the seed and on the names with `marks` replaced.
        """
        lost = {}
        for key in self._redis.scan_iter(match=f"{self._prefix}*", count=1000):
            name = re.sub(r"\{p:\d+\}", "{p}", key.decode().removeprefix(self._prefix))
            name = re.sub(r"^/\d+", "", name)
            for mark, plain in (marks or {}).items():
                name = name.replace(mark, plain)
            if seed is None:
                lost[key] = name
            elif name not in ("epoch", "sweeper") and not name.endswith("outbox") and ":key:" not in name:
                chance = int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:4]) / 2**32
                if chance < share:
                    lost[key] = name
        if lost:
            self._redis.delete(*lost)
        return sorted(lost.values())
