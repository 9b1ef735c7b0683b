"""Group.members(query:): members whose name or id begins with a text."""

from __future__ import annotations

import pytest

from tests.api.client import Api, Refusal
from tests.api.users.searches import MEMBERS, find_members


async def test_members_are_found_by_name_page_by_page(api: Api) -> None:
    owner, anna, bea, zoe, outsider = await api.create_users("owner", "x1", "x2", "x3", "x4")
    names = {anna: "Ánna Ost", bea: "Bea Annas", zoe: "Zoë", outsider: "Anna Out"}
    await api.upsert_users(*({"id": user, "displayName": name} for user, name in names.items()))
    group = await api.create_group(owner, anna, bea, zoe)
    for page in (1, 2, 100):
        assert await find_members(api, zoe, group, "ANN", page=page) == [anna, bea]
    assert await find_members(api, zoe, group, "zoe") == [zoe]
    assert await find_members(api, zoe, group, "x4") == []
    assert await find_members(api, zoe, group, owner) == [owner]
    assert await find_members(api, zoe, group, "ost") == [anna]
    # As without a query: in order of ids, the viewer included.
    for query in ("", " "):
        assert await find_members(api, zoe, group, query, page=3) == [owner, anna, bea, zoe]
    await api.remove(owner, group, anna)
    assert await find_members(api, zoe, group, "ann") == [bea]


async def test_former_members_search_nobody(api: Api) -> None:
    owner, former, other = await api.create_users("owner", "former", "other")
    group = await api.create_group(owner, former, other)
    await api.leave(former, group)
    assert await find_members(api, former, group, "o") is None


async def test_members_of_a_group_of_thousands_are_found_with_one_read(api: Api) -> None:
    (owner,) = await api.create_users("owner")
    members = [f"m{number}.{owner}@example.org" for number in range(2_000)]
    for start in (0, 1_000):
        part = members[start : start + 1_000]
        await api.upsert_users(*({"id": user, "displayName": f"Number {user[1:]}"} for user in part))
    group = await api.create_group(owner, *members)
    found = await find_members(api, owner, group, "number 199", page=5)
    assert found == sorted(user for user in members if user.startswith("m199"))
    mongo, reads = api.services.app.store.mongo, []
    for _ in range(5):
        trips = mongo.trips
        await find_members(api, owner, group, "number 1999")
        reads.append(mongo.trips - trips)
    # The names that are shown are in memory, once the news of their creation has arrived.
    assert min(reads) == 1


@pytest.mark.parametrize(
    ("variables", "field"), [({"text": "x" * 101}, "query"), ({"text": "x", "after": "dQp4"}, "after")], ids=ascii
)
async def test_invalid_searches_are_refused(api: Api, variables: dict[str, object], field: str) -> None:
    owner, one, two = await api.create_users("owner", "one", "two")
    group = await api.create_group(owner, one, two)
    assert await api.expect_refusal(owner, MEMBERS, id=group, **variables) == Refusal("INVALID_INPUT", field)
