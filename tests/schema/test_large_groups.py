"""Groups beyond what is served before the sender is answered, and beyond what receipts are pushed in."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from resolvers.callers import CallerRole
from tests.schema.api import INVITE, LIVE_SESSIONS, Api, Refusal, caller, eventually, together

SIZE = 450
UPSERT = "mutation ($input: [UserInput!]!) { upsertUsers(input: $input) { id } }"
MEMBERS = """query ($id: ID!, $after: String) { group(id: $id) { memberCount members(first: 100, after: $after) {
    pageInfo { hasNextPage endCursor } edges { node { user { id } } } } } }"""


@dataclass(frozen=True)
class Crowd:
    api: Api
    people: list[str]
    group: str


async def users(api: Api, mark: str, count: int) -> list[str]:
    made = [f"{mark}.{number:04}" for number in range(count)]
    given = [{"id": user, "displayName": user} for user in made]
    await api.data(caller("service", CallerRole.SERVICE), UPSERT, input=given)
    return made


@pytest.fixture(scope="module")
async def crowd(process: Api) -> Crowd:
    (mark,) = await process.people("crowd")
    people = await users(process, mark, SIZE)
    return Crowd(process, people, await process.create_group(*people))


async def test_everybody_gets_a_message_soon_and_the_sender_waits_for_few(crowd: Crowd, api: Api) -> None:
    first, last = crowd.people[1], crowd.people[-1]
    some = crowd.people[:: SIZE // 9]
    before = {user: await api.unread(user, crowd.group) for user in some}
    listeners = [await api.listen(user) for user in (first, last)]
    sent = (await api.send(crowd.people[0], crowd.group, "to all"))["message"]
    for listener in listeners:
        assert (await listener.next())["message"] == sent
        await listener.none(0.03)

    async def all_count() -> bool:
        counts = {user: await api.unread(user, crowd.group) for user in some if user != crowd.people[0]}
        return all(count == before[user] + 1 for user, count in counts.items())

    await eventually(all_count)


async def test_readers_are_not_announced_to_senders_in_a_crowd_but_to_themselves(crowd: Crowd, api: Api) -> None:
    sender, reader = crowd.people[0], crowd.people[7]
    await api.send(sender, crowd.group)
    await api.settled()
    told, own, synced = await api.listen(sender), await api.listen(reader), await api.listen(reader, LIVE_SESSIONS)
    await api.mark_read(reader, crowd.group)
    assert (await own.next())["__typename"] == "ReceiptAdvanced"
    assert (await synced.next())["reason"] == "READ"
    await api.settled()
    await told.none()


async def test_the_members_of_a_crowd_are_listed_whole(crowd: Crowd, api: Api) -> None:
    found: list[str] = []
    after = None
    while True:
        shown = (await api.data(crowd.people[9], MEMBERS, id=crowd.group, after=after))["group"]
        assert shown["memberCount"] == SIZE
        found += [edge["node"]["user"]["id"] for edge in shown["members"]["edges"]]
        after = shown["members"]["pageInfo"]["endCursor"]
        if not shown["members"]["pageInfo"]["hasNextPage"]:
            break
    assert found == crowd.people


async def test_many_join_at_once_with_one_message(api: Api) -> None:
    alice, bob, carol, mark = await api.people("alice", "bob", "carol", "mark")
    group = await api.create_group(alice, bob, carol)
    newcomers = await users(api, mark, 250)
    listeners = [await api.listen(newcomers[i], LIVE_SESSIONS) for i in (0, -1)]
    assert (await api.invite(alice, group, *newcomers))["memberCount"] == 253
    for listener in listeners:
        assert (await listener.next())["reason"] == "MEMBERSHIP"
    (told,) = await api.history(bob, group)
    assert len(told["mentions"]) == 250
    assert len(told["content"]) < 4_000
    await api.send(newcomers[-1], group)
    for user in (alice, newcomers[0], newcomers[200]):

        async def counted(user: str = user) -> bool:
            return await api.unread(user, group) == 1

        await eventually(counted)


async def test_more_than_the_default_limit_is_refused_whatever_they_are_called(api: Api) -> None:
    alice, bob, carol = await api.people("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    crowd = [f"nobody.{number}" for number in range(5_001)]
    refusal = await api.refusal(alice, INVITE, id=group, users=crowd)
    assert refusal in (Refusal("GROUP_FULL", "userIds"), Refusal("NOT_FOUND", "userIds"))


async def test_many_mentions_in_one_message_are_kept(crowd: Crowd, api: Api) -> None:
    sent = await api.send(crowd.people[3], crowd.group, mentions=crowd.people[100:300])
    assert len(sent["message"]["mentions"]) == 200
    await together(*(api.session(user, crowd.group) for user in crowd.people[:50]))
