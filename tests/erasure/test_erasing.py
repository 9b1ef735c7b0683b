"""Traces of an erased user, and the view of others."""

from __future__ import annotations

import secrets

import pytest

from resolvers.users.callers import CallerRole
from tests.api.client import Api, Json, make_caller, private_id
from tests.api.reactions.calls import MESSAGE
from tests.api.workspaces.calls import expect_right_counts, own_workspace
from tests.checking import find_differences
from tests.erasure.sample import SERVICE, ErasedSample, make_sample
from tests.erasure.traces import ERASE, ERASURE, list_traces, wait_for_end

ADMIN = make_caller("the-admin", CallerRole.ADMIN)


async def erase(api: Api, user: str, *, messages: bool = False) -> Json:
    begun = (await api.data(SERVICE, ERASE, id=user, messages=messages))["eraseUser"]
    assert begun["userId"] == user and begun["state"] in ("WAITING", "RUNNING")
    assert begun["remaining"] > 0 and begun["finishedAt"] is None
    return await wait_for_end(api, SERVICE, user)


async def pseudonym_of(api: Api, sample: ErasedSample) -> str:
    """Return the id that others see in place of the user's."""
    history = await api.history(sample.bob, sample.group)
    (found,) = {m["sender"]["id"] for m in history if m["sender"]["id"].startswith("erased-")}
    return str(found)


