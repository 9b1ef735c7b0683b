"""Reading reports: those who may see them, and the order of pages."""

from __future__ import annotations

import pytest

from resolvers.users.callers import CallerRole
from store.workspaces.permissions import Permission
from tests.api.client import Api, Json, Refusal, make_caller
from tests.api.reports.calls import (
    LIST,
    create_workspace_with,
    find_node,
    list_reports,
    make_report,
    resolve,
    root,
    said_by,
)
from tests.api.sample_channels import SampleChannels, create_sample_channels

NO_WORKSPACE, FORBIDDEN = Refusal("NOT_FOUND", "workspaceId"), Refusal("FORBIDDEN")


@pytest.fixture
async def workspace(api: Api) -> SampleChannels:
    return await create_workspace_with(api, Permission.VIEW_REPORTS)


async def report_some(api: Api, workspace: SampleChannels, count: int, reporter: str | None = None) -> list[Json]:
    """Make reports about different messages, and return them, the newest first."""
    reporter = reporter or workspace.member
    made = []
    for number in range(count):
        message = await said_by(api, workspace.other, workspace.general, f"insult {number}")
        made.append(await make_report(api, reporter, message=message))
    return made[::-1]


async def ids(api: Api, workspace: SampleChannels, **fields: object) -> list[str]:
    return [each["id"] for each in await list_reports(api, workspace.moderator, workspace.id, **fields)]


async def test_members_with_the_right_read_the_reports_of_a_workspace(api: Api, workspace: SampleChannels) -> None:
    made = await report_some(api, workspace, 1)
    for user in (workspace.owner, workspace.admin, workspace.moderator):
        assert await list_reports(api, user, workspace.id) == made
    for user, refusal in ((workspace.member, FORBIDDEN), (workspace.outsider, NO_WORKSPACE)):
        assert await api.expect_refusal(user, LIST, workspace=workspace.id) == refusal
    # The role of the token gives no rights in workspaces.
    outside = make_caller(workspace.outsider, CallerRole.ADMIN)
    assert await api.expect_refusal(outside, LIST, workspace=workspace.id) == NO_WORKSPACE
    for unknown in ("w_1", "nonsense", ""):
        assert await api.expect_refusal(workspace.owner, LIST, workspace=unknown) == NO_WORKSPACE
    assert await api.expect_refusal(None, LIST, workspace=workspace.id) == Refusal("UNAUTHENTICATED")


async def test_only_admins_read_the_reports_of_the_deployment(api: Api, workspace: SampleChannels) -> None:
    for caller in (make_caller(workspace.owner), make_caller("bot", CallerRole.SERVICE)):
        assert await api.expect_refusal(caller, LIST) == FORBIDDEN
    made = await make_report(api, workspace.member, user=workspace.other)
    assert made in await list_reports(api, root())
    assert made["id"] not in await ids(api, workspace)


async def test_a_report_is_a_node_for_its_queue_and_its_reporter(api: Api, workspace: SampleChannels) -> None:
    of_workspace = (await report_some(api, workspace, 1))[0]
    of_deployment = await make_report(api, workspace.member, user=workspace.other)
    callers = {**workspace.users, "root": root()}
    seen = {
        of_workspace["id"]: {"owner", "admin", "moderator", "member"},
        of_deployment["id"]: {"root", "member"},
    }
    for id, names in seen.items():
        found = {name for name, caller in callers.items() if await find_node(api, caller, id) is not None}
        assert found == names
    for unknown in ("x_", "x_1", f"x_{'0' * 32}", f"x_{'A' * 32}"):
        assert await find_node(api, workspace.owner, unknown) is None


async def test_the_reporter_keeps_the_report_after_leaving(api: Api, workspace: SampleChannels) -> None:
    made = (await report_some(api, workspace, 1))[0]
    await workspace.remove(workspace.member)
    found = await find_node(api, workspace.member, made["id"])
    assert found is not None and (found["text"], found["message"]) == ("insult 0", None)


async def test_a_moderator_who_lost_the_right_sees_no_reports(api: Api, workspace: SampleChannels) -> None:
    made = (await report_some(api, workspace, 1))[0]
    await workspace.give(workspace.moderator_role, Permission.MANAGE_MESSAGES)
    assert await api.expect_refusal(workspace.moderator, LIST, workspace=workspace.id) == FORBIDDEN
    assert await find_node(api, workspace.moderator, made["id"]) is None


