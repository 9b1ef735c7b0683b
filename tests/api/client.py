"""A client of the API, as a frontend would use it. Operations go through the engine of a process; nothing is mocked."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
from pymongo import MongoClient

from resolvers.users.callers import Caller, CallerRole
from server.services import Services
from store.base.ids import UserId
from store.mongo.collections import PRESENCES, REPORTS
from store.presence.presence_fields import PresenceField
from store.redis.cache import Call
from store.reports.report import ReportField
from subscriptions.presence.connected_devices import GivenDevice
from subscriptions.transport.engine import (
    ConnectionContext,
    EventStream,
    GraphQLRequest,
    RequestRefused,
)
from tests.api.group_calls import GroupCalls
from tests.api.session_calls import MESSAGE, SESSION, SessionCalls
from tests.api.session_calls import Json as Json
from tests.api.stream_responses import iterate_responses
from tests.clock import DAY_MS, ManualClock
from tests.user_ids import private_id as private_id
from tests.waiting import TIMEOUT_SECONDS as TIMEOUT_SECONDS

SILENCE_SECONDS = 0.12
"""If no event comes within this time, none was sent. Within one process an event takes a few milliseconds."""

EVENT = f"""
    __typename
    ... on MessageCreated {{ cursor message {{ {MESSAGE} }} }}
    ... on MessageUpdated {{ cursor message {{ {MESSAGE} }} }}
    ... on MessageRecalled {{ cursor message {{ {MESSAGE} }} }}
    ... on GroupChanged {{ cursor group {{
        id name title avatarUrl metadata memberCount historyVisibility status owner {{ id }} }} }}
    ... on ReceiptAdvanced {{ cursor conversationId status seq user {{ id }} }}
    ... on ReactionsChanged {{ cursor }}
    ... on PinsChanged {{ cursor }}
    ... on ThreadChanged {{ cursor }}
    ... on TypingStarted {{ conversationId user {{ id }} at }}
    ... on TypingStopped {{ conversationId user {{ id }} at }}
    ... on CaughtUp {{ cursor reset }}
