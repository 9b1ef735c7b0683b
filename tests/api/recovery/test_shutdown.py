"""A process that is told to end: soon, and without a word broken."""

from __future__ import annotations

import asyncio
import time

from tests.api.client import SEND, Api, cancel_tasks, message_input, private_id
from tests.api.conftest import OpenApi


async def test_a_process_ends_soon_whatever_its_housekeeping_is_at(api: Api, open_api: OpenApi) -> None:
    async with open_api("main") as ending:
        housekeeper = ending.services.housekeeper
        await housekeeper.close()
        for round_ in range(20):
            busy = [asyncio.create_task(housekeeper._repeat(0, "busy", housekeeper.check_redis)) for _ in range(40)]
            housekeeper._tasks[:] = busy
            await asyncio.sleep(0.02 + round_ / 1_000)
            closing = asyncio.create_task(housekeeper.close())
            done, _ = await asyncio.wait([closing], timeout=3)
            await cancel_tasks(*busy, closing)
            assert done


async def test_what_was_acknowledged_before_the_end_is_there_and_the_rest_can_be_repeated(
    api: Api, open_api: OpenApi
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "the first")
    inputs = [message_input(bob, f"{number}", idempotencyKey=f"{number}") for number in range(60)]
    began = time.monotonic()
    async with open_api("main") as ending:
        sending = [asyncio.create_task(ending.run(alice, SEND, input=given)) for given in inputs]
        await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
    assert time.monotonic() - began < 8
    responses = await asyncio.gather(*sending)
    refused = [response["errors"][0]["extensions"] for response in responses if "errors" in response]
    assert all(extensions == {"code": "UNAVAILABLE", "retryable": True} for extensions in refused)
    acknowledged = [response["data"]["sendMessage"]["message"] for response in responses if "errors" not in response]
    assert acknowledged
    history = {message["id"]: message for message in await api.history(bob, private_id(alice, bob))}
    assert all(history[message["id"]]["seq"] == message["seq"] for message in acknowledged)
    for given in inputs:
        await api.data(alice, SEND, input=given)
    contents = [message["content"] for message in await api.history(bob, private_id(alice, bob))]
    assert sorted(contents) == sorted(["the first", *(given["content"] for given in inputs)])
    await api.wait_until_idle()
    assert await api.unread(bob, private_id(alice, bob)) == 61
