"""The query `auditLog`: rights, order, filters and pages."""

from __future__ import annotations

from typing import Any

import pytest

from resolvers.users.callers import CallerRole
from store.audit import audit_reads
from store.audit.audit_log import AuditLog
from store.audit.audit_note import AuditNote
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.workspaces.permissions import Permission
from tests.api.audit.sample import ADMIN, AUDIT_LOG, bridge_for, list_entries, read_all
from tests.api.client import Api, Json, Refusal, make_caller
from tests.api.workspaces.calls import UPDATE, add_members, create_workspace, give_role, own_workspace

NODE = "query ($id: ID!) { node(id: $id) { id ... on AuditEntry { action } } }"
RENAME = """mutation ($id: ID!, $name: String!) {
    updateWorkspace(workspaceId: $id, input: {name: $name}) { id } }"""


async def add_entries(api: Api, workspace: str | None, *entries: tuple[str, str, str]) -> None:
    """Store entries, each with its user, action and target."""
    log = WorkspaceId(workspace) if workspace is not None else None
    notes = [AuditNote(UserId(user), action, log, target) for user, action, target in entries]
    await api.services.app.store.audit.record(*notes)


async def test_an_entry_has_who_changed_what_and_the_values_before_and_after(api: Api) -> None:
    owner, *_ = await api.create_users("owner")
    workspace = await create_workspace(api, owner, "Old")
    await api.data(owner, UPDATE, id=workspace, input={"name": "New", "isOpen": False})
    entry, created = await list_entries(api, owner, workspace=workspace)
    assert (entry["action"], created["action"]) == ("updateWorkspace", "createWorkspace")
    assert entry["actor"] == {"id": owner} and entry["onBehalfOf"] is None
    assert entry["targetId"] == workspace and entry["reason"] is None
    assert (entry["before"], entry["after"]) == ({"name": "Old"}, {"name": "New"})
    assert created["createdAt"] <= entry["createdAt"]


async def test_members_without_the_right_are_refused_and_others_learn_nothing(api: Api) -> None:
    owner, reader, member, outsider = await api.create_users("owner", "reader", "member", "outsider")
    workspace = await create_workspace(api, owner)
    await add_members(api, workspace, reader, member)
    await give_role(api, workspace, reader, Permission.VIEW_AUDIT_LOG)
    (entry, *_) = await list_entries(api, reader, workspace=workspace)
    assert await api.data(reader, NODE, id=entry["id"]) == {"node": {"id": entry["id"], "action": entry["action"]}}
    before = await own_workspace(api, owner, workspace)
    for user, code in ((member, "FORBIDDEN"), (outsider, "NOT_FOUND"), (ADMIN, "NOT_FOUND")):
        refusal = await api.expect_refusal(user, AUDIT_LOG, workspace=workspace)
        assert refusal.code == code
        assert await api.data(user, NODE, id=entry["id"]) == {"node": None}
    assert await own_workspace(api, owner, workspace) == before


@pytest.mark.parametrize("role", [CallerRole.USER, CallerRole.SERVICE])
async def test_only_admins_read_the_log_of_the_deployment(api: Api, role: CallerRole) -> None:
    await add_entries(api, None, ("root", "banUser", "u"))
    (entry,) = await list_entries(api, ADMIN, first=1)
    caller = make_caller("somebody", role)
    assert (await api.expect_refusal(caller, AUDIT_LOG)).code == "FORBIDDEN"
    assert await api.data(caller, NODE, id=entry["id"]) == {"node": None}
    assert await api.data(ADMIN, NODE, id=entry["id"]) == {"node": {"id": entry["id"], "action": "banUser"}}


async def test_users_who_do_not_exist_are_shown_by_id(api: Api) -> None:
    owner, *_ = await api.create_users("owner")
    workspace = await create_workspace(api, owner)
    await add_entries(api, workspace, ("erased-1", "kickMember", "erased-2"))
    (entry, *_) = await list_entries(api, owner, workspace=workspace)
    assert (entry["actor"], entry["targetId"]) == ({"id": "erased-1"}, "erased-2")


async def sample_log(api: Api) -> tuple[str, str]:
    """Return an owner, and a workspace with entries of several users, actions and targets."""
    owner, *_ = await api.create_users("owner")
    workspace = await create_workspace(api, owner)
    for number in range(5):
        for user in ("ada", "bob"):
            for action in ("kickMember", "banUser", "timeoutMember"):
                await add_entries(api, workspace, (user, action, f"t{number % 3}"))
    return owner, workspace


def matches(entry: Json, actor: str | None, target: str | None, actions: list[str] | None) -> bool:
    return (
        (actor is None or entry["actor"]["id"] == actor)
        and (target is None or entry["targetId"] == target)
        and (actions is None or entry["action"] in actions)
    )


@pytest.mark.parametrize("actor", [None, "ada", "nobody"])
@pytest.mark.parametrize("target", [None, "t1", "nothing"])
@pytest.mark.parametrize("actions", [None, [], ["banUser"], ["banUser", "kickMember", "unknown", "banUser"]])
@pytest.mark.parametrize("page", [1, 4, 100])
async def test_pages_have_all_entries_that_meet_the_conditions(
    api: Api, actor: str | None, target: str | None, actions: list[str] | None, page: int
) -> None:
    owner, workspace = await sample_log(api)
    everything = await read_all(api, owner, 100, workspace=workspace)
    assert len(everything) == 31
    found = await read_all(api, owner, page, workspace=workspace, actor=actor, target=target, actions=actions)
    assert found == [entry for entry in everything if matches(entry, actor, target, actions)]


