"""An old snapshot with the events since applied to it is the new snapshot, whatever happened in between."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import pytest

from tests.api.client import Api, private_id
from tests.api.device import ApiDevice

Act = Callable[[Api, list[str]], Awaitable[object]]


async def group_and_message(api: Api, people: list[str]) -> None:
    alice, bob, carol, _ = people
    await api.send(bob, await api.create_group(alice, bob, carol), "first in a new group")


async def message_to_a_new_member(api: Api, people: list[str]) -> None:
    alice, bob, carol, dave = people
    group = await api.create_group(bob, carol, dave)
    await api.send(bob, group, "before")
    await api.invite(carol, group, alice)
    await api.send(bob, group, "after")


async def part_read(api: Api, people: list[str]) -> None:
    alice, bob, *_ = people
    for _ in range(3):
        await api.send(bob, alice)
    await api.mark_read(alice, private_id(alice, bob), 2)


async def read_by_sending(api: Api, people: list[str]) -> None:
    alice, bob, *_ = people
    await api.send(bob, alice)
    await api.send(alice, bob)
    await api.mark_read(bob, private_id(alice, bob))


async def back_and_forth(api: Api, people: list[str]) -> None:
    alice, bob, *_ = people
    for number in range(6):
        await api.send(*((alice, bob) if number % 2 else (bob, alice)))


async def chosen(api: Api, people: list[str]) -> None:
    alice, bob, carol, _ = people
    group = await api.create_group(bob, alice, carol)
    await api.send(bob, alice)
    await api.send(bob, group, mentions=[alice])
    await api.mute(alice, group)
    await api.pin(alice, private_id(alice, bob), 3)
    await api.assign(alice, "work", private_id(alice, bob), group)
    await api.set_unread(alice, group)
    await api.send(carol, group, mentions=[alice, bob])


async def marked_unread_and_answered(api: Api, people: list[str]) -> None:
    alice, bob, *_ = people
    await api.send(bob, alice)
    await api.set_unread(alice, private_id(alice, bob))
    await api.set_unread(bob, private_id(alice, bob))
    await api.send(alice, bob)


async def deleted_and_revived(api: Api, people: list[str]) -> None:
    alice, bob, carol, dave = people
    group = await api.create_group(alice, bob, carol)
    for user in (alice, bob):
        await api.send(carol, user, mentions=[user])
        await api.send(carol, group)
        await api.delete(user, private_id(user, carol), hard=user == bob)
        await api.delete(user, group)
    await api.invite(carol, group, dave)
    await api.send(carol, alice)
    await api.send(bob, group, mentions=[alice])


async def within_a_sub_biz(api: Api, people: list[str]) -> None:
    alice, bob, carol, _ = people
    await api.send(bob, alice, subBiz="shop")
    await api.send(carol, alice, subBiz="shop", mentions=[alice])
    await api.create_group(*people, subBiz="help")
    await api.mute(alice, private_id(alice, bob, "shop"))
    await api.send(bob, alice, subBiz="shop")
    await api.mark_read(alice, private_id(alice, carol, "shop"))
    await api.mute(bob, "b_shop")
    await api.send(alice, bob, subBiz="shop")
    await api.delete(carol, private_id(alice, carol, "shop"))


async def revised(api: Api, people: list[str]) -> None:
    alice, bob, carol, dave = people
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


async def nothing(api: Api, people: list[str]) -> None:
    pass


ACTS: dict[str, Act] = {
    "nothing": nothing,
    "a message to somebody new": lambda api, people: api.send(people[0], people[1]),
    "a message from somebody new": lambda api, people: api.send(people[1], people[0]),
    "a group": lambda api, people: api.create_group(*people),
    "a group with a message": group_and_message,
    "joining": message_to_a_new_member,
    "reading in part": part_read,
    "reading by sending": read_by_sending,
    "back and forth": back_and_forth,
    "choices": chosen,
    "a mark and an answer": marked_unread_and_answered,
    "deletion and revival": deleted_and_revived,
    "a subBiz": within_a_sub_biz,
    "edits and recalls": revised,
}


@pytest.mark.parametrize("away", [False, True], ids=["live", "away"])
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS.keys())
async def test_what_a_device_shows_is_what_a_fresh_one_would(api: Api, act: Act, away: bool) -> None:
    people = await api.create_users("alice", "bob", "carol", "dave")
    devices = [ApiDevice(api, user) for user in people]
    for device in devices:
        await device.start()
    if away:
        for device in devices:
            await device.agrees()
            await device.stop()
    await act(api, people)
    await api.wait_until_idle()
    for device in devices:
        if away:
            await device.resume(api)
        await device.agrees()


# How often each is done, beside the others.
DEEDS = {"private": 3, "group": 3, "read": 2, "part": 2, "invite": 1, "make": 1}
DEEDS |= {"mute": 1, "pin": 1, "mark": 1, "delete": 2, "file": 1, "edit": 2, "recall": 1}


@pytest.mark.parametrize("seed", range(3))
async def test_that_holds_after_any_sequence_of_actions_and_reconnects(api: Api, other_api: Api, seed: int) -> None:
    chance = random.Random(seed)
    processes = (api, other_api)
    people = await api.create_users("alice", "bob", "carol", "dave", "erin")
    groups = [await api.create_group(*people[:3])]
    devices = [ApiDevice(processes[i % 2], user) for i, user in enumerate((people[0], people[0], people[1], people[3]))]
    for device in devices:
        await device.start()
    away: set[int] = set()

    async def act() -> None:
        process, user = chance.choice(processes), chance.choice(people)
        mine = list(await process.all_sessions(user))
        talks = [conversation for conversation in mine if not conversation.startswith("b_")]
        match chance.choices(list(DEEDS), list(DEEDS.values()))[0]:
            case "private":
                other = chance.choice([other for other in people if other != user])
                mentions = [other] if chance.random() < 0.3 else []
                await process.send(user, other, mentions=mentions, subBiz=chance.choice((None, None, "shop")))
            case "group" if talks:
                await process.send(user, chance.choice(talks))
            case "read" if mine:
                await process.mark_read(user, chance.choice(mine))
            case "part" if mine:
                await process.mark_read(user, chance.choice(mine), chance.randrange(6))
            case "mute" if mine:
                await chance.choice((process.mute, process.unmute))(user, chance.choice(mine))
            case "pin" if mine:
                await process.pin(user, chance.choice(mine), chance.randrange(3))
            case "mark" if talks:
                await process.set_unread(user, chance.choice(talks))
            case "delete" if talks:
                await process.delete(user, chance.choice(talks), chance.random() < 0.5)
            case "file" if talks:
                folder = chance.choice((None, "work", "home"))
                await process.assign(user, folder, *chance.choices(talks, k=3))
            case "edit" | "recall" as deed if talks:
                messages = await process.history(user, chance.choice(talks))
                own = [m for m in messages if m["sender"]["id"] == user and m["contentType"] != "SYSTEM"]
                if own and deed == "recall":
                    await process.recall(user, chance.choice(own[-3:])["id"])
                elif own and (message := chance.choice(own[-3:]))["state"] == "NORMAL":
                    await process.edit(user, message["id"], f"edited {chance.random()}")
            case "invite":
                group = chance.choice(groups)
                if group in mine:
                    await process.invite(user, group, chance.choice(people))
            case "make" if len(groups) < 4:
                sub_biz = chance.choice((None, "shop"))
                groups.append(await process.create_group(*chance.sample(people, 3), subBiz=sub_biz))

    for _ in range(12):
        for _ in range(chance.randrange(1, 4)):
            await act()
        for process in processes:
            await process.wait_until_idle()
        for number, device in enumerate(devices):
            if number in away:
                if chance.random() < 0.6:
                    await device.resume(chance.choice(processes))
                    away.discard(number)
            elif chance.random() < 0.3:
                await device.agrees()
                await device.stop()
                away.add(number)
            if number not in away:
                await device.agrees()
    # Two devices of one user were told the same receipts, in the same order.
    for number in sorted(away):
        await devices[number].resume(api)
    for device in devices:
        await device.agrees()
    assert devices[0].seen == devices[1].seen
    assert devices[0].receipts == devices[1].receipts
