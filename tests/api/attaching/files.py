"""Files whose upload is complete, and messages that have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from store.base.ids import ConversationId, FileId, MessageId, UserId, file_id, parse_file_id
from store.base.snowflakes import created_at_ms
from store.files.blobs.base import BlobInfo
from store.files.file import File, FileContent, FileState
from store.files.file_store import UNUSED_MS
from store.messages.message import Message, MessageKind
from tests.api.client import Api, Json, Refusal
from tests.api.revisions import ALL_PARTITIONS

ATTACHMENT = "id filename contentType sizeBytes description state width height thumbHash spoiler"
FIELDS = f"id conversationId seq content state attachments {{ {ATTACHMENT} }}"
SEND = f"""mutation ($input: SendMessageInput!) {{ sendMessage(input: $input) {{
    replayed message {{ {FIELDS} }} }} }}"""
FIND = f"query ($id: ID!) {{ message(id: $id) {{ {FIELDS} }} }}"
PAGE = f"query ($id: ID!) {{ messages(conversationId: $id, last: 50) {{ edges {{ node {{ {FIELDS} }} }} }} }}"
UNUSABLE = Refusal("INVALID_INPUT", "attachmentIds")


async def add_file(api: Api, owner: str, conversation: str, *, state: FileState = FileState.READY) -> str:
    """Store a file as uploading and inspecting it does, without bytes. Return its id."""
    store = api.services.app.store
    number = FileId(store.ids.next())
    blob = f"{number}/o-1"
    content = FileContent(blob, "image/png", 70, 4, 3, "1QcSHQRnh493V4dIh4eXh1h4kJUI", is_image=True)
    file = File(
        id=number,
        owner=UserId(owner),
        conversation=ConversationId(conversation),
        filename=f"{number}.png",
        size=70,
        sha256=None,
        type_hint=None,
        description="a picture",
        spoiler=True,
        state=state,
        blobs=(blob,),
        content=content if state is FileState.READY else None,
        message=None,
        is_bound=False,
        remove_at_ms=created_at_ms(number) + UNUSED_MS,
        uploaded=BlobInfo(blob, 70, "aa"),
    )
    await store.files.create(file)
    return file_id(number)


async def add_files(api: Api, owner: str, conversation: str, count: int) -> list[str]:
    return [await add_file(api, owner, conversation) for _ in range(count)]


async def find_file(api: Api, file: str) -> File:
    number = parse_file_id(file)
    assert number is not None
    found = await api.services.app.store.files.find(number)
    assert found is not None
    return found


async def is_free(api: Api, file: str) -> bool:
    """Return whether no message has a file or has claimed it, so that it is removed a day after its creation."""
    row = await find_file(api, file)
    assert row.is_bound is (row.remove_at_ms is None)
    return row.message is None and not row.is_bound


async def is_bound(api: Api, file: str, message: str) -> bool:
    """Return whether a file stays as long as a message."""
    row = await find_file(api, file)
    return f"m_{row.message}" == message and row.is_bound and row.remove_at_ms is None


async def is_removed(api: Api, file: str) -> bool:
    """Return whether the bytes of a file may be removed now, and are not served any more."""
    row = await find_file(api, file)
    now_ms = api.services.app.store.clock.now_ms()
    return row.state is FileState.REMOVED and row.remove_at_ms is not None and row.remove_at_ms <= now_ms


async def send(api: Api, sender: str, to: str, files: Sequence[str], content: str = "", **more: Any) -> Json:
    """Send a message with files, and return the payload."""
    fields = make_input(to, files, content, **more)
    payload: Json = (await api.data(sender, SEND, input=fields))["sendMessage"]
    return payload


async def expect_refusal(
    api: Api, sender: Any, to: str, files: Sequence[str], content: str = "", **more: Any
) -> Refusal:
    return await api.expect_refusal(sender, SEND, input=make_input(to, files, content, **more))


def make_input(to: str, files: Sequence[str], content: str = "", **more: Any) -> Json:
    field = {"m_": "threadOf"}.get(to[:2], "conversationId" if to[1] == "_" else "toUserId")
    return {field: to, "content": content, "attachmentIds": list(files)} | more


async def find(api: Api, user: Any, message: str) -> Json:
    found: Json = (await api.data(user, FIND, id=message))["message"]
    return found


async def page(api: Api, user: str, conversation: str) -> list[Json]:
    edges = (await api.data(user, PAGE, id=conversation))["messages"]["edges"]
    return [edge["node"] for edge in edges]


def ids(message: Json) -> list[str]:
    """Return the ids of a message's attachments."""
    return [attachment["id"] for attachment in message["attachments"]]


async def sweep(api: Api) -> None:
    """Finish what dead servers have left."""
    await api.services.housekeeper.sweep(ALL_PARTITIONS, -60_000)
    await api.wait_until_idle()


def number_of(file: str) -> FileId:
    number = parse_file_id(file)
    assert number is not None
    return number


def new_message(api: Api, sender: str, conversation: str) -> Message:
    message = MessageId(api.services.app.store.ids.next())
    return Message(message, ConversationId(conversation), UserId(sender), MessageKind.TEXT, "hello")


def messages_with(api: Api, file: str) -> list[Json]:
    """Return the rows of the messages that have a file. The copy of a reply is not among them."""
    query = {"at": {"$elemMatch": {"0": file[2:]}}, "bo": {"$exists": False}}
    return list(api.database["messages"].find(query))


async def check_files(api: Api, *files: str) -> None:
    """Check that a file stays if a message shows it, and that all others can be removed."""
    for file in files:
        rows = messages_with(api, file)
        assert len(rows) <= 1
        if rows and "rc" not in rows[0]:
            assert await is_bound(api, file, f"m_{rows[0]['_id']}")
        elif rows:
            assert await is_removed(api, file)
        else:
            row = await find_file(api, file)
            assert not row.is_bound and row.remove_at_ms is not None
