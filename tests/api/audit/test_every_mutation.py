"""Every moderating, permission and workspace operation has its entry, and every operation of a service for a user."""

from __future__ import annotations

import pytest

from resolvers.users.callers import Caller, CallerRole, act_as
from schema.root import SCHEMA
from store.channels import channel_removal
from store.workspaces import workspace_removal
from tests.api.audit.operations import AUDITED, AUDITED_ELSEWHERE, DEPLOYMENT, NOT_AUDITED, WORKSPACE, Audited
from tests.api.audit.sample import AuditSample, create_audit_sample, stored_entries
from tests.api.client import Api, Json, make_caller
from tests.api.voice.calls import STATES
from tests.clock import DAY_MS

IDS = [f"{number}-{operation.mutation}" for number, operation in enumerate(AUDITED)]
# A lock of a thread waits in the outbox, and is stored later with its entry (test_takeover.py).
OF_WORKSPACES = [each for each in AUDITED if each.log == WORKSPACE and each.mutation != "lockThread"]
of_each = pytest.mark.parametrize("operation", AUDITED, ids=IDS)


@pytest.fixture(autouse=True)
def _rows_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the rows of workspaces and channels that other tests deleted: their removal begins a minute later."""
    monkeypatch.setattr(workspace_removal, "GRACE_MS", DAY_MS)
    monkeypatch.setattr(channel_removal, "DELAY_MS", DAY_MS)


def test_every_mutation_is_in_one_table() -> None:
    mutations = SCHEMA._schema.mutation_type
    assert mutations is not None
    audited = {operation.mutation for operation in AUDITED}
    tables = [audited, AUDITED_ELSEWHERE.keys(), NOT_AUDITED.keys()]
    assert set.union(*map(set, tables)) == mutations.fields.keys()
    assert sum(map(len, tables)) == len(mutations.fields)


def caller_of(sample: AuditSample, operation: Audited, user: str, *, acting: bool = False) -> Caller:
    """Return the caller with the operation's role; with `acting`, a service that acts for the user."""
    named = sample.fill(user)
    return (
        act_as(make_caller("bridge", CallerRole.SERVICE), named, "actAs")
        if acting
        else make_caller(named, CallerRole(operation.role))
    )


async def perform(api: Api, sample: AuditSample, operation: Audited, caller: Caller) -> tuple[Json, list[Json]]:
    """Perform an operation. Return the response, and the entries that it has added."""
    before = stored_entries(api).keys()
    response = await api.run(caller, f"mutation {{ {sample.fill(operation.call)} }}")
    after = stored_entries(api)
    return response, [row for id, row in after.items() if id not in before]


def expect_no_secret(api: Api, sample: AuditSample, rows: list[Json]) -> None:
    """Fail if entries contain a code with which users join, a secret of a webhook, or the text of a message."""
    secrets = [row["s"] for row in api.database["webhooks"].find()]
    secrets += [row["_id"].partition(" ")[2] for row in api.database["invites"].find()]
    for secret in (*secrets, sample.code, "posted", "for everybody"):
        assert secret not in str(rows)


def expect_entry(sample: AuditSample, operation: Audited, response: Json, row: Json) -> None:
    (value,) = response["data"].values()
    new = value.get("id", "") if isinstance(value, dict) else ""
    log = {WORKSPACE: new if operation.mutation == "createWorkspace" else sample.workspace, DEPLOYMENT: "-"}
    assert row["_id"].partition(" ")[0] == log[operation.log]
    assert row["a"] == operation.mutation
    assert row["u"] == sample.fill(operation.by)
    assert row.get("b", {}).keys() == operation.before
    assert row.get("f", {}).keys() == operation.after
    for name in operation.before & operation.after - {"groupId"}:
        assert row["b"][name] != row["f"][name]
    if operation.target == "…":
        assert row["t"].endswith("…") and row["t"].rstrip("…") in sample.code + str(value)
        assert len(row["t"]) < len(sample.code) - 8
    else:
        assert row["t"] == (new if operation.target == "@new" else sample.fill(operation.target))


@of_each
async def test_an_operation_leaves_its_entry_and_a_refused_one_none(api: Api, operation: Audited) -> None:
    sample = await create_audit_sample(api)
    if operation.refused_to:
        response, entries = await perform(api, sample, operation, make_caller(sample.fill(operation.refused_to)))
        assert "errors" in response and entries == []
    caller = caller_of(sample, operation, operation.by)
    response, entries = await perform(api, sample, operation, caller)
    assert "errors" not in response, response
    if operation.mutation == "deleteWorkspace":
        # The log of the workspace is removed with it.
        copy = entries.pop(0)
        assert copy.pop("_id").startswith("- ") and copy.items() <= entries[0].items()
    (entry,) = entries
    assert "ab" not in entry
    expect_no_secret(api, sample, [entry])
    expect_entry(sample, operation, response, entry)
    if operation.repeats:
        response, entries = await perform(api, sample, operation, caller)
        assert "errors" not in response and entries == []


@of_each
async def test_an_operation_for_a_user_leaves_two_entries_with_both_names(api: Api, operation: Audited) -> None:
    sample = await create_audit_sample(api)
    caller = caller_of(sample, operation, operation.by, acting=True)
    response, entries = await perform(api, sample, operation, caller)
    assert "errors" not in response, response
    assert {entry["ab"] for entry in entries} == {"bridge"}
    acting = [entry for entry in entries if entry["_id"].startswith("- ") and entry["t"] == sample.fill(operation.by)]
    own = [entry for entry in entries if entry not in acting[:1]]
    assert acting[0]["u"] == sample.fill(operation.by) and acting[0]["a"] == operation.mutation
    assert not {"b", "f"} & acting[0].keys()
    assert len(own) == (2 if operation.mutation == "deleteWorkspace" else 1)
    expect_entry(sample, operation, response, own[-1])


CHANGED = "audit bans channels claims conversations invites members messages reactions sessions webhook_counts webhooks"
CHANGED_COLLECTIONS = {*CHANGED.split(), "content_rules", "workspace_members", "workspaces", "workspaces_of"}
"""Collections that audited operations change. Others are written behind requests."""


async def state_of(api: Api, sample: AuditSample) -> list[Json]:
    """Return everything that the operations may change: documents, and who is in voice."""
    documents = {name: rows for name, rows in (await api.stored_documents()).items() if name in CHANGED_COLLECTIONS}
    return [documents, await api.data(sample.member, STATES, id=sample.lounge)]


@pytest.mark.parametrize("operation", OF_WORKSPACES, ids=lambda each: each.mutation)
async def test_a_change_whose_entry_cannot_be_stored_is_not_made(api: Api, operation: Audited) -> None:
    sample = await create_audit_sample(api)
    before = await state_of(api, sample)
    api.database.command("collMod", "audit", validator={"impossible": True})
    try:
        response = await api.run(
            caller_of(sample, operation, operation.by), f"mutation {{ {sample.fill(operation.call)} }}"
        )
    finally:
        api.database.command("collMod", "audit", validator={})
    assert "errors" in response
    assert await state_of(api, sample) == before
