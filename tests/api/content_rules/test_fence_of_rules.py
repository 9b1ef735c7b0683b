"""No message or edit that was judged under older rules is stored after new rules were answered, on any server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.client import EDIT, SEND, Api, gather_all, message_input
from tests.api.content_rules.calls import REJECTED, Space, create_space, rule
from tests.api.paused_step import PausedStep
from tests.webhooks.incoming.hooks import Hooks, refusal_of

ROUNDS = 8


@pytest.mark.parametrize("kind", ["channel", "thread", "edit", "webhook"])
async def test_a_message_that_was_judged_before_is_judged_again(
    space: Space, other_api: Api, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    store, channel = other_api.services.app.store, space.general
    sent = (await other_api.send(space.bob, channel, "ham"))["message"]["id"]
    await other_api.send(space.bob, sent, "a reply")
    hooks = Hooks(other_api)
    hook = await hooks.create(space.alice, channel)
    steps: dict[str, tuple[Any, str]] = {
        "channel": (store.outbox, "reserve_in_channel"),
        "thread": (store.outbox, "reserve_reply"),
        "edit": (store.revisions, "announce_in_channel"),
        "webhook": (store.outbox, "reserve_in_channel"),
    }
    paused = PausedStep(*steps[kind], monkeypatch, once=True)

    async def write() -> Any:
        if kind == "edit":
            return await other_api.expect_refusal(space.bob, EDIT, id=sent, content="spam")
        if kind == "webhook":
            return refusal_of(await hooks.send(hook, "spam"))
        return await other_api.expect_send_refusal(space.bob, channel if kind == "channel" else sent, "spam")

    writing = asyncio.create_task(write())
    await paused.reached.wait()
    await space.set(rule())
    paused.resume.set()
    assert await writing == ((400, "REJECTED", "content") if kind == "webhook" else REJECTED)
    assert await space.texts() == ["ham"]


async def test_messages_race_changes_of_rules_on_two_servers(api: Api, other_api: Api) -> None:
    servers = [api, other_api]
    space = await create_space(api)
    late: list[str] = []
    for round_ in range(ROUNDS):
        await space.set()
        # Each server keeps these rules.
        await gather_all(*(server.send(space.bob, space.general, "spam") for server in servers))
        answered = asyncio.Event()

        async def send(server: Api, text: str, answered: asyncio.Event = answered) -> None:
            begun_late = False
            while not begun_late:
                begun_late = answered.is_set()
                sent = await server.run(space.bob, SEND, input=message_input(space.general, text))
                if begun_late and "errors" not in sent:
                    late.append(text)

        sending = [asyncio.create_task(send(server, f"spam {round_}")) for server in servers]
        await space.set(rule())
        await api.send(space.bob, space.general, f"ham {round_}")
        answered.set()
        await gather_all(*sending)
        # Messages that took their place before the change may be written after it. None takes a place after it.
        texts = await space.texts()
        assert f"spam {round_}" not in texts[texts.index(f"ham {round_}") :]
    assert late == []
