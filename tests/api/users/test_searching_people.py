"""searchUsers: finds people who share a conversation with the caller, or all users with a directory."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest

from resolvers.users import people as people_search
from tests.api.client import Api, Refusal, gather_all, make_caller
from tests.api.conftest import OpenApi
from tests.api.users.searches import SEARCH, find_members, find_page, find_people


@pytest.fixture(scope="module")
async def directory(open_api: OpenApi) -> AsyncIterator[Api]:
    """A process whose users may find everybody."""
    async with open_api("directory", user_directory=True) as api:
        yield api


async def create_people(api: Api, **names: str) -> dict[str, str]:
    """Create users with these display names. Return their ids by key."""
    mark = secrets.token_hex(4)
    ids = {key: f"{key}-{mark}" for key in names}
    await api.upsert_users(*({"id": ids[key], "displayName": name} for key, name in names.items()))
    return ids


async def test_only_people_in_shared_conversations_are_found(api: Api) -> None:
    viewer, friend, member, former, stranger, ended, indirect = await api.create_users(
        "viewer", "ann-friend", "ann-member", "ann-former", "ann-stranger", "ann-ended", "ann-indirect"
    )
    await api.send(friend, viewer)
    await api.create_group(viewer, member, former, name="Shared")
    group = await api.create_group(member, viewer, former)
    await api.leave(former, group)
    groups = (await api.data(viewer, "{ myGroups { edges { node { id name } } } }"))["myGroups"]["edges"]
    (shared,) = [edge["node"]["id"] for edge in groups if edge["node"]["name"] == "Shared"]
    await api.leave(former, shared)
    await api.create_group(member, indirect, stranger)
    over = await api.create_group(viewer, ended, member)
    assert await find_people(api, viewer, "ann") == [ended, friend, member]
    await api.data(viewer, "mutation ($id: ID!) { deleteConversation(conversationId: $id) }", id=over)
    assert await find_people(api, viewer, "ann") == [friend, member]
    assert await find_people(api, viewer, stranger) == []
    # It holds in both directions, and the caller is never found.
    assert await find_people(api, friend, "") == [viewer]
    assert await find_people(api, stranger, "viewer") == []
    assert await find_people(api, viewer, "viewer") == []


async def test_a_removed_member_does_not_find_the_others(api: Api) -> None:
    owner, viewer, other = await api.create_users("owner", "viewer", "other")
    group = await api.create_group(owner, viewer, other)
    assert await find_people(api, viewer, "") == [other, owner]
    await api.remove(owner, group, viewer)
    assert await find_people(api, viewer, "") == []
    assert await find_people(api, other, "") == [owner]


async def test_an_empty_query_lists_partners_by_name(api: Api, directory: Api) -> None:
    for process in (api, directory):
        ids = await create_people(process, z="Ann Lee", b="Øtto", c="anna", a="Zoë", e="stranger")
        (viewer,) = await process.create_users("viewer")
        await process.create_group(viewer, *(ids[key] for key in "abcz"))
        for query in ("", "  \t"):
            assert await find_people(process, viewer, query, page=1) == [ids[key] for key in "zcba"]


async def test_a_query_matches_the_beginning_of_any_word_of_the_name(api: Api, directory: Api) -> None:
    for process in (api, directory):
        ids = await create_people(process, a="Mary Ann Smith", b="Annabel Lee", c="Joanna", d="Jean-Luc O'Brien")
        (viewer,) = await process.create_users("viewer")
        await process.create_group(viewer, *ids.values())
        for query, keys in {
            "ann": "ba",
            "mary a": "a",
            " Ann  smi ": "a",
            "Smith": "a",
            "mary smith": "",
            "o'br": "d",
            "obrien": "d",
            "luc": "d",
            "jean luc": "d",
            ".*": "",
        }.items():
            found = await find_people(process, viewer, query)
            assert [user for user in found if user in ids.values()] == [ids[key] for key in keys], query


@pytest.mark.parametrize(
    ("name", "queries"),
    [
        ("Jürgen Weiß", ["jurgen", "JÜRG", "weiss", "weis", "WEISS"]),
        ("Øyvind Ærlig", ["oyv", "øy", "aerl", "ÆR"]),
        ("\u0130pek I\u015f\u0131k", ["ipek", "IPEK", "isik", "\u0131\u015f\u0131", "\u0130P"]),
        ("ΟΔΥΣΣΕΥΣ Νίκος", ["οδυσσεύς", "νικος", "ΝΊΚΟΣ"]),
        ("Rock\u2019n\u2011Roll", ["rockn", "rock'n roll", "ROLL"]),
        ("\uff21\uff4e\uff4e\uff41", ["anna", "\uff21\uff2e"]),
        ("王小明", ["王", "王小", "小明", "明"]),
        ("たなか", ["た", "たな"]),
        ("김민준", ["ㄱ", "기", "김", "김민"]),
        ("क्षितिज", ["क्", "क्षि"]),
        ("สมชาย", ["ส", "สมช"]),
        ("Nguyễn", ["nguye", "Nguyễ", "nguye\u0302\u0303n"]),
        ("🔥Ann", ["ann", "🔥"]),
        ("…", ["…"]),
        ("$where", ["where", "$w"]),
    ],
)
async def test_case_and_diacritics_are_ignored(api: Api, directory: Api, name: str, queries: list[str]) -> None:
    for process in (api, directory):
        ids = await create_people(process, found=name, other="Zzz")
        (viewer,) = await process.create_users("viewer")
        await process.create_group(viewer, *ids.values())
        for query in queries:
            found = await find_people(process, viewer, query)
            assert ids["found"] in found, query
            assert ids["other"] not in found, query


async def test_users_are_found_by_the_beginning_of_their_id(api: Api, directory: Api) -> None:
    for process in (api, directory):
        mark = secrets.token_hex(4)
        user = f"auth0|{mark}_aB@example.org"
        await process.upsert_users({"id": user, "displayName": "Otto", "isBot": True})
        (viewer,) = await process.create_users("viewer")
        await process.send(viewer, user)
        for query in (user, user[:9], user.upper(), f"auth0 {mark}"):
            assert await find_people(process, viewer, query) == [user], query
        # Words inside an id do not count: everybody would be found by the domain of an email address.
        for query in ("example", mark, f"{user}x"):
            assert user not in await find_people(process, viewer, query), query


async def test_the_directory_finds_everybody(directory: Api) -> None:
    ids = await create_people(directory, a="Dirk Aal", b="Dirk Beer", c="Carl Dirksen")
    (viewer,) = await directory.create_users("viewer-dirk")
    await directory.data("dirk.new", "{ me { id } }")
    for page in (1, 2, 100):
        assert await find_people(directory, viewer, "DIRK", page=page) == [ids["c"], ids["a"], ids["b"], "dirk.new"]
    assert await find_people(directory, viewer, "dirk beer and more") == []
    assert await find_people(directory, viewer, "viewer-dirk") == []


async def test_pages_stay_right_while_people_come_and_go(api: Api) -> None:
    ids = await create_people(api, a="Page A", b="Page B", c="Page C", d="Page D", e="Page B")
    (viewer,) = await api.create_users("viewer")
    group = await api.create_group(viewer, *(ids[key] for key in "abcde"))
    first = await find_page(api, viewer, "page", first=2)
    assert [edge["node"]["id"] for edge in first["edges"]] == [ids["a"], ids["b"]]
    await api.remove(viewer, group, ids["b"])
    await api.upsert_users({"id": ids["c"], "displayName": "Page 0"})
    rest = await find_page(api, viewer, "page", first=2, after=first["pageInfo"]["endCursor"])
    assert [edge["node"]["id"] for edge in rest["edges"]] == [ids["e"], ids["d"]]
    assert not rest["pageInfo"]["hasNextPage"]


async def test_a_new_name_is_found_at_once_by_every_server(api: Api, other_api: Api) -> None:
    viewer, friend = await api.create_users("viewer", "friend")
    await api.send(viewer, friend)
    await api.data(friend, 'mutation { updateMe(displayName: "Xaver") { id } }')
    for process in (api, other_api):
        assert await find_people(process, viewer, "xav") == [friend]
        await process.upsert_users({"id": friend, "displayName": "Yves"})
        assert await find_people(process, viewer, "xav") == []
        assert await find_people(process, viewer, "yve") == [friend]
        await process.upsert_users({"id": friend, "displayName": "Xaver"})


async def test_the_largest_groups_are_left_out_of_an_enormous_search(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    viewer, friend, near, *far = await api.create_users("viewer", "friend", "near", "far1", "far2", "far3")
    await api.create_group(viewer, *far)
    await api.create_group(viewer, near, far[0])
    await api.send(viewer, friend)
    assert await find_people(api, viewer, "") == [*far, friend, near]
    monkeypatch.setattr(people_search, "MAX_PARTNERS", 6)
    assert await find_people(api, viewer, "") == [far[0], friend, near]


async def test_a_user_whose_name_an_older_server_changed_is_found_after_the_next_pass(api: Api, directory: Api) -> None:
    for process in (api, directory):
        ids = await create_people(process, a="Former Name", b="Stays")
        (viewer,) = await process.create_users("viewer")
        await process.create_group(viewer, *ids.values())
        # As servers did that did not know the search: existing users, and new ones.
        process.database.users.update_one({"_id": ids["a"]}, {"$set": {"n": "Newer Name"}})
        process.database.users.update_one({"_id": ids["b"]}, {"$unset": {"s": "", "i": "", "k": "", "sv": ""}})
        process.services.app.store.users.invalidate(None)
        assert ids["a"] not in await find_people(process, viewer, "former")
        assert await process.services.app.store.user_search.fill() == 2
        assert await process.services.app.store.user_search.fill() == 0
        assert await find_people(process, viewer, "newer") == [ids["a"]]
        assert ids["b"] in await find_people(process, viewer, "stays")


async def test_turning_the_directory_on_makes_existing_users_searchable(open_api: OpenApi) -> None:
    async with open_api("turned") as without, open_api("turned", user_directory=True) as within:
        viewer, stranger = await without.create_users("viewer", "stranger")
        assert await find_people(within, viewer, "stranger") == []
        await within.services.app.store.user_search.fill_when_due()
        assert await find_people(within, viewer, "stranger") == [stranger]
        assert await find_people(without, viewer, "stranger") == []
        # Once in an hour.
        await gather_all(*(within.create_users("x"), within.services.app.store.user_search.fill_when_due()))
        # A server without the directory does not leave keys of a former name behind.
        await without.upsert_users({"id": stranger, "displayName": "Other"})
        assert await find_people(within, viewer, "stranger") == []


async def test_a_query_of_any_single_character_is_answered(api: Api, directory: Api) -> None:
    viewer, peer, other = await api.create_users("viewer", "peer", "other")
    await api.send(viewer, peer)
    group = await api.create_group(viewer, peer, other)
    for text in [*map(chr, range(128)), "\0\0", "\0 \0", "\u2028", "\u202e", "\uffff", "\U0010ffff"]:
        for searched in (api, directory):
            await find_people(searched, viewer, text)
        await find_members(api, viewer, group, text)


@pytest.mark.parametrize(
    ("variables", "field"),
    [
        ({"text": "x" * 101}, "query"),
        ({"text": "\ud800"}, "query"),
        ({"text": "x", "first": 0}, "first"),
        ({"text": "x", "first": 101}, "first"),
        ({"text": "x", "after": "nonsense"}, "after"),
        ({"text": "x", "after": "dQph"}, "after"),
    ],
    ids=ascii,
)
async def test_invalid_searches_are_refused(api: Api, variables: dict[str, object], field: str) -> None:
    (viewer,) = await api.create_users("viewer")
    assert await api.expect_refusal(viewer, SEARCH, **variables) == Refusal("INVALID_INPUT", field)


async def test_an_unknown_workspace_is_not_found(api: Api) -> None:
    (viewer,) = await api.create_users("viewer")
    query = 'query ($id: ID!) { searchUsers(query: "a", workspaceId: $id) { edges { cursor } } }'
    assert await api.expect_refusal(viewer, query, id="w_1") == Refusal("NOT_FOUND", "workspaceId")


async def test_a_name_that_comes_with_a_token_is_found(api: Api, directory: Api) -> None:
    for process in (api, directory):
        viewer, named = await process.create_users("viewer", "user")
        await process.send(viewer, named)
        for name in ("$Lea n", "Other"):
            # A token fills a name only once.
            await process.data(make_caller(named, name=name), "{ me { id } }")
            assert await find_people(process, viewer, "lea n") == [named]
            assert named not in await find_people(process, viewer, "other")
        assert await find_people(process, viewer, named) == [named]