async def test_a_user_without_anything_leaves_nothing(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    done = await erase(api, alice)
    assert (done["state"], done["remaining"]) == ("DONE", 0)
    assert list_traces(api, alice) == []


@pytest.mark.parametrize(
    ("user", "messages"),
    [("plain", False), ("user_2N", True), ('a"quote', False), ("a/b", True), ("back\\slash", False), ("caf\xe9", True)],
)
async def test_nothing_with_the_id_is_left(api: Api, user: str, messages: bool) -> None:
    name = f"{user}{secrets.token_hex(4)}"
    sample = await make_sample(api, name)
    assert await find_differences(api.services.app.store) == []
    await erase(api, name, messages=messages)
    assert list_traces(api, name) == []
    assert await find_differences(api.services.app.store) == []
    assert await pseudonym_of(api, sample)


@pytest.fixture
async def sample(api: Api) -> ErasedSample:
    return await make_sample(api)


async def test_messages_stay_without_a_name(api: Api, sample: ErasedSample) -> None:
    await erase(api, sample.user)
    pseudonym = await pseudonym_of(api, sample)
    own = [m for m in await api.history(sample.bob, sample.group) if m["sender"]["id"] == pseudonym]
    assert "hello" in [message["content"] for message in own]
    shown = (await api.data(sample.bob, "query ($id: ID!) { users(ids: [$id]) { id } }", id=pseudonym))["users"]
    assert shown == [None]


async def test_messages_are_removed_if_asked_for(api: Api, sample: ErasedSample) -> None:
    await erase(api, sample.user, messages=True)
    pseudonym = await pseudonym_of(api, sample)
    own = [m for m in await api.history(sample.bob, sample.group) if m["sender"]["id"] == pseudonym]
    written = [m for m in own if m["contentType"] != "SYSTEM"]
    assert written and {m["content"] for m in written} == {None}
    assert "back" in [m["content"] for m in await api.history(sample.bob, private_id(sample.bob, pseudonym))]
    rows = list(api.database["messages"].find({"u": pseudonym, "k": {"$ne": "S"}}))
    assert rows and not any({"t", "md", "at", "em"} & row.keys() for row in rows)


async def test_private_conversations_continue_under_the_pseudonym(api: Api, sample: ErasedSample) -> None:
    before = await api.history(sample.bob, sample.private)
    session = await api.session(sample.bob, sample.private)
    assert session is not None
    await erase(api, sample.user)
    moved = private_id(sample.bob, await pseudonym_of(api, sample))
    after = await api.history(sample.bob, moved)
    assert [(m["id"], m["seq"], m["content"]) for m in after] == [(m["id"], m["seq"], m["content"]) for m in before]
    now = await api.session(sample.bob, moved)
    assert now is not None
    assert [now[name] for name in ("readSeq", "writeSeq", "unreadCount")] == [
        session[name] for name in ("readSeq", "writeSeq", "unreadCount")
    ]
    assert await api.session(sample.bob, sample.private) is None
    for conversation in (moved, sample.private):
        assert (await api.expect_send_refusal(sample.bob, conversation)).code == "NOT_FOUND"
    assert (await api.expect_send_refusal(sample.bob, sample.user)).code == "NOT_FOUND"


async def test_groups_and_workspaces_go_to_another_member(api: Api, sample: ErasedSample) -> None:
    await erase(api, sample.user)
    group = await api.group(sample.bob, sample.group)
    assert group is not None and group["owner"]["id"] in (sample.bob, sample.carol)
    workspace = await own_workspace(api, sample.carol, sample.own_workspace)
    assert (workspace["owner"]["id"], workspace["memberCount"]) == (sample.carol, 1)
    expect_right_counts(api, sample.own_workspace)
    expect_right_counts(api, sample.made.id)


async def test_reactions_are_removed_and_counted(api: Api, sample: ErasedSample) -> None:
    await erase(api, sample.user)
    (shown,) = (await api.data(sample.bob, MESSAGE, id=sample.message))["message"]["reactions"]
    assert (shown["count"], [user["id"] for user in shown["users"]]) == (1, [sample.bob])


async def test_files_are_removed(api: Api, sample: ErasedSample) -> None:
    assert api.database["blobs.files"].count_documents({}) > 0
    await erase(api, sample.user)
    (row,) = api.database["files"].find({"_id": int(sample.file[2:])})
    assert row["st"] == "X" and row["n"] != "notes.txt"
    assert list(api.database["blobs.files"].find({"_id": {"$regex": f"^{sample.file[2:]}"}})) == []


async def test_the_audit_log_names_the_caller_and_the_pseudonym(api: Api, sample: ErasedSample) -> None:
    await erase(api, sample.user)
    pseudonym = await pseudonym_of(api, sample)
    (entry,) = api.database["audit"].find({"a": "eraseUser", "t": pseudonym})
    assert (entry["u"], entry["f"]) == ("service", {"messages": False})


async def test_a_repeated_call_answers_the_same_erasure(api: Api, sample: ErasedSample) -> None:
    await api.data(SERVICE, ERASE, id=sample.user)
    await api.data(ADMIN, ERASE, id=sample.user, messages=True)
    done = await wait_for_end(api, ADMIN, sample.user)
    assert (await api.data(SERVICE, ERASE, id=sample.user))["eraseUser"] == done
    own = api.database["messages"].find({"u": await pseudonym_of(api, sample), "t": "hello"})
    assert len(list(own)) == 1


async def test_erasures_can_be_asked_for_by_the_id(api: Api, sample: ErasedSample) -> None:
    assert (await api.data(SERVICE, ERASURE, id=sample.user))["erasure"] is None
    done = await erase(api, sample.user)
    assert (await api.data(ADMIN, ERASURE, id=sample.user))["erasure"] == done
    assert (await api.data(ADMIN, ERASURE, id="a b"))["erasure"] is None


@pytest.mark.parametrize("caller", ["bob", "the user"])
async def test_only_services_and_admins_erase_users(api: Api, sample: ErasedSample, caller: str) -> None:
    token = make_caller(sample.user if caller == "the user" else sample.bob)
    before = await api.stored_documents()
    for query in (ERASE, ERASURE):
        assert (await api.expect_refusal(token, query, id=sample.user)).code == "FORBIDDEN"
    assert await api.stored_documents() == before


@pytest.mark.parametrize(
    ("user", "code"),
    [
        ("nobody", "NOT_FOUND"),
        ("a b", "NOT_FOUND"),
        ("", "NOT_FOUND"),
        ("h_123456789012345", "NOT_FOUND"),
        ("service", "INVALID_INPUT"),
        ("erased-0123456789abcdef", "NOT_FOUND"),
    ],
)
async def test_only_other_users_that_exist_are_erased(api: Api, user: str, code: str) -> None:
    await api.data(SERVICE, ERASURE, id="nobody")
    before = await api.stored_documents()
    refusal = await api.expect_refusal(SERVICE, ERASE, id=user)
    assert (refusal.code, refusal.field) == (code, "userId")
    assert await api.stored_documents() == before
