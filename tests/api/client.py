"""The API as a frontend drives it: operations through the engine of one process, nothing mocked behind it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import orjson
from pymongo import MongoClient

from resolvers.users.callers import Caller, CallerRole
from server.services import Services
from store.base.ids import UserId
from store.redis.cache import Call
from subscriptions.transport.engine import ConnectionContext, EventStream, GraphQLRequest, RequestRefused, responses
from tests.api.group_calls import GroupCalls
from tests.api.session_calls import MESSAGE, SESSION, SessionCalls
from tests.api.session_calls import Json as Json
from tests.clock import DAY_MS, ManualClock

PATIENCE_SECONDS = 5.0
"""After this long, what a test waits for counts as not happening."""

SILENCE_SECONDS = 0.12
"""Nothing within this long counts as nothing: events inside one process come within a few milliseconds."""

EVENT = f"""
    __typename
    ... on MessageCreated {{ cursor message {{ {MESSAGE} }} }}
    ... on MessageUpdated {{ cursor message {{ {MESSAGE} }} }}
    ... on MessageRecalled {{ cursor message {{ {MESSAGE} }} }}
    ... on ReceiptAdvanced {{ cursor conversationId status seq user {{ id }} }}
    ... on TypingStarted {{ conversationId user {{ id }} at }}
    ... on CaughtUp {{ cursor reset }}
"""

SEND = f"mutation ($input: SendMessageInput!) {{ sendMessage(input: $input) {{ replayed message {{ {MESSAGE} }} session {{ {SESSION} }} }} }}"
EDIT = f"mutation ($id: ID!, $content: String!) {{ editMessage(messageId: $id, content: $content) {{ {MESSAGE} }} }}"
RECALL = f"mutation ($id: ID!) {{ recallMessage(messageId: $id) {{ {MESSAGE} }} }}"
CREATE_GROUP = "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id memberCount } }"
INVITE = "mutation ($id: ID!, $users: [ID!]!) { inviteMembers(groupId: $id, userIds: $users) { id memberCount } }"
UPSERT_USERS = "mutation ($input: [UserInput!]!) { upsertUsers(input: $input) { id displayName avatarUrl isBot } }"
HISTORY = f"""query ($id: ID!, $first: Int, $after: String, $last: Int, $before: String) {{
    messages(conversationId: $id, first: $first, after: $after, last: $last, before: $before) {{
        pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }} edges {{ cursor node {{ {MESSAGE} }} }} }} }}"""
SYNC = f"""query ($since: Cursor, $first: Int = 100) {{ syncSessions(since: $since, first: $first) {{
    cursor hasMore totalUnread reset sessions {{ {SESSION} }} }} }}"""
LIVE_MESSAGES = (
    f"subscription ($since: Cursor, $id: ID) {{ messageEvents(since: $since, conversationId: $id) {{ {EVENT} }} }}"
)
LIVE_SESSIONS = f"""subscription ($since: Cursor) {{ syncSession(since: $since) {{
    reason hasMore totalUnread cursor reset sessions {{ {SESSION} }} }} }}"""


@dataclass(frozen=True)
class Refusal:
    """One error of a response, as far as clients act on it."""

    code: str
    field: str | None = None
    retryable: bool = False


def private(one: str, other: str, sub_biz: str | None = None) -> str:
    """The id of two people's conversation, within a subBiz perhaps, spelt as the contract says."""
    return "p_" + "_".join(sorted((one, other))) + (f"~{sub_biz}" if sub_biz else "")


def caller(user: str, role: CallerRole = CallerRole.USER, name: str | None = None) -> Caller:
    return Caller(UserId(user), role, time.time() + 3600, name)


