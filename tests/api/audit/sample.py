"""A workspace and a group in which every audited operation can be performed, and calls that read the log."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from resolvers.users.callers import Caller, CallerRole, act_as
from tests.api.channels.session_calls import ADD as ADD_TO_CHANNEL
from tests.api.client import Api, Json, make_caller
from tests.api.moderation.calls import BAN
from tests.api.reports.calls import make_report
from tests.api.threads.calls import thread_of
from tests.api.voice.calls import Device
from tests.security.sample import CREATE_CHANNEL, AuthorisationSample
from tests.security.sample import create_sample as create_authorisation_sample
from tests.webhooks.calls import create_webhook
from tests.webhooks.incoming.hooks import CREATE_HOOK

ENTRY = "id actor { id } onBehalfOf { id } action targetId before after reason createdAt"
AUDIT_LOG = f"""query (
    $workspace: ID, $actor: ID, $target: ID, $actions: [String!], $first: Int = 100, $after: String
) {{ auditLog(
    workspaceId: $workspace, actorId: $actor, targetId: $target, actions: $actions, first: $first, after: $after
) {{ edges {{ cursor node {{ {ENTRY} }} }} pageInfo {{ hasNextPage hasPreviousPage endCursor }} }} }}"""

ADMIN = make_caller("root", CallerRole.ADMIN)


@dataclass(frozen=True)
class AuditSample(AuthorisationSample):
    """The owner of the workspace may do everything there, and owns the group. `member` is in both, without a right."""

    posted: str
    """A message of `member` in the channel, with a reaction of theirs."""
    channel_thread: str
    """The thread under it."""
    lounge: str
    """A voice channel that `member` is in."""
    hook: str
    """An incoming webhook of the channel."""
    report: str
    """A report of the owner about `posted`. `removed` is banned from the workspace."""
    outgoing: str
    """An outgoing webhook of the workspace."""

    def fill(self, text: str) -> str:
        """Replace names like @owner and @group in a text by ids."""
        return re.sub(r"@(\w+)", lambda found: str(getattr(self, found[1])), text)


async def create_audit_sample(api: Api) -> AuditSample:
    sample = await create_authorisation_sample(api)
    owner, member = sample.owner, sample.member
    await api.data(owner, ADD_TO_CHANNEL, id=sample.secret, users=[member])
    posted = (await api.send(member, sample.channel, "posted"))["message"]
    for message in (posted["id"], sample.message):
        await api.data(
            member,
            'mutation ($id: ID!) { addReaction(messageId: $id, emoji: "\N{THUMBS UP SIGN}") { id } }',
            id=message,
        )
    await api.send(owner, posted["id"], "reply")
    lounge = (
        await api.data(owner, CREATE_CHANNEL, input={"workspaceId": sample.workspace, "name": "v", "kind": "VOICE"})
    )["createChannel"]["id"]
    await Device(api, member).join(lounge)
    hook = (await api.data(owner, CREATE_HOOK, channel=sample.channel, name="ci"))["createIncomingWebhook"]["id"]
    # Before there is a webhook that would be sent its event.
    report = (await make_report(api, owner, message=posted["id"]))["id"]
    outgoing = await create_webhook(api, owner, "https://8.8.8.8/", "REPORT_OPENED", workspace=sample.workspace)
    await api.data(owner, BAN, id=sample.workspace, user=sample.removed)
    await api.wait_until_idle()
    ids = {"posted": posted["id"], "channel_thread": thread_of(posted), "lounge": lounge, "hook": hook}
    ids["report"] = report
    return AuditSample(**asdict(sample), **ids, outgoing=outgoing["id"])


def bridge_for(user: str) -> Caller:
    """Return a service that acts for a user."""
    return act_as(make_caller("bridge", CallerRole.SERVICE), user, "actAs")


def stored_entries(api: Api) -> dict[str, Json]:
    """Return all rows of the log by `_id`, oldest first within each log."""
    return {row["_id"]: row for row in api.database["audit"].find().sort("_id")}


async def list_entries(api: Api, caller: str | Caller, **arguments: Any) -> list[Json]:
    """Return a page of the log as a caller reads it."""
    found = (await api.data(caller, AUDIT_LOG, **arguments))["auditLog"]
    return [edge["node"] for edge in found["edges"]]


async def read_all(api: Api, caller: str | Caller, page: int, **arguments: Any) -> list[Json]:
    """Return all entries that a caller finds, read in pages."""
    entries: list[Json] = []
    after = None
    while True:
        found = (await api.data(caller, AUDIT_LOG, first=page, after=after, **arguments))["auditLog"]
        entries += [edge["node"] for edge in found["edges"]]
        after = found["pageInfo"]["endCursor"]
        if not found["pageInfo"]["hasNextPage"]:
            return entries


async def use_audit_log(api: Api) -> None:
    """Read the log in every way, and act for a user."""
    for wanted in ({}, {"actor": "a"}, {"target": "a"}, {"actions": ["banUser"]}, {"actor": "a", "target": "a"}):
        await list_entries(api, ADMIN, **wanted)
    (entry,) = await list_entries(api, ADMIN, first=1)
    await api.data(ADMIN, "query ($id: ID!) { node(id: $id) { id } }", id=entry["id"])
    await api.data(bridge_for("alice"), "mutation { setCustomStatus { setting } }")
