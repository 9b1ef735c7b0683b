"""An old snapshot plus the later events equals a new snapshot, after any changes."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import pytest

from tests.api.client import Api, private_id
from tests.api.device import ApiDevice

Change = Callable[[Api, list[str]], Awaitable[object]]


async def create_group_and_send(api: Api, users: list[str]) -> None:
    alice, bob, carol, _ = users
    await api.send(bob, await api.create_group(alice, bob, carol), "first in a new group")


async def invite_and_send(api: Api, users: list[str]) -> None:
    alice, bob, carol, dave = users
    group = await api.create_group(bob, carol, dave)
    await api.send(bob, group, "before")
    await api.invite(carol, group, alice)
    await api.send(bob, group, "after")


async def read_in_part(api: Api, users: list[str]) -> None:
    alice, bob, *_ = users
    for _ in range(3):
        await api.send(bob, alice)
    await api.mark_read(alice, private_id(alice, bob), 2)


async def read_by_sending(api: Api, users: list[str]) -> None:
    alice, bob, *_ = users
    await api.send(bob, alice)
    await api.send(alice, bob)
    await api.mark_read(bob, private_id(alice, bob))


async def send_alternately(api: Api, users: list[str]) -> None:
    alice, bob, *_ = users
    for number in range(6):
        await api.send(*((alice, bob) if number % 2 else (bob, alice)))


async def change_settings(api: Api, users: list[str]) -> None:
    alice, bob, carol, _ = users
    group = await api.create_group(bob, alice, carol)
    await api.send(bob, alice)
    await api.send(bob, group, mentions=[alice])
    await api.mute(alice, group)
    await api.pin(alice, private_id(alice, bob), 3)
    await api.assign(alice, "work", private_id(alice, bob), group)
    await api.set_unread(alice, group)
    await api.send(carol, group, mentions=[alice, bob])


async def mark_unread_and_answer(api: Api, users: list[str]) -> None:
    alice, bob, *_ = users
    await api.send(bob, alice)
    await api.set_unread(alice, private_id(alice, bob))
    await api.set_unread(bob, private_id(alice, bob))
    await api.send(alice, bob)


async def delete_and_revive(api: Api, users: list[str]) -> None:
    alice, bob, carol, dave = users
    group = await api.create_group(alice, bob, carol)
    for user in (alice, bob):
        await api.send(carol, user, mentions=[user])
        await api.send(carol, group)
        await api.delete(user, private_id(user, carol), hard=user == bob)
        await api.delete(user, group)
    await api.invite(carol, group, dave)
    await api.send(carol, alice)
    await api.send(bob, group, mentions=[alice])


async def use_sub_biz(api: Api, users: list[str]) -> None:
    alice, bob, carol, _ = users
    await api.send(bob, alice, subBiz="shop")
    await api.send(carol, alice, subBiz="shop", mentions=[alice])
    await api.create_group(*users, subBiz="help")
    await api.mute(alice, private_id(alice, bob, "shop"))
    await api.send(bob, alice, subBiz="shop")
    await api.mark_read(alice, private_id(alice, carol, "shop"))
    await api.mute(bob, "b_shop")
    await api.send(alice, bob, subBiz="shop")
    await api.delete(carol, private_id(alice, carol, "shop"))


async def edit_and_recall(api: Api, users: list[str]) -> None:
    alice, bob, carol, dave = users
    group = await api.create_group(alice, bob, carol, historyVisibility="FULL")
    first, second, third = [(await api.send(bob, group, text, mentions=[alice]))["message"]["id"] for text in "123"]
    await api.invite(carol, group, dave)
    await api.edit(bob, first, "1, edited")
    await api.edit(bob, third, "3, edited")
    await api.recall(bob, second)
    await api.recall(alice, third)
    shop = (await api.send(alice, bob, "in a shop", subBiz="shop"))["message"]["id"]
    await api.edit(alice, shop, "in a shop, edited")
    await api.delete(bob, group)
    await api.edit(bob, first, "1, edited again")


async def change_nothing(api: Api, users: list[str]) -> None:
    pass


CHANGES: dict[str, Change] = {
    "nothing": change_nothing,
    "a first message sent": lambda api, users: api.send(users[0], users[1]),
    "a first message received": lambda api, users: api.send(users[1], users[0]),
    "a group": lambda api, users: api.create_group(*users),
    "a group with a message": create_group_and_send,
    "joining": invite_and_send,
    "reading in part": read_in_part,
    "reading by sending": read_by_sending,
    "back and forth": send_alternately,
    "settings": change_settings,
    "a mark and an answer": mark_unread_and_answer,
    "deletion and revival": delete_and_revive,
    "a subBiz": use_sub_biz,
    "edits and recalls": edit_and_recall,
}


@pytest.mark.parametrize("is_away", [False, True], ids=["live", "away"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_a_device_that_applies_events_matches_a_fresh_client(api: Api, change: Change, is_away: bool) -> None:
    users = await api.create_users("alice", "bob", "carol", "dave")
    devices = [ApiDevice(api, user) for user in users]
    for device in devices:
        await device.start()
    if is_away:
        for device in devices:
            await device.agrees()
            await device.stop()
    await change(api, users)
    await api.wait_until_idle()
    for device in devices:
        if is_away:
            await device.resume(api)
        await device.agrees()


# Relative frequencies.
WEIGHTS = {"private": 3, "group": 3, "read": 2, "read in part": 2, "invite": 1, "make": 1}
WEIGHTS |= {"mute": 1, "pin": 1, "mark": 1, "delete": 2, "assign": 1, "edit": 2, "recall": 1}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
async def test_devices_match_fresh_clients_after_random_changes(api: Api, other_api: Api, seed: int) -> None:
    rng = random.Random(seed)
    processes = (api, other_api)
    users = await api.create_users("alice", "bob", "carol", "dave", "erin")
    groups = [await api.create_group(*users[:3])]
    devices = [ApiDevice(processes[i % 2], user) for i, user in enumerate((users[0], users[0], users[1], users[3]))]
    for device in devices:
        await device.start()
    away: set[int] = set()

    async def change() -> None:
        process, user = rng.choice(processes), rng.choice(users)
        conversations = list(await process.all_sessions(user))
        without_gateways = [conversation for conversation in conversations if not conversation.startswith("b_")]
        match rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]:
            case "private":
                other = rng.choice([other for other in users if other != user])
                mentions = [other] if rng.random() < 0.3 else []
                await process.send(user, other, mentions=mentions, subBiz=rng.choice((None, None, "shop")))
            case "group" if without_gateways:
                await process.send(user, rng.choice(without_gateways))
            case "read" if conversations:
                await process.mark_read(user, rng.choice(conversations))
            case "read in part" if conversations:
                await process.mark_read(user, rng.choice(conversations), rng.randrange(6))
            case "mute" if conversations:
                await rng.choice((process.mute, process.unmute))(user, rng.choice(conversations))
            case "pin" if conversations:
                await process.pin(user, rng.choice(conversations), rng.randrange(3))
            case "mark" if without_gateways:
                await process.set_unread(user, rng.choice(without_gateways))
            case "delete" if without_gateways:
                await process.delete(user, rng.choice(without_gateways), rng.random() < 0.5)
            case "assign" if without_gateways:
                category = rng.choice((None, "work", "home"))
                await process.assign(user, category, *rng.choices(without_gateways, k=3))
            case "edit" | "recall" as kind if without_gateways:
                messages = await process.history(user, rng.choice(without_gateways))
                own_messages = [m for m in messages if m["sender"]["id"] == user and m["contentType"] != "SYSTEM"]
                if own_messages and kind == "recall":
                    await process.recall(user, rng.choice(own_messages[-3:])["id"])
                elif own_messages and (message := rng.choice(own_messages[-3:]))["state"] == "NORMAL":
                    await process.edit(user, message["id"], f"edited {rng.random()}")
            case "invite":
                group = rng.choice(groups)
                if group in conversations:
                    await process.invite(user, group, rng.choice(users))
            case "make" if len(groups) < 4:
                sub_biz = rng.choice((None, "shop"))
                groups.append(await process.create_group(*rng.sample(users, 3), subBiz=sub_biz))

    for _ in range(12):
        for _ in range(rng.randrange(1, 4)):
            await change()
        for process in processes:
            await process.wait_until_idle()
        for number, device in enumerate(devices):
            if number in away:
                if rng.random() < 0.6:
                    await device.resume(rng.choice(processes))
                    away.discard(number)
            elif rng.random() < 0.3:
                await device.agrees()
                await device.stop()
                away.add(number)
            if number not in away:
                await device.agrees()
    # Both devices of a user have received the same receipts in the same order.
    for number in sorted(away):
        await devices[number].resume(api)
    for device in devices:
        await device.agrees()
    assert devices[0].seen == devices[1].seen
    assert devices[0].receipts == devices[1].receipts
