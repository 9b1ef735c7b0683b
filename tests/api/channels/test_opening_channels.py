"""Opening a channel: its newest messages are read once for all who open it, and are always the present ones."""

from __future__ import annotations

import pytest

from tests.api.client import Api, Json, gather_all
from tests.api.conftest import Deployments
from tests.api.sample_channels import SampleChannels

OPEN = """query ($id: ID!) { messages(conversationId: $id, last: 50) {
    pageInfo { hasPreviousPage } edges { node { seq content authorName replyTo { seq content } } } } }"""
EDIT = "mutation ($id: ID!, $text: String!) { editMessage(messageId: $id, content: $text) { id } }"
RECALL = "mutation ($id: ID!) { recallMessage(messageId: $id) { id } }"


async def read(api: Api, user: str, channel: str) -> list[Json]:
    page = (await api.data(user, OPEN, id=channel))["messages"]
    return [edge["node"] for edge in page["edges"]]


async def test_a_channel_that_everyone_opens_at_once_is_read_once(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = (await api.send(workspace.member, workspace.general, "old"))["message"]["id"]
    await gather_all(*(api.send(workspace.member, workspace.general) for _ in range(101)))
    await api.send(workspace.member, workspace.general, "newest", replyToId=first)
    store, reads = api.services.app.store, 0
    find = store.mongo.find

    async def counted(collection: str, *args: object, **kwargs: object) -> object:
        nonlocal reads
        reads += collection == "messages"
        return await find(collection, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(store.mongo, "find", counted)
    people = [workspace.member, workspace.other, workspace.moderator, workspace.owner, workspace.admin] * 6
    pages = await gather_all(*(read(api, user, workspace.general) for user in people))
    assert [len(page) for page in pages] == [50] * 30
    assert (pages[0][-1]["content"], pages[0][-1]["replyTo"]) == ("newest", {"seq": 1, "content": "old"})
    # The page, and the message that it replies to.
    assert reads == 2
    await api.send(workspace.other, workspace.general, "new")
    assert (await read(api, workspace.member, workspace.general))[-1]["content"] == "new"
    assert reads == 2


async def test_changes_on_another_server_are_seen_at_once(
    api: Api, other_api: Api, workspace: SampleChannels, deployments: Deployments
) -> None:
    channel = workspace.general
    one, two, three = [
        (await api.send(workspace.member, channel, text))["message"]["id"] for text in ("one", "two", "three")
    ]
    await api.send(workspace.member, channel, "four", replyToId=one)

    async def texts() -> list[list[str | None]]:
        found = [await read(each, workspace.other, channel) for each in (api, other_api)]
        for page in found:
            assert page[3]["replyTo"]["content"] == page[0]["content"]
        return [[message["content"] for message in page] for page in found]

    assert await texts() == [["one", "two", "three", "four"]] * 2
    await other_api.data(workspace.member, EDIT, id=one, text="1")
    assert await texts() == [["1", "two", "three", "four"]] * 2
    await api.data(workspace.member, RECALL, id=two)
    assert await texts() == [["1", None, "three", "four"]] * 2
    deployments.flush_redis("main")
    await api.data(workspace.member, EDIT, id=three, text="3")
    assert await texts() == [["1", None, "3", "four"]] * 2
    await other_api.send(workspace.other, channel, "five")
    assert await texts() == [["1", None, "3", "four", "five"]] * 2


async def test_everyone_gets_their_own_part_of_the_shared_messages(api: Api, workspace: SampleChannels) -> None:
    await workspace.change_channel(workspace.general, full_history=False)
    await api.send(workspace.member, workspace.general, "before")
    await workspace.set_facts(workspace.other, joined_at_ms=workspace.store.clock.now_ms() + 1)
    while len(await read(api, workspace.other, workspace.general)) == 0:
        await api.send(workspace.member, workspace.general, "after")
    assert {message["content"] for message in await read(api, workspace.other, workspace.general)} == {"after"}
    assert (await read(api, workspace.member, workspace.general))[0]["content"] == "before"
    assert await api.data(workspace.outsider, OPEN, id=workspace.general) == {"messages": None}
