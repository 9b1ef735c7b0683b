"""Round trips of messages with files when everything is cached."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.attaching.files import PAGE, add_file, add_files, send
from tests.api.client import Api, gather_all
from tests.api.requests.test_budgets import Meter
from tests.api.threads.live_calls import make_thread


@pytest.mark.parametrize("place", ["conversation", "thread", "broadcast"])
async def test_a_message_with_files_takes_two_more_round_trips_to_mongodb(api: Api, place: str) -> None:
    meter, sample = Meter(api), await make_thread(api, "channel")
    for user in (sample.first, sample.second):
        await api.sessions(user)
    more: dict[str, Any] = {"broadcast": True} if place == "broadcast" else {}
    to = sample.conversation if place == "conversation" else sample.parent["id"]
    waiting: list[str] = []

    async def prepare() -> None:
        waiting[:] = await add_files(api, sample.second, sample.conversation, 10)

    async def send_files() -> None:
        await meter.send(sample.second, to, content="", attachmentIds=waiting, **more)
        # The files are bound after the answer.
        await api.wait_until_idle()

    await meter.expect(f"sendMessage with 10 files, {place}", send_files, 3, 2, prepare=prepare)


async def test_a_page_with_files_takes_no_more_round_trips(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    files = [await add_file(api, alice, group) for _ in range(50)]
    await gather_all(*(send(api, alice, group, [file]) for file in files))
    meter = Meter(api)
    shown = (await api.data(bob, PAGE, id=group))["messages"]["edges"]
    assert sum(len(edge["node"]["attachments"]) for edge in shown) == 50
    await meter.expect("messages, page of 50 with files", lambda: api.data(bob, PAGE, id=group), 1, 1)