async def test_an_entry_is_found_by_who_acted_and_not_by_the_user_acted_for(api: Api) -> None:
    owner, *_ = await api.create_users("owner")
    workspace = await create_workspace(api, owner)
    await api.data(bridge_for(owner), RENAME, id=workspace, name="By the bridge")
    (renamed,) = await list_entries(api, owner, workspace=workspace, actor="bridge")
    assert (renamed["actor"]["id"], renamed["onBehalfOf"]["id"]) == ("bridge", owner)
    (created,) = await list_entries(api, owner, workspace=workspace, actor=owner)
    assert created["action"] == "createWorkspace"


async def test_pages_stay_the_same_while_entries_are_added(api: Api) -> None:
    owner, workspace = await sample_log(api)
    before = await read_all(api, owner, 100, workspace=workspace)
    first = (await api.data(owner, AUDIT_LOG, workspace=workspace, first=10))["auditLog"]
    await add_entries(api, workspace, ("ada", "kickMember", "t1"))
    after = first["pageInfo"]["endCursor"]
    rest = (await api.data(owner, AUDIT_LOG, workspace=workspace, after=after))["auditLog"]["edges"]
    assert [edge["node"] for edge in (*first["edges"], *rest)] == before


async def test_a_page_with_several_conditions_reads_a_limited_number_of_entries(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, workspace = await sample_log(api)
    monkeypatch.setattr(audit_reads, "ROWS_PER_STEP", 2)
    monkeypatch.setattr(audit_reads, "MOST_ROWS", 4)
    wanted: Json = {"workspace": workspace, "target": "t0", "actor": "ada", "actions": ["kickMember"]}
    first = (await api.data(owner, AUDIT_LOG, **wanted))["auditLog"]
    # The newest four entries about t0 have none that is wanted.
    assert first["edges"] == [] and first["pageInfo"]["hasNextPage"] and first["pageInfo"]["endCursor"]
    monkeypatch.undo()
    expected = await read_all(api, owner, 100, **wanted)
    monkeypatch.setattr(audit_reads, "ROWS_PER_STEP", 2)
    monkeypatch.setattr(audit_reads, "MOST_ROWS", 4)
    assert await read_all(api, owner, 100, **wanted) == expected != []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"first": 0}, "first"),
        ({"first": 101}, "first"),
        ({"after": "x"}, "after"),
        ({"actions": ["a"] * 101}, "actions"),
        ({"actor": "\ud800"}, "actorId"),
    ],
    ids=["no entry", "too many", "cursor", "actions", "surrogate"],
)
async def test_bad_input_is_refused(api: Api, arguments: Json, field: str) -> None:
    assert await api.expect_refusal(ADMIN, AUDIT_LOG, **arguments) == Refusal("INVALID_INPUT", field)


async def explained_indexes(api: Api, *queries: tuple[Json, Any]) -> list[Json]:
    plans = []
    for query, index in queries:
        cursor = api.database["audit"].find(query).hint(list(index)).sort([("_id", -1)]).limit(10)
        plans.append(cursor.explain()["executionStats"])
    return plans


@pytest.mark.parametrize(
    "wanted",
    [
        audit_reads.AuditFilter(),
        audit_reads.AuditFilter(actor=UserId("ada")),
        audit_reads.AuditFilter(target="t1"),
        audit_reads.AuditFilter(actions=["banUser", "kickMember"]),
    ],
    ids=["all", "actor", "target", "actions"],
)
async def test_a_page_reads_no_more_entries_than_it_shows(api: Api, wanted: audit_reads.AuditFilter) -> None:
    _, workspace = await sample_log(api)
    inside = {"_id": {"$gt": f"{workspace} ", "$lt": f"{workspace}!"}}
    for plan in await explained_indexes(api, *((inside | query, index) for query, index in wanted.queries())):
        assert plan["totalDocsExamined"] <= 10 + len(wanted.actions or ())


async def test_entries_are_removed_after_the_time_of_the_setting(api: Api) -> None:
    store = api.services.app.store
    notes = AuditNote(UserId("u"), "banUser")
    (kept,) = AuditLog(store.mongo, store.ids).entry_rows(notes)
    assert "x" not in kept
    (row,) = AuditLog(store.mongo, store.ids, kept_days=3).entry_rows(notes)
    assert abs(row["x"].timestamp() * 1000 - store.clock.now_ms() - 3 * 86_400_000) < 60_000
    indexes = api.database["audit"].index_information().values()
    assert [index["expireAfterSeconds"] for index in indexes if index["key"] == [("x", 1)]] == [0]


async def test_values_and_reasons_are_limited_in_size(api: Api) -> None:
    owner, *_ = await api.create_users("owner")
    workspace = await create_workspace(api, owner)
    values = {"names": ["n" * 5_000] * 5_000, "text": "\N{SNOWMAN}" * 100_000, "number": 7}
    note = AuditNote(
        UserId(owner), "x", WorkspaceId(workspace), None, values, {str(n): n for n in range(9_999)}, "r" * 9_999
    )
    await api.services.app.store.audit.record(note)
    (entry, *_) = await list_entries(api, owner, workspace=workspace)
    assert entry["before"]["number"] == 7 and entry["before"]["names"][-1] == "…"
    assert entry["before"]["text"].endswith("\N{SNOWMAN}…")
    assert len(str(entry["before"])) < 9_000 and len(str(entry["after"])) < 9_000
    assert len(entry["reason"]) == 512 and entry["reason"].endswith("…")
