"""Erasures of users who blocked, banned, reported and exported, and were blocked, banned and reported."""

from __future__ import annotations

import secrets

import pytest

from store.base.ids import UserId
from tests.api.blocks.calls import block, blocked
from tests.api.client import Api
from tests.api.moderation.calls import ADMIN, banned_users
from tests.api.reports.calls import list_reports, root
from tests.checking import find_differences
from tests.erasure.moderation_sample import COLLECTIONS, add_moderation
from tests.erasure.sample import make_sample
from tests.erasure.test_erasing import erase, pseudonym_of
from tests.erasure.traces import list_traces


@pytest.mark.parametrize("messages", [False, True])
async def test_nothing_with_the_id_is_left_in_what_moderators_keep(api: Api, messages: bool) -> None:
    name, text = f"user_2N{secrets.token_hex(4)}", f"word{secrets.token_hex(6)}"
    known = {each: {row["_id"] for row in api.database[each].find()} for each in COLLECTIONS}
    sample = await make_sample(api, name)
    await add_moderation(api, sample, text)
    before = list_traces(api, name)
    named = {name for name in COLLECTIONS if any(trace.startswith(f"{name}: ") for trace in before)}
    assert named == set(COLLECTIONS) - {"content_rules"}
    assert (await erase(api, name, messages=messages))["state"] == "DONE"
    assert list_traces(api, name) == []
    assert await find_differences(api.services.app.store) == []
    assert (list_traces(api, text) == []) is messages
    pseudonym = await pseudonym_of(api, sample)
    rows = {name: [row for row in api.database[name].find() if row["_id"] not in ids] for name, ids in known.items()}
    # Of the reported messages one was recalled: moderators still see its text, unless messages are removed.
    texts = sorted(row["x"] for row in rows["reports"] if row["s"] == pseudonym and "x" in row)
    assert texts == ([] if messages else [f"{text} 0", f"{text} 1"])
    assert [row["f"][1] for row in rows["reports"] if "f" in row] == ["file"]
    assert {row["b"] for row in rows["bans"] if row["b"].startswith("erased-")} == {pseudonym}
    assert not [row for row in rows["bans"] if pseudonym in row["_id"]]
    assert {row["k"] for row in rows["jobs"]} == {"M", "R"}, "the export is gone"
    assert {row["i"]["by"] for row in rows["jobs"] if row["k"] == "M"} == {pseudonym, sample.bob}
    assert api.database["blobs.files"].count_documents({}) == 0
    assert {row["st"] for row in api.database["files"].find({"c": ""})} == {"X"}, "the sweeper removes the row"


async def test_moderators_still_see_reports_and_bans(api: Api) -> None:
    sample = await make_sample(api)
    await add_moderation(api, sample, "insult")
    await erase(api, sample.user)
    pseudonym = await pseudonym_of(api, sample)
    people = {sample.bob, sample.carol, pseudonym}
    shown = [report for report in await list_reports(api, root()) if report["reporter"]["id"] in people]
    assert {report["reporter"]["id"] for report in shown} == people
    (resolved,) = [report for report in shown if report["state"] == "RESOLVED"]
    assert resolved["resolvedBy"]["id"] == pseudonym
    (banned,) = [row for row in api.database["bans"].find() if row["b"] == pseudonym and row["_id"].startswith("- ")]
    assert banned["_id"][2:] in await banned_users(api, ADMIN, None)


async def test_blocks_end_on_all_servers(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    for blocker, user in ((alice, bob), (carol, alice), (carol, bob)):
        await block(api, blocker, user)
    for process in (api, other_api):
        assert (await process.services.app.store.blocks.read(UserId(carol))).users == {alice, bob}
    await erase(api, alice)
    assert list_traces(api, alice) == []
    for process in (api, other_api):
        assert await blocked(process, carol) == [bob]
        assert (await process.services.app.store.blocks.read(UserId(carol))).users == {bob}
    assert [row["_id"] for row in api.database["blocks"].find({"b.u": bob})] == [carol]
