"""After any sequence of changes, the loss of the cache changes nothing that a client shows, except `activeTs`."""

from __future__ import annotations

import asyncio
import random

import pytest

from store.base.errors import Unreachable
from store.base.ids import ConversationId
from store.redis.cache import Call
from tests.api.client import Api, Json, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.json_differences import differences

ROUNDS = 4
CHANGES_PER_ROUND = 15


async def read_sessions(api: Api, user: str, conversations: list[str]) -> Json:
    """Return everything that a client can show of a user's sessions, including deleted ones."""
    listed = await api.all_sessions(user)
    sessions = {name: await api.session(user, name) for name in conversations}
    for session in (*listed.values(), *filter(None, sessions.values())):
        del session["activeTs"]
    gateway = sessions["b_shop"]
    if gateway is not None and gateway["status"] == "INVALID":
        # No session is behind the gateway that these fields could come from.
        del gateway["writeTs"], gateway["lastMessage"]
    return {
        "listed": listed,
        "order": list(listed),
        "sessions": sessions,
        "total": await api.total_unread(user),
        "categories": await api.categories(user),
        "work": [session["id"] for session in await api.sessions(user, category="work")],
    }


class RandomChanges:
    """Users who change sessions at random."""

    def __init__(self, api: Api, users: list[str], rng: random.Random) -> None:
        self.api = api
        self.users = users
        self.rng = rng
        self.groups: list[str] = []

    def conversations(self, user: str) -> list[str]:
        """Return all conversations in which the user may have a session."""
        others = [second for second in self.users if second != user]
        private_conversations = [private_id(user, second, name) for second in others for name in (None, "shop")]
        return [*private_conversations, *self.groups, "b_shop"]

    async def pick_session(self, user: str, *, gateways: bool = False) -> str | None:
        """Return a conversation in which the user has a session, possibly a deleted one."""
        names = self.conversations(user)[: None if gateways else -1]
        self.rng.shuffle(names)
        for name in names:
            if await self.api.session(user, name) is not None:
                return name
        return None

    async def create_groups(self) -> None:
        for name in (None, "shop", None):
            self.groups.append(await self.api.create_group(*self.users[:3], subBiz=name))

    async def make_change(self) -> None:
        api, rng = self.api, self.rng
        user = rng.choice(self.users)
        kind = rng.choices(("private", "group", "read", "set", "delete", "invite"), (4, 4, 2, 5, 2, 1))[0]
        if kind == "private":
            second = rng.choice([second for second in self.users if second != user])
            mentioned = [second] if rng.random() < 0.4 else []
            await api.send(user, second, mentions=mentioned, subBiz=rng.choice((None, "shop")))
            return
        if kind in ("group", "invite"):
            group, member = rng.choice(self.groups), rng.choice(self.users[:3])
            if kind == "invite":
                await api.invite(member, group, rng.choice(self.users))
                return
            mention_all = member == self.users[0] and rng.random() < 0.3
            mentioned = rng.sample(self.users[:3], rng.randrange(3))
            await api.send(member, group, mentions=mentioned, mentionAll=mention_all)
            return
        path = await self.pick_session(user, gateways=kind == "read")
        if path is None:
            return
        if kind == "read":
            await api.mark_read(user, path, rng.choice((None, 1, 2, 5)))
        elif kind == "delete":
            await api.delete(user, path, rng.random() < 0.4)
        else:
            await self.change_setting(user, path)

    async def change_setting(self, user: str, path: str) -> None:
        """Change one random setting of a session."""
        api, rng = self.api, self.rng
        match rng.randrange(6):
            case 0:
                await api.mute(user, path, rng.choice((None, 4_000_000_000_000)))
            case 1:
                await api.unmute(user, path)
            case 2:
                await api.pin(user, path, rng.randrange(3))
            case 3:
                await api.set_unread(user, path)
            case 4:
                await api.assign(user, rng.choice((None, "work", "home")), path)
            case 5 if await api.session(user, "b_shop") is not None:
                await rng.choice((api.pin, api.mute, api.unmute))(user, "b_shop")


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
async def test_the_loss_of_the_cache_changes_nothing_after_random_changes(
    losing_api: Api, deployments: Deployments, seed: int
) -> None:
    api = losing_api
    users = await api.create_users("alice", "bob", "carol", "dave")
    changes = RandomChanges(api, users, random.Random(seed))
    await changes.create_groups()
    for _ in range(ROUNDS):
        for _ in range(CHANGES_PER_ROUND):
            await changes.make_change()
            # Sessions written in the same millisecond may be listed in either order.
            await asyncio.sleep(0.002)
        await api.wait_until_idle()
        before = await gather_all(*(read_sessions(api, user, changes.conversations(user)) for user in users))
        deployments.flush_redis("lost")
        after = await gather_all(*(read_sessions(api, user, changes.conversations(user)) for user in users))
        for first, second in zip(before, after, strict=True):
            assert differences(first, second) == {}


async def test_a_message_refused_after_a_cache_loss_reads_nothing(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis is behind MongoDB, and the message gets no other place before Redis is lost again."""
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
