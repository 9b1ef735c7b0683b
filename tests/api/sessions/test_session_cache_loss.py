"""Whatever was done to sessions, a lost cache changes nothing that a client shows but their places on the clock."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.base.ids import ConversationId
from store.redis.cache import Call
from tests.api.client import Api, Json, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi

ROUNDS = 4
DEEDS_A_ROUND = 15


async def shown(api: Api, user: str, conversations: list[str]) -> Json:
    """All that a client can show of somebody's sessions, deleted ones too."""
    listed = await api.all_sessions(user)
    sessions = {name: await api.session(user, name) for name in conversations}
    for session in (*listed.values(), *filter(None, sessions.values())):
        del session["activeTs"]
    gateway = sessions["b_shop"]
    if gateway is not None and gateway["status"] == "INVALID":
        # Nothing is behind it that these could be of.
        del gateway["writeTs"], gateway["lastMessage"]
    return {
        "listed": listed,
        "order": list(listed),
        "sessions": sessions,
        "total": await api.total_unread(user),
        "folders": await api.categories(user),
        "work": [session["id"] for session in await api.sessions(user, category="work")],
    }


def different(one: Any, other: Any, where: str = "") -> dict[str, tuple[Any, Any]]:
    """What is not the same, by where it is."""
    if isinstance(one, dict) and isinstance(other, dict):
        parts = [different(one.get(name), other.get(name), f"{where}/{name}") for name in {*one, *other}]
        return {path: pair for part in parts for path, pair in part.items()}
    return {} if one == other else {where: (one, other)}


class Life:
    """People who do whatever can be done with sessions."""

    def __init__(self, api: Api, people: list[str], chance: random.Random) -> None:
        self.api = api
        self.people = people
        self.chance = chance
        self.groups: list[str] = []

    def conversations(self, user: str) -> list[str]:
        """Everything that the user may have a session of."""
        others = [other for other in self.people if other != user]
        talks = [private_id(user, other, name) for other in others for name in (None, "shop")]
        return [*talks, *self.groups, "b_shop"]

    async def mine(self, user: str, *, gateways: bool = False) -> str | None:
        """One that the user has, deleted ones too."""
        names = self.conversations(user)[: None if gateways else -1]
        self.chance.shuffle(names)
        for name in names:
            if await self.api.session(user, name) is not None:
                return name
        return None

    async def begin(self) -> None:
        for name in (None, "shop", None):
            self.groups.append(await self.api.create_group(*self.people[:3], subBiz=name))

    async def deed(self) -> None:
        api, chance = self.api, self.chance
        user = chance.choice(self.people)
        kind = chance.choices(("talk", "group", "read", "set", "delete", "invite"), (4, 4, 2, 5, 2, 1))[0]
        if kind == "talk":
            other = chance.choice([other for other in self.people if other != user])
            named = [other] if chance.random() < 0.4 else []
            await api.send(user, other, mentions=named, subBiz=chance.choice((None, "shop")))
            return
        if kind in ("group", "invite"):
            group, member = chance.choice(self.groups), chance.choice(self.people[:3])
            if kind == "invite":
                await api.invite(member, group, chance.choice(self.people))
                return
            everybody = member == self.people[0] and chance.random() < 0.3
            named = chance.sample(self.people[:3], chance.randrange(3))
            await api.send(member, group, mentions=named, mentionAll=everybody)
            return
        where = await self.mine(user, gateways=kind == "read")
        if where is None:
            return
        if kind == "read":
            await api.mark_read(user, where, chance.choice((None, 1, 2, 5)))
        elif kind == "delete":
            await api.delete(user, where, chance.random() < 0.4)
        else:
            await self.settle(user, where)

    async def settle(self, user: str, where: str) -> None:
        """Something that the user sets."""
        api, chance = self.api, self.chance
        match chance.randrange(6):
            case 0:
                await api.mute(user, where, chance.choice((None, 4_000_000_000_000)))
            case 1:
                await api.unmute(user, where)
            case 2:
                await api.pin(user, where, chance.randrange(3))
            case 3:
                await api.set_unread(user, where)
            case 4:
                await api.assign(user, chance.choice((None, "work", "home")), where)
            case 5 if await api.session(user, "b_shop") is not None:
                await chance.choice((api.pin, api.mute, api.unmute))(user, "b_shop")


@pytest.mark.parametrize("seed", range(2))
async def test_what_is_shown_is_the_same_after_any_sequence_of_deeds(
    open_api: OpenApi, deployments: Deployments, seed: int
) -> None:
    async with open_api("lost") as api:
        people = await api.create_users("alice", "bob", "carol", "dave")
        life = Life(api, people, random.Random(seed))
        await life.begin()
        for _ in range(ROUNDS):
            for _ in range(DEEDS_A_ROUND):
                await life.deed()
                # Two that were written in one millisecond may be shown in either order.
                await asyncio.sleep(0.002)
            await api.wait_until_idle()
            before = await gather_all(*(shown(api, user, life.conversations(user)) for user in people))
            deployments.flush_redis("lost")
            after = await gather_all(*(shown(api, user, life.conversations(user)) for user in people))
            for one, other in zip(before, after, strict=True):
                assert different(one, other) == {}


async def test_a_message_that_got_no_place_after_a_loss_reads_nothing(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis is behind MongoDB, and the message does not get another place before it is lost for good."""
    async with open_api("no place") as api:
        store = api.services.app.store
        alice, bob = await api.create_users("alice", "bob")
        for _ in range(3):
            await api.send(bob, alice)
        await api.wait_until_idle()
        deployments.flush_redis("no place")
        await store.deployment.check_redis()
        conversation = ConversationId(private_id(alice, bob))
        assert await api.unread(alice, conversation) == 3
        await store.conversations.find(conversation)
        await store.cache.one(Call("HSET", (store.keys.conversation(conversation)[0],), ("s", 0, "n", 0)))

        async def unreachable(*_: object) -> None:
            raise Unreachable("for a moment")

        monkeypatch.setattr(store.conversations, "drop", unreachable)
        assert (await api.expect_send_refusal(alice, bob)).code == "UNAVAILABLE"
        monkeypatch.undo()
        deployments.flush_redis("no place")
        assert await api.unread(alice, conversation) == 3
