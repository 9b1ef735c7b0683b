"""The life of a thread on two servers: each sees at once what the other one has answered."""

from __future__ import annotations

import pytest

from tests.api.client import Api, Refusal
from tests.api.conftest import OpenApi
from tests.api.sample_channels import create_sample_channels
from tests.api.threads.calls import FOLLOW, LOCK, contents, find_thread, list_threads


@pytest.mark.parametrize("kind", ["private", "group", "channel"])
async def test_the_life_of_a_thread_on_two_servers(open_api: OpenApi, kind: str) -> None:
    async with open_api("two") as one, open_api("two") as two:
        anna, ben, to = await _place(one, kind)
        parent = (await one.send(anna, to, "parent"))["message"]
        reply = (await two.send(ben, parent["id"], "first"))["message"]
        thread, conversation = reply["conversationId"], parent["conversationId"]
        await one.send(anna, thread, "second")
        assert await contents(two, ben, thread) == ["first", "second"]
        await two.edit(ben, reply["id"], "edited")
        assert await contents(one, anna, thread) == ["edited", "second"]
        await two.data(ben, FOLLOW, id=thread, on=False)
        found = await find_thread(one, ben, thread)
        assert found is not None and (found["viewerFollows"], found["followerCount"]) == (False, 1)
        await one.data(anna, LOCK, id=thread)
        assert await two.expect_send_refusal(ben, thread) == Refusal("FORBIDDEN", "conversationId")
        await two.data(anna, LOCK, id=thread, on=False)
        await one.send(ben, thread, "third")
        await two.recall(ben, reply["id"])
        for api in (one, two):
            found = await find_thread(api, anna, thread)
            assert found is not None
            assert (found["replyCount"], found["participantCount"], found["isLocked"]) == (2, 2, False)
            assert [user["id"] for user in found["participants"]] == [ben, anna]
            assert await list_threads(api, ben, conversation) == [thread]


async def _place(api: Api, kind: str) -> tuple[str, str, str]:
    """Return two people, the second one without rights over others, and where the first one writes to."""
    if kind == "channel":
        sample = await create_sample_channels(api)
        return sample.member, sample.other, sample.general
    anna, ben, cleo = await api.create_users("anna", "ben", "cleo")
    return anna, ben, ben if kind == "private" else await api.create_group(anna, ben, cleo)