"""

SEND = (
    f"mutation ($input: SendMessageInput!) {{ sendMessage(input: $input) {{ replayed message {{ "
    f"{MESSAGE} }} session {{ {SESSION} }} }} }}"
)
EDIT = f"mutation ($id: ID!, $content: String!) {{ editMessage(messageId: $id, content: $content) {{ {MESSAGE} }} }}"
RECALL = f"mutation ($id: ID!) {{ recallMessage(messageId: $id) {{ {MESSAGE} }} }}"
CREATE_GROUP = "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id memberCount } }"
INVITE = "mutation ($id: ID!, $users: [ID!]!) { inviteMembers(groupId: $id, userIds: $users) { id memberCount } }"
UPSERT_USERS = "mutation ($input: [UserInput!]!) { upsertUsers(input: $input) { id displayName avatarUrl isBot } }"
HISTORY = f"""query (
    $id: ID!, $first: Int, $after: String, $last: Int, $before: String, $aroundSeq: Int, $fromSeq: Int
) {{
    messages(
        conversationId: $id, first: $first, after: $after, last: $last, before: $before, aroundSeq: $aroundSeq,
        fromSeq: $fromSeq
    ) {{
        pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }} edges {{ cursor node {{ {MESSAGE} }}
        }} }} }}"""
SYNC = f"""query ($since: Cursor, $first: Int = 100) {{ syncSessions(since: $since, first: $first) {{
    cursor hasMore totalUnread reset sessions {{ {SESSION} }} }} }}"""
_HASH_OF_NOTHING = hashlib.md5(b"").hexdigest()
"""Hash of an empty collection. Building an index makes one, at any time."""

_WRITTEN_BEHIND = {"deployment", "expired", "leases", "search", "webhook_events", "webhook_lines", "webhook_log"}
"""Collections that servers write at any time: for themselves, and behind the deliveries of messages."""

_FIELDS_WRITTEN_LATER = {PRESENCES: PresenceField.SEEN, REPORTS: ReportField.NOTE_DUE}
"""When a user was last seen is stored 15 s after they left; that webhooks know of a report, when they do."""

_CONVERSATIONS = ("p_", "g_", "b_", "c_", "t_")
LIVE_MESSAGES = (
    f"subscription ($since: Cursor, $id: ID) {{ messageEvents(since: $since, conversationId: $id) {{ {EVENT} }} }}"
)
LIVE_SESSIONS = f"""subscription ($since: Cursor) {{ syncSession(since: $since) {{
    reason hasMore totalUnread cursor reset sessions {{ {SESSION} }} }} }}"""


@dataclass(frozen=True)
class Refusal:
    """The fields of an error that clients act on."""

    code: str
    field: str | None = None
    retryable: bool = False


def make_caller(user: str, role: CallerRole = CallerRole.USER, name: str | None = None) -> Caller:
    return Caller(UserId(user), role, time.time() + 3600, name)


class Subscriber:
    """One subscription of one device. It reads events as fast as they come."""

    def __init__(self, stream: EventStream, depart: Callable[[], Awaitable[None]] | None = None) -> None:
        """depart: called when the subscription has ended."""
        self._stream = stream
        self._depart = depart
        self._events: asyncio.Queue[Json] = asyncio.Queue()
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for response in iterate_responses(self._stream):
            self._events.put_nowait(orjson.loads(response))

    async def next(self, within: float = TIMEOUT_SECONDS) -> Json:
        """Return the value of the subscription's field in the next event."""
        response = await self.next_response(within)
        assert "errors" not in response, response
        (value,) = response["data"].values()
        assert isinstance(value, dict)
        return value

    async def next_response(self, within: float = TIMEOUT_SECONDS) -> Json:
        """Return the next event, or the errors in its place."""
        waiting = asyncio.ensure_future(self._events.get())
        done, _ = await asyncio.wait({waiting, self._task}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        if waiting not in done:
            waiting.cancel()
            if self._task.done():
                await self._task
                raise AssertionError("the subscription ended")
            raise AssertionError(f"no event within {within} s")
        return waiting.result()

    async def take(self, count: int) -> list[Json]:
        """Return the next `count` events."""
        return [await self.next() for _ in range(count)]

    async def expect_no_event(self, within: float = SILENCE_SECONDS) -> None:
        """Fail if an event comes."""
        await asyncio.sleep(within)
        assert self._events.empty(), self._events.get_nowait()

    def pop_events(self) -> list[Json]:
        """Return the events that have come and were not read yet."""
        events = []
        while not self._events.empty():
            (value,) = self._events.get_nowait()["data"].values()
            events.append(value)
        return events

    async def stop(self) -> None:
        """End the subscription as a client does that disconnects between two events."""
        await asyncio.sleep(0.005)
        await cancel_tasks(self._task)
        self._stream.close()
        if self._depart is not None:
            await self._depart()


class Api(SessionCalls, GroupCalls):
    """Calls of any user to one process."""

    def __init__(self, services: Services, mongo: MongoClient[Json], database: str) -> None:
        self.services = services
        self.database = mongo[database]
        self.subscribers_are_devices = False
        """True: each subscriber is a device of its own, as a connection with one subscription is."""
        self._subscribers: list[Subscriber] = []

    async def create_users(self, *names: str) -> list[str]:
        """Create users with unique ids that sort in the order of the names."""
        suffix = secrets.token_hex(4)
        users = [f"{name}-{suffix}" for name in names]
        await gather_all(*(self.services.sign_in(make_caller(user)) for user in users))
        return users

    async def run(self, caller: str | Caller | None, query: str, /, **variables: Any) -> Json:
        """Return the response to a query or mutation."""
        request_caller = make_caller(caller) if isinstance(caller, str) else caller
        request = GraphQLRequest(query, variables or None)
        context = ConnectionContext(request_caller, "test")
        if request_caller is not None:
            await self.services.sign_in(request_caller)
        try:
            prepared = await self.services.engine.prepare(request, request_caller)
            response = await self.services.engine.execute(prepared, request, context)
        except RequestRefused as refused:
            response = {"errors": refused.errors}
        decoded: Json = orjson.loads(orjson.dumps(response))
        return decoded

    async def data(self, caller: str | Caller | None, query: str, /, **variables: Any) -> Json:
        """Return the response's data; fail on an error."""
        response = await self.run(caller, query, **variables)
        assert "errors" not in response, response["errors"]
        data: Json = response["data"]
        return data

    async def expect_refusal(self, caller: str | Caller | None, query: str, /, **variables: Any) -> Refusal:
        """Return the only error of the response; fail if there is none, or more than one."""
        response = await self.run(caller, query, **variables)
        assert len(response.get("errors", ())) == 1, response
        return parse_refusal(response["errors"][0])

    async def subscribe(self, caller: str | Caller | None, query: str, **variables: Any) -> Subscriber:
        """Return a subscription that has started.

        Raises:
            RequestRefused: The engine refused the subscription.
        """
        request_caller = make_caller(caller) if isinstance(caller, str) else caller
        request = GraphQLRequest(query, variables or None)
        if request_caller is not None:
            await self.services.sign_in(request_caller)
        prepared = await self.services.engine.prepare(request, request_caller)
        stream = await self.services.engine.subscribe(prepared, request, ConnectionContext(request_caller, "test"))
        depart = None
        if self.subscribers_are_devices and request_caller is not None:
            depart = await self.connect_device(request_caller.user_id)
        subscriber = Subscriber(stream, depart)
        self._subscribers.append(subscriber)
        return subscriber

    async def connect_device(self, user: str) -> Callable[[], Awaitable[None]]:
        """Connect a device, as a transport does. Return the function that ends its connection."""
        devices = self.services.app.devices
        device = devices.connect(UserId(user), GivenDevice(), lambda: None)
        await devices._writer.write_now(device.user, device.device)

        async def depart() -> None:
            device.end()
            await devices._writer.write_now(device.user, device.device)

        return depart

    async def listen(self, user: str, query: str = LIVE_MESSAGES, **variables: Any) -> Subscriber:
        """Return a subscription without `since`, after its first event."""
        subscriber = await self.subscribe(user, query, **variables)
        first = await subscriber.next()
        assert first["reset"] is False
        assert first.get("__typename", "CaughtUp") == "CaughtUp" and first.get("reason", "CATCH_UP") == "CATCH_UP"
        return subscriber

    async def stop_subscriptions(self) -> None:
        """End all subscriptions."""
        await gather_all(*(subscriber.stop() for subscriber in self._subscribers))
        self._subscribers.clear()

    async def send(self, sender: str, to: str, content: str = "hello", **more: Any) -> Json:
        """Send a message to a user or a conversation, and return the payload."""
        data = await self.data(sender, SEND, input=message_input(to, content, **more))
        payload: Json = data["sendMessage"]
        return payload

    async def expect_send_refusal(self, sender: str | None, to: str, content: str = "hello", **more: Any) -> Refusal:
        return await self.expect_refusal(sender, SEND, input=message_input(to, content, **more))

    async def edit(self, user: str, message: str, content: str) -> Json:
        data: Json = (await self.data(user, EDIT, id=message, content=content))["editMessage"]
        return data

    async def recall(self, user: str, message: str) -> Json:
        data: Json = (await self.data(user, RECALL, id=message))["recallMessage"]
        return data

    async def create_group(self, owner: str, *members: str, name: str = "Group", **more: Any) -> str:
        fields = {"name": name, "memberIds": list(members)} | more
        group: str = (await self.data(owner, CREATE_GROUP, input=fields))["createGroup"]["id"]
        return group

    async def invite(self, inviter: str, group: str, *users: str) -> Json:
        data: Json = (await self.data(inviter, INVITE, id=group, users=list(users)))["inviteMembers"]
        return data

    async def upsert_users(self, *users: Json) -> list[Json]:
        """Create or change users as a service does."""
        service = make_caller("service", CallerRole.SERVICE)
        answer = await self.data(service, UPSERT_USERS, input=list(users))
        upserted: list[Json] = answer["upsertUsers"]
        return upserted

    async def create_many_users(self, prefix: str, count: int) -> list[str]:
        """Create more users than can sign in within a test, in the order of their ids."""
        users = [f"{prefix}.{number:04}" for number in range(count)]
        await self.upsert_users(*({"id": user, "displayName": user} for user in users))
        return users

    async def history(self, user: str, conversation: str, page: int = 100) -> list[Json]:
        """Return all messages that the user may read, oldest first."""
        found: list[Json] = []
        after = None
        while True:
            listed = (await self.data(user, HISTORY, id=conversation, first=page, after=after))["messages"]
            found += [edge["node"] for edge in listed["edges"]]
            after = listed["pageInfo"]["endCursor"]
            if not listed["pageInfo"]["hasNextPage"]:
                return found

    async def wait_until_idle(self) -> None:
        """Wait until the work of all answered requests has ended."""
        app = self.services.app
        async with asyncio.timeout(TIMEOUT_SECONDS):
            stages = (app.receipts, app.receipt_release, app.revisions, app.reactions)
            while any(s._tasks for s in stages) or app.delivery.in_flight or app.bus._sending or app.previews._jobs:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            while app.reaction_events.pending or app.bus._sending:  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    async def advance_days(self, clock: ManualClock, days: float) -> None:
        """Advance the clock, and renew the server's lease as housekeeping does."""
        clock.ms += round(days * DAY_MS)
        store = self.services.app.store
        await store.deployment.worker_numbers.lease(store.ids, 0)

    async def remaining_hours(self, *keys: str) -> list[float]:
        """Return the time to live of unused keys in hours. Redis uses real time, whatever the clock says."""
        lifetimes = await self.services.app.store.cache.run([Call("PTTL", (key,)) for key in keys])
        return [milliseconds / 3_600_000 for milliseconds in lifetimes]

    async def stored_documents(self) -> dict[str, dict[Any, Json]]:
        """Return every document of the database except what is written behind requests."""
        await self.wait_until_idle()
        names = set(self.database.list_collection_names()) - _WRITTEN_BEHIND - set(_FIELDS_WRITTEN_LATER)
        rows = {name: {row["_id"]: row for row in self.database[name].find()} for name in sorted(names)}
        rows |= self._rows_without_later_fields()
        # Building an index makes an empty collection, at any time.
        return {name: documents for name, documents in rows.items() if documents}

    async def stored_hashes(self) -> dict[str, str]:
        """Return a hash of each collection: to compare them takes less time than to compare `stored_documents`."""
        await self.wait_until_idle()
        hashes: dict[str, str] = self.database.command("dbHash")["collections"]
        written = {name: digest for name, digest in hashes.items() if name not in _WRITTEN_BEHIND}
        written |= {
            name: repr(rows) if rows else _HASH_OF_NOTHING for name, rows in self._rows_without_later_fields().items()
        }
        return {name: digest for name, digest in written.items() if digest != _HASH_OF_NOTHING}

    def _rows_without_later_fields(self) -> dict[str, dict[Any, Json]]:
        """Return the documents of some collections, without the fields that the server writes later."""
        found = {}
        for name, field in _FIELDS_WRITTEN_LATER.items():
            rows = self.database[name].find({}, {field: 0}).sort("_id")
            found[name] = {row["_id"]: row for row in rows if row.keys() != {"_id"}}
        return found


def message_input(to: str, content: str = "hello", **more: Any) -> Json:
    """Return the input of a message to a user, to a conversation, or to the thread of a message."""
    field = {"m_": "threadOf"}.get(to[:2], "conversationId" if to[:2] in _CONVERSATIONS else "toUserId")
    return {field: to, "content": content} | more


def parse_refusal(error: Json) -> Refusal:
    """Return the fields that every error must have."""
    extensions = error["extensions"]
    assert error["message"]
    return Refusal(extensions["code"], extensions.get("field"), extensions["retryable"])


async def gather_all(*calls: Awaitable[Any]) -> list[Any]:
    """Run calls concurrently. All have ended when this returns or raises."""
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


async def cancel_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks until they end. Python 3.11's `wait_for`, which the drivers use, can swallow a cancellation."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.2)


async def wait_until(check: Any, within: float = TIMEOUT_SECONDS) -> None:
    """Wait until an async check returns true."""
    deadline = time.monotonic() + within
    while not await check():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.01)
