"""Traces of a user in everything about safety: blocks, bans, reports, rules, the audit log, jobs, expired messages."""

from __future__ import annotations

from resolvers.users.callers import CallerRole, act_as
from tests.api.blocks.calls import block
from tests.api.client import Api, make_caller, wait_until
from tests.api.content_rules.calls import SET, rule
from tests.api.export.calls import wait_for_export
from tests.api.moderation.calls import ban
from tests.api.reports.calls import make_report, resolve
from tests.api.workspaces.calls import add_members, create_workspace
from tests.api.workspaces.role_calls import add_channel
from tests.erasure.sample import ErasedSample

COLLECTIONS = ("blocks", "bans", "reports", "content_rules", "audit", "expired", "jobs")


async def add_moderation(api: Api, sample: ErasedSample, text: str) -> None:
    """Make the user block, ban, report, moderate and export, and let others do the same to the user.

    text: of messages that the user writes, of which one is reported, and one is recalled and reported.
    """
    user, bob, carol = sample.user, sample.bob, sample.carol
    as_admin = make_caller(user, CallerRole.ADMIN)
    (outsider,) = await api.create_users("outsider")
    written = [(await api.send(user, sample.group, f"{text} {number}"))["message"]["id"] for number in range(3)]
    await api.send(user, sample.private, f"{text} in private")
    for message in written[:2]:
        await make_report(api, bob, message=message, note="insulting")
    await api.recall(user, written[1])
    await make_report(api, carol, attachment=sample.file)
    await make_report(api, carol, user=user)
    await make_report(api, user, message=sample.message, note="of bob")
    about_carol = await make_report(api, bob, user=carol)
    await resolve(api, as_admin, about_carol["id"], note="about carol")
    await api.data(user, SET, id=sample.own_workspace, rules=[rule("FLAG")])
    channel = await add_channel(api, sample.own_workspace)
    await api.send(carol, channel, "spam")
    await ban(api, user, sample.own_workspace, outsider, reason="x")
    other = await create_workspace(api, bob)
    await add_members(api, other, user)
    await ban(api, bob, other, user, delete=60)
    await ban(api, as_admin, None, outsider, delete=60)
    for service, of in (("bridge", user), (user, bob)):
        caller = act_as(make_caller(service, CallerRole.SERVICE), of, "actAs")
        await api.data(caller, "mutation { setCustomStatus { setting } }")
    await wait_for_export(api, user)

    async def has_export_ended() -> bool:
        return api.database["jobs"].find_one({"k": "E", "ft": None}) is None

    await wait_until(has_export_ended)
    await block(api, user, carol)
    await block(api, carol, user)
    api.database["blocks"].update_one({"_id": bob}, {"$set": {"p": [user], "pa": 1 << 52}}, upsert=True)
    api.database["expired"].insert_one({"_id": sample.private, "at": 1 << 52, "v": 1})
    await api.wait_until_idle()
