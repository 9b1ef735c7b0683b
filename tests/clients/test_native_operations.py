"""The operations of the Swift and Kotlin samples are valid, and do on a real server what the samples rely on."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
import websockets
from graphql import DocumentNode, validate
from pydantic import SecretStr

from server.settings import DEVELOPMENT_SECRET as SECRET
from server.settings import Settings
from subscriptions.transport.engine import Json
from tests.clients.native_operations import CONTRACT, DOCUMENT, FRAGMENTS, OPERATIONS, single, texts
from tests.server.served_app import serving_app

PATIENCE = 60
TEXTS = texts()


@pytest.fixture(scope="module")
async def url(module_settings: Settings) -> AsyncIterator[str]:
    """The address of a server."""
    settings = module_settings.model_copy(update={"jwt_secret": SecretStr(SECRET), "development": True})
    async with serving_app(settings) as app:
        yield f"http://127.0.0.1:{app.served.port}/graphql"


class Phone:
    """A device that sends the operations of the samples, and nothing else."""

    def __init__(self, url: str, user: str, http: httpx.AsyncClient) -> None:
        self.user = user
        self._url = url
        self._http = http
        self._token = jwt.encode({"sub": user, "exp": time.time() + 600}, SECRET, algorithm="HS256")

    async def ask(self, name: str, /, **variables: Any) -> Any:
        """Return the answer of the only root field of an operation."""
        body = {"query": TEXTS[name], "variables": variables, "operationName": name}
        response = await self._http.post(self._url, json=body, headers={"authorization": f"Bearer {self._token}"})
        answer = response.json()
        assert "errors" not in answer, answer
        (value,) = answer["data"].values()
        return value

    async def follow(self, name: str, /, **variables: Any) -> AsyncGenerator[Json]:
        """Yield the events of a subscription, on a connection of its own."""
        protocol = websockets.Subprotocol("graphql-transport-ws")
        async with websockets.connect(self._url.replace("http", "ws", 1), subprotocols=[protocol]) as socket:
            init = {
                "Authorization": f"Bearer {self._token}",
                "deviceId": f"phone-of-{self.user}",
                "deviceType": "MOBILE",
            }
            await socket.send(json.dumps({"type": "connection_init", "payload": init}))
            assert json.loads(await socket.recv())["type"] == "connection_ack"
            payload = {"query": TEXTS[name], "variables": variables}
            await socket.send(json.dumps({"type": "subscribe", "id": "1", "payload": payload}))
            async for text in socket:
                frame = json.loads(text)
                assert frame["type"] != "error", frame
                if frame["type"] == "next":
                    assert "errors" not in frame["payload"], frame
                    (event,) = frame["payload"]["data"].values()
                    yield event


async def _until(events: AsyncGenerator[Json], typename: str) -> list[Json]:
    """Return the next events up to the first one of this type."""
    seen: list[Json] = []
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            seen.append(event)
            if event["__typename"] == typename:
                return seen
    raise AssertionError(f"the stream ended without {typename}: {seen}")


@pytest.fixture
async def phones(url: str, request: pytest.FixtureRequest) -> AsyncIterator[tuple[Phone, Phone]]:
    """The devices of two users of this test."""
    suffix = hashlib.sha256(request.node.name.encode()).hexdigest()[:8]
    async with httpx.AsyncClient(timeout=PATIENCE) as http:
        ann, ben = Phone(url, f"ann-{suffix}", http), Phone(url, f"ben-{suffix}", http)
        for phone in (ann, ben):
            await phone.ask("FirstScreen")
        yield ann, ben


def _private(one: Phone, other: Phone) -> str:
    return f"p_{one.user}_{other.user}"


async def _send(phone: Phone, key: str, **place: Any) -> Json:
    answer: Json = await phone.ask("SendMessage", input={"content": key, "idempotencyKey": key, **place})
    return answer


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_is_valid_against_the_contract(name: str) -> None:
    assert validate(CONTRACT, single(name)) == []


def test_every_fragment_is_used() -> None:
    assert validate(CONTRACT, DocumentNode(definitions=DOCUMENT.definitions)) == []
    assert all(f"...{name}" in "".join(TEXTS.values()) for name in FRAGMENTS)


async def test_a_repeated_send_stores_one_message(phones: tuple[Phone, Phone]) -> None:
    ann, ben = phones
    first = await _send(ann, "once", toUserId=ben.user)
    again = await _send(ann, "once", toUserId=ben.user)
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert first["message"]["id"] == again["message"]["id"]
    page = await ben.ask("History", conversationId=_private(ann, ben), before=None)
    assert [edge["node"]["content"] for edge in page["edges"]] == ["once"]


async def test_the_list_and_a_history_are_read_page_by_page(phones: tuple[Phone, Phone]) -> None:
    ann, ben = phones
    for number in range(53):
        await _send(ann, f"m{number}", toUserId=ben.user)
    newest = await ben.ask("History", conversationId=_private(ann, ben), before=None)
    assert newest["pageInfo"]["hasPreviousPage"]
    older = await ben.ask("History", conversationId=_private(ann, ben), before=newest["pageInfo"]["startCursor"])
    seqs = [edge["node"]["seq"] for page in (older, newest) for edge in page["edges"]]
    assert seqs == list(range(1, 54))

    screen = await ben.ask("FirstScreen")
    assert screen["sessions"]["totalUnread"] == 53
    (edge,) = screen["sessions"]["edges"]
    rest = await ben.ask("MoreSessions", after=screen["sessions"]["pageInfo"]["endCursor"])
    assert rest["edges"] == []
    again = await ben.ask("MoreSessions", after=None)
    assert [each["node"]["id"] for each in again["edges"]] == [edge["node"]["id"]]


async def test_a_stream_resumes_after_its_last_event(phones: tuple[Phone, Phone]) -> None:
    ann, ben = phones
    cursor = (await ben.ask("FirstScreen"))["cursor"]
    await _send(ann, "one", toUserId=ben.user)
    await _send(ann, "two", toUserId=ben.user)
    async with aclosing(ben.follow("MessageEvents", since=cursor)) as events:
        (created,) = await _until(events, "MessageCreated")
        assert created["message"]["content"] == "one"
    # The connection is lost after the first of the two.
    async with aclosing(ben.follow("MessageEvents", since=created["cursor"])) as events:
        *missed, caught_up = await _until(events, "CaughtUp")
        assert [event["message"]["content"] for event in missed] == ["two"]
        assert not caught_up["reset"]
    delta = await ben.ask("ChangedSessions", since=cursor)
    assert [(each["unreadCount"], each["writeSeq"]) for each in delta["sessions"]] == [(2, 2)]


async def test_an_unknown_cursor_is_answered_with_reset(phones: tuple[Phone, Phone]) -> None:
    _, ben = phones
    async with aclosing(ben.follow("MessageEvents", since="lost")) as events:
        assert (await _until(events, "CaughtUp"))[-1]["reset"]
    async with aclosing(ben.follow("SessionEvents", since="lost")) as events, asyncio.timeout(PATIENCE):
        assert (await anext(events))["reset"]
    assert (await ben.ask("ChangedSessions", since="lost"))["reset"]


async def test_reading_and_typing_reach_the_other_person(phones: tuple[Phone, Phone]) -> None:
    ann, ben = phones
    sent = await _send(ann, "hello", toUserId=ben.user)
    place = _private(ann, ben)
    async with aclosing(ann.follow("MessageEvents", since=None)) as events:
        await _until(events, "CaughtUp")
        acked = await ben.ask("AckDelivered", marks=[{"conversationId": place, "upToSeq": 1}])
        assert [each["deliveredSeq"] for each in acked] == [1]
        assert (await ben.ask("MarkRead", conversationId=place, upToSeq=1))["unreadCount"] == 0
        await _until(events, "ReceiptAdvanced")
        peer_read: list[int] = []
        # The first event may be about the delivery.
        async with asyncio.timeout(PATIENCE):
            while peer_read != [sent["message"]["seq"]]:
                changed = await ann.ask("ChangedSessions", since=None)
                peer_read = [each["peerReadSeq"] for each in changed["sessions"]]
        # Others learn that a device is connected a moment later. Until then there is nobody to notify.
        async with asyncio.timeout(PATIENCE):
            while not await ben.ask("StartTyping", conversationId=place):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert (await _until(events, "TypingStarted"))[-1]["user"]["id"] == ben.user
        assert await ben.ask("StopTyping", conversationId=place)
        await _until(events, "TypingStopped")


async def test_a_change_on_one_device_reaches_the_other(phones: tuple[Phone, Phone]) -> None:
    ann, ben = phones
    await _send(ann, "hello", toUserId=ben.user)
    cursor = (await ben.ask("FirstScreen"))["cursor"]
    async with aclosing(ben.follow("SessionEvents", since=cursor)) as events, asyncio.timeout(PATIENCE):
        assert (await anext(events))["reason"] == "CATCH_UP"
        await ben.ask("MarkRead", conversationId=_private(ann, ben), upToSeq=None)
        event = await anext(events)
    assert (event["reason"], event["totalUnread"]) == ("READ", 0)


async def _channel(url: str, owner: Phone, member: Phone) -> tuple[str, str]:
    """Return the ids of a workspace of both and of its channel, which both follow."""
    token = jwt.encode({"sub": owner.user, "exp": time.time() + 600}, SECRET, algorithm="HS256")
    admin = jwt.encode({"sub": "service", "role": "service", "exp": time.time() + 600}, SECRET, algorithm="HS256")

    async def ask(text: str, bearer: str, **variables: Any) -> Any:
        body = {"query": text, "variables": variables}
        async with httpx.AsyncClient(timeout=PATIENCE) as http:
            answer = (await http.post(url, json=body, headers={"authorization": f"Bearer {bearer}"})).json()
        assert "errors" not in answer, answer
        return answer["data"]

    made = await ask('mutation { createWorkspace(input: { name: "Lake" }) { id } }', token)
    workspace = made["createWorkspace"]["id"]
    joining = "mutation ($id: ID!, $users: [ID!]!) { addToWorkspace(workspaceId: $id, userIds: $users) { id } }"
    await ask(joining, admin, id=workspace, users=[member.user])
    creating = 'mutation ($id: ID!) { createChannel(input: { workspaceId: $id, name: "plans" }) { id } }'
    channel = (await ask(creating, token, id=workspace))["createChannel"]["id"]
    following = "mutation ($id: ID!) { followChannel(channelId: $id) { id } }"
    for user in (owner.user, member.user):
        bearer = jwt.encode({"sub": user, "exp": time.time() + 600}, SECRET, algorithm="HS256")
        await ask(following, bearer, id=channel)
    return workspace, channel


async def test_a_channel_and_its_threads_are_followed_by_rev(url: str, phones: tuple[Phone, Phone]) -> None:
    ann, ben = phones
    workspace, channel = await _channel(url, ann, ben)
    async with aclosing(ben.follow("ChannelEvents", channels=[{"id": channel, "rev": None}])) as events:
        (caught_up,) = await _until(events, "ChannelCaughtUp")
        sent = await _send(ann, "where", conversationId=channel)
        created = (await _until(events, "ChannelMessage"))[-1]
    assert created["change"] == "CREATED"
    assert caught_up["rev"] < created["rev"]
    # Only its sender sees the key, also in events.
    assert (created["message"]["idempotencyKey"], sent["message"]["idempotencyKey"]) == (None, "where")

    # The reply is written while nobody is connected.
    reply = await _send(ben, "here", threadOf=sent["message"]["id"])
    async with aclosing(ben.follow("ChannelEvents", channels=[{"id": channel, "rev": created["rev"]}])) as events:
        change = (await _until(events, "ChannelThread"))[-1]
        caught_up = (await _until(events, "ChannelCaughtUp"))[-1]
        assert not caught_up["reset"]
    assert (change["parentId"], change["thread"]["replyCount"]) == (sent["message"]["id"], 1)
    thread = change["thread"]["id"]
    assert reply["message"]["conversationId"] == thread
    assert [edge["node"]["id"] for edge in (await ann.ask("Threads", conversationId=channel))["edges"]] == [thread]
    page = await ann.ask("History", conversationId=thread, before=None)
    assert [edge["node"]["content"] for edge in page["edges"]] == ["here"]
    again = await _send(ann, "thanks", conversationId=thread)
    assert again["message"]["seq"] == 2

    (edge,) = (await ben.ask("FollowedChannels", workspaceId=workspace))["edges"]
    assert (edge["node"]["id"], edge["node"]["messageCount"] - edge["node"]["session"]["readCount"]) == (channel, 1)
    assert (await ben.ask("FirstScreen"))["workspaces"] == [{"id": workspace, "name": "Lake"}]


async def test_a_channel_that_cannot_be_resumed_is_answered_with_reset(url: str, phones: tuple[Phone, Phone]) -> None:
    ann, ben = phones
    _, channel = await _channel(url, ann, ben)
    async with aclosing(ben.follow("ChannelEvents", channels=[{"id": channel, "rev": 2**52}])) as events:
        assert (await _until(events, "ChannelCaughtUp"))[-1]["reset"]


async def test_a_file_is_sent_and_goes_into_a_message(phones: tuple[Phone, Phone]) -> None:
    ann, ben = phones
    content = b"The lake is cold."
    given = {
        "filename": "lake.txt",
        "sizeBytes": len(content),
        "conversationId": _private(ann, ben),
        "idempotencyKey": "f",
    }
    upload, again = [await ann.ask("CreateUpload", input=given) for _ in range(2)]
    assert upload["id"] == again["id"]
    async with httpx.AsyncClient(timeout=PATIENCE) as http:
        headers = {each["name"]: each["value"] for each in again["headers"]}
        answer = await http.request(again["method"], again["url"], headers=headers, content=content)
        assert answer.is_success
    completed = await ann.ask("CompleteUpload", uploadId=upload["id"])
    assert completed["state"] == "READY"
    assert (await ann.ask("File", id=upload["id"]))["filename"] == "lake.txt"
    place = {"toUserId": ben.user, "attachmentIds": [completed["id"]]}
    sent = await ann.ask("SendMessage", input={"content": "", "idempotencyKey": "m", **place})
    assert [each["id"] for each in sent["message"]["attachments"]] == [upload["id"]]


@pytest.mark.parametrize(("platform", "token"), [("APNS", "ab" * 32), ("FCM", "fcm:token")])
async def test_a_push_token_is_registered_and_removed(phones: tuple[Phone, Phone], platform: str, token: str) -> None:
    ann, _ = phones
    device = {"id": f"phone-of-{ann.user}", "type": "MOBILE"}
    registered = await ann.ask(
        "RegisterPush", input={**device, "pushPlatform": platform, "pushToken": token, "locale": "de-DE"}
    )
    assert registered == {"id": device["id"], "pushPlatform": platform}
    removed = await ann.ask("RegisterPush", input={**device, "pushToken": "", "locale": "de-DE"})
    assert removed == {"id": device["id"], "pushPlatform": None}


def test_the_tests_here_execute_every_operation() -> None:
    text = Path(__file__).read_text()
    assert {name for name in OPERATIONS if f'"{name}"' not in text} == set()