async def test_a_moderator_outside_a_private_channel_reads_the_reported_text_only(api: Api) -> None:
    workspace = await create_sample_channels(api)
    message = await said_by(api, workspace.member, workspace.staff, "secret insult")
    made = await make_report(api, workspace.moderator, message=message)
    (found,) = await list_reports(api, workspace.owner, workspace.id)
    assert found == made | {"message": None}
    assert (found["text"], found["user"]) == ("secret insult", {"id": workspace.member})


async def test_open_reports_come_first_and_the_newest_of_each_state(api: Api, workspace: SampleChannels) -> None:
    made = [each["id"] for each in await report_some(api, workspace, 6)]
    for id in (made[1], made[4], made[3]):
        await resolve(api, workspace.moderator, id)
    still_open, resolved = [made[0], made[2], made[5]], [made[1], made[3], made[4]]
    assert await ids(api, workspace) == [*still_open, *resolved]
    assert await ids(api, workspace, state="OPEN") == still_open
    assert await ids(api, workspace, state="RESOLVED") == resolved


@pytest.mark.parametrize("size", [1, 2, 3, 5])
async def test_pages_have_all_reports_once_while_others_are_made_and_resolved(
    api: Api, workspace: SampleChannels, size: int
) -> None:
    made = [each["id"] for each in await report_some(api, workspace, 5)]
    await resolve(api, workspace.moderator, made[2])
    expected = [made[0], made[1], made[3], made[4], made[2]]
    found: list[str] = []
    after = None
    while True:
        page = (await api.data(workspace.moderator, LIST, workspace=workspace.id, first=size, after=after))["reports"]
        assert page["pageInfo"]["hasPreviousPage"] is (after is not None)
        found += [edge["node"]["id"] for edge in page["edges"]]
        after = page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break
        # It comes before what was read.
        await report_some(api, workspace, 1, workspace.moderator)
    assert found == expected


async def test_no_report_is_skipped_that_is_resolved_between_two_pages(api: Api, workspace: SampleChannels) -> None:
    made = [each["id"] for each in await report_some(api, workspace, 4)]
    page = (await api.data(workspace.moderator, LIST, workspace=workspace.id, first=2))["reports"]
    await resolve(api, workspace.moderator, made[3])
    rest = await ids(api, workspace, after=page["pageInfo"]["endCursor"])
    assert rest == [made[2], made[3]]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"first": 0}, "first"),
        ({"first": 101}, "first"),
        ({"after": "nonsense"}, "after"),
        ({"after": "cnAKTwoxCjI"}, "after"),
        ({"after": "cnAKWgox"}, "after"),
        ({"after": "cnAKTwo5OTk5OTk5OTk5OTk5OTk5OTk5"}, "after"),
    ],
)
async def test_bad_pages_are_refused(api: Api, workspace: SampleChannels, fields: Json, field: str) -> None:
    assert await api.expect_refusal(workspace.moderator, LIST, workspace=workspace.id, **fields) == Refusal(
        "INVALID_INPUT", field
    )


async def test_a_page_takes_a_fixed_number_of_round_trips(api: Api, workspace: SampleChannels) -> None:
    store = api.services.app.store
    trips = []
    for _ in range(2):
        await report_some(api, workspace, 4)
        await list_reports(api, workspace.moderator, workspace.id)
        before = store.mongo.trips
        await list_reports(api, workspace.moderator, workspace.id)
        trips.append(store.mongo.trips - before)
    assert trips[0] == trips[1] <= 4
    assert len(await ids(api, workspace)) == 8


async def test_reports_of_a_deleted_workspace_are_removed_with_it(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.workspaces.workspace_removal.ROWS_PER_STEP", 2)
    await report_some(api, workspace, 3)
    kept = await make_report(api, workspace.member, user=workspace.other)
    store = api.services.app.store
    while await store.workspace_removal.step(workspace.id):
        pass
    assert api.database["reports"].count_documents({"w": workspace.id}) == 0
    assert api.database["reports"].count_documents({"_id": kept["id"]}) == 1