class Subscriber:
    """One subscription of one device, read as fast as it comes."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._events: asyncio.Queue[Json] = asyncio.Queue()
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for response in responses(self._stream):
            self._events.put_nowait(orjson.loads(response))

    async def next(self, within: float = PATIENCE_SECONDS) -> Json:
        """The next event: the value of the subscription's field."""
        waiting = asyncio.ensure_future(self._events.get())
        done, _ = await asyncio.wait({waiting, self._task}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        if waiting not in done:
            waiting.cancel()
            if self._task.done():
                await self._task
                raise AssertionError("the subscription ended")
            raise AssertionError(f"no event within {within} s")
        response = waiting.result()
        assert "errors" not in response, response
        (value,) = response["data"].values()
        assert isinstance(value, dict)
        return value

    async def take(self, count: int) -> list[Json]:
        """The next events, so many of them."""
        return [await self.next() for _ in range(count)]

    async def none(self, within: float = SILENCE_SECONDS) -> None:
        """Fails if an event comes."""
        await asyncio.sleep(within)
        assert self._events.empty(), self._events.get_nowait()

    def arrived(self) -> list[Json]:
        """What has come and was not read yet."""
        events = []
        while not self._events.empty():
            (value,) = self._events.get_nowait()["data"].values()
            events.append(value)
        return events

    async def stop(self) -> None:
        """Ends the subscription, as a client does that goes away, though not in the middle of an event."""
        await asyncio.sleep(0.005)
        await cancelled(self._task)
        self._stream.close()


class Api(SessionCalls, GroupCalls):
    """Whoever one likes, in front of one process."""

    def __init__(self, services: Services, mongo: MongoClient[Json], database: str) -> None:
        self.services = services
        self.database = mongo[database]
        self._subscribers: list[Subscriber] = []

    async def people(self, *names: str) -> list[str]:
        """Users nobody else in the run is called. They exist, and keep the names' order."""
        mark = secrets.token_hex(4)
        users = [f"{name}-{mark}" for name in names]
        await together(*(self.services.sign_in(caller(user)) for user in users))
        return users

    async def run(self, who: str | Caller | None, query: str, **variables: Any) -> Json:
        """The response to a query or mutation."""
        asking = caller(who) if isinstance(who, str) else who
        request = GraphQLRequest(query, variables or None)
        context = ConnectionContext(asking, "test")
        if asking is not None:
            await self.services.sign_in(asking)
        try:
            prepared = self.services.engine.prepare(request)
            response = await self.services.engine.execute(prepared, request, context)
        except RequestRefused as refused:
            response = {"errors": refused.errors}
        decoded: Json = orjson.loads(orjson.dumps(response))
        return decoded

    async def data(self, who: str | Caller | None, query: str, **variables: Any) -> Json:
        """The response's data; fails on an error."""
        response = await self.run(who, query, **variables)
        assert "errors" not in response, response["errors"]
        data: Json = response["data"]
        return data

    async def refusal(self, who: str | Caller | None, query: str, **variables: Any) -> Refusal:
        """The one error of the response; fails where there is none, or more than one."""
        response = await self.run(who, query, **variables)
        assert len(response.get("errors", ())) == 1, response
        return refusal_of(response["errors"][0])

    async def subscribe(self, who: str | Caller | None, query: str, **variables: Any) -> Subscriber:
        """A subscription that has begun. Raises RequestRefused where it can't."""
        asking = caller(who) if isinstance(who, str) else who
        request = GraphQLRequest(query, variables or None)
        if asking is not None:
            await self.services.sign_in(asking)
        prepared = self.services.engine.prepare(request)
        stream = await self.services.engine.subscribe(prepared, request, ConnectionContext(asking, "test"))
        subscriber = Subscriber(stream)
        self._subscribers.append(subscriber)
        return subscriber

    async def listen(self, user: str, query: str = LIVE_MESSAGES, **variables: Any) -> Subscriber:
        """A subscription without since, past its first event."""
        subscriber = await self.subscribe(user, query, **variables)
        first = await subscriber.next()
        assert first["reset"] is False
        assert first.get("__typename", "CaughtUp") == "CaughtUp" and first.get("reason", "CATCH_UP") == "CATCH_UP"
        return subscriber

    async def stop_listening(self) -> None:
        """Ends all subscriptions."""
        await together(*(subscriber.stop() for subscriber in self._subscribers))
        self._subscribers.clear()

    # --- what most tests do on their way

    async def send(self, sender: str, to: str, content: str = "hello", **more: Any) -> Json:
        """Sends to a user or a conversation, and answers the payload."""
        data = await self.data(sender, SEND, input=message_to(to, content, **more))
        payload: Json = data["sendMessage"]
        return payload

    async def refused_to_send(self, sender: str | None, to: str, content: str = "hello", **more: Any) -> Refusal:
        return await self.refusal(sender, SEND, input=message_to(to, content, **more))

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
        """Makes users, or changes them, as a service does."""
        service = caller("service", CallerRole.SERVICE)
        upserted: list[Json] = (await self.data(service, UPSERT_USERS, input=list(users)))["upsertUsers"]
        return upserted

    async def crowd(self, mark: str, count: int) -> list[str]:
        """More users than can sign in within a test, in the order of their ids."""
        made = [f"{mark}.{number:04}" for number in range(count)]
        await self.upsert_users(*({"id": user, "displayName": user} for user in made))
        return made

    async def history(self, user: str, conversation: str, page: int = 100) -> list[Json]:
        """All that the user may read, oldest first."""
        found: list[Json] = []
        after = None
        while True:
            listed = (await self.data(user, HISTORY, id=conversation, first=page, after=after))["messages"]
            found += [edge["node"] for edge in listed["edges"]]
            after = listed["pageInfo"]["endCursor"]
            if not listed["pageInfo"]["hasNextPage"]:
                return found

    async def settled(self) -> None:
        """Waits until nothing is under way any more that was begun by requests answered before."""
        app = self.services.app
        async with asyncio.timeout(PATIENCE_SECONDS):
            while app.receipts._tasks or app.delivery._under_way or app.revisions._tasks or app.bus._sending:  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    async def pass_days(self, clock: ManualClock, days: float) -> None:
        """Time goes by, and housekeeping with it."""
        clock.ms += round(days * DAY_MS)
        store = self.services.app.store
        await store.deployment.lease(store.ids, 0)

    async def kept_hours(self, *keys: str) -> list[float]:
        """How long Redis keeps keys that are not used any more. Its time is the real one, whatever the clock says."""
        lifetimes = await self.services.app.store.cache.run([Call("PTTL", (key,)) for key in keys])
        return [milliseconds / 3_600_000 for milliseconds in lifetimes]

    async def stored(self) -> dict[str, dict[Any, Json]]:
        """Every document of the database but those that housekeeping writes."""
        await self.settled()
        names = set(self.database.list_collection_names()) - {"deployment", "leases"}
        return {name: {row["_id"]: row for row in self.database[name].find()} for name in sorted(names)}


def message_to(to: str, content: str = "hello", **more: Any) -> Json:
    """The input for a message to a user or a conversation."""
    field = "conversationId" if to[:2] in ("p_", "g_", "b_") else "toUserId"
    return {field: to, "content": content} | more


def refusal_of(error: Json) -> Refusal:
    """What an error says to a program. Every error says it."""
    extensions = error["extensions"]
    assert error["message"]
    return Refusal(extensions["code"], extensions.get("field"), extensions["retryable"])


async def together(*calls: Awaitable[Any]) -> list[Any]:
    """Runs calls at once. All have ended, also those that go on for longer than the first that failed."""
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


async def cancelled(*tasks: asyncio.Task[Any]) -> None:
    """Ends tasks. Once is not enough: Python 3.11's wait_for, which the drivers use, can swallow a cancellation."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.2)


async def eventually(check: Any, within: float = PATIENCE_SECONDS) -> None:
    """Waits until an async check answers true."""
    deadline = time.monotonic() + within
    while not await check():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.01)
