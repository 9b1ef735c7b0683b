"""A process that stops: it ends in time, and keeps what it acknowledged."""

from __future__ import annotations

import asyncio

from tests.api.client import SEND, TIMEOUT_SECONDS, Api, cancel_tasks, message_input, private_id
from tests.api.conftest import OpenApi


async def test_a_process_stops_in_time_during_housekeeping(api: Api, open_api: OpenApi) -> None:
    async with open_api("main") as ending_process:
        housekeeper = ending_process.services.housekeeper
        await housekeeper.close()
        for round_ in range(20):
            busy_tasks = [
                asyncio.create_task(housekeeper._repeat(0, "busy", housekeeper.check_redis)) for _ in range(40)
            ]
            housekeeper._tasks[:] = busy_tasks
            await asyncio.sleep(0.02 + round_ / 1_000)
            closing = asyncio.create_task(housekeeper.close())
            done, _ = await asyncio.wait([closing], timeout=TIMEOUT_SECONDS)
            await cancel_tasks(*busy_tasks, closing)
            assert done


async def test_acknowledged_messages_survive_a_stop_and_others_can_be_repeated(api: Api, open_api: OpenApi) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "the first")
    inputs = [message_input(bob, f"{number}", idempotencyKey=f"{number}") for number in range(60)]
    async with asyncio.timeout(TIMEOUT_SECONDS), open_api("main") as ending_process:
        sends = [asyncio.create_task(ending_process.run(alice, SEND, input=message)) for message in inputs]
        await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)
    responses = await asyncio.gather(*sends)
    refused = [response["errors"][0]["extensions"] for response in responses if "errors" in response]
    assert all(extensions == {"code": "UNAVAILABLE", "retryable": True} for extensions in refused)
    acknowledged = [response["data"]["sendMessage"]["message"] for response in responses if "errors" not in response]
    assert acknowledged
    history = {message["id"]: message for message in await api.history(bob, private_id(alice, bob))}
    assert all(history[message["id"]]["seq"] == message["seq"] for message in acknowledged)
    for message in inputs:
        await api.data(alice, SEND, input=message)
    contents = [message["content"] for message in await api.history(bob, private_id(alice, bob))]
    assert sorted(contents) == sorted(["the first", *(message["content"] for message in inputs)])
    await api.wait_until_idle()
    assert await api.unread(bob, private_id(alice, bob)) == 61
