"""View of one user: what is stored, and what Redis has."""

from __future__ import annotations

from collections import Counter

from store.admin.cached_reads import read_devices, read_routes, read_session
from store.admin.source import NOT_KNOWN, AdminSource, NoSuchObject, View, seconds_of, time_text, without_empty
from store.base.ids import ConversationId, UserId, is_sender_id, kind_of
from store.base.workspace_ids import WorkspaceId
from store.blocks.block_rows import MAX_BLOCKS, BlockRows
from store.devices.device import Device
from store.jobs.job import Job, JobKind
from store.moderation.ban import Ban
from store.mongo.collections import WORKSPACE_MEMBERS, workspace_row_id
from store.presence.presence_rows import PresenceRows
from store.sessions.session import Session
from store.users.erased_users import is_pseudonym
from store.workspaces.documents import facts_from

_MOST_JOBS = 20
_NO_CONVERSATION = ConversationId("g_0")


async def view_user(source: AdminSource, id: str) -> View:
    """Return the view of a user. Reads all sessions of the user. Raises NoSuchObject and StoreError."""
    if is_pseudonym(id):
        raise NoSuchObject(f"{id} stands for an erased user. Nothing else about the user is stored.")
    if not is_sender_id(id):
        raise NoSuchObject(f"{id!r} has not the form of a user id.")
    store, user = source.store, UserId(id)
    profile = await store.users.find(user)
    erasure = await store.jobs.find_newest(store.erased_users.name_of(user), JobKind.ERASURE)
    sessions = await _view_sessions(source, user)
    if profile is None and erasure is None and not sessions["count"]:
        raise NoSuchObject(f"There is no user {id}.")
    blocks = BlockRows(store.mongo)
    revoked_ms = await store.revocations.find(user)
    return {
        "user": id,
        "profile": None
        if profile is None
        else {"name": profile.name, "avatar_url": profile.avatar_url, "is_bot": profile.is_bot},
        "tokens_refused_if_issued_before": time_text(revoked_ms),
        "devices": list(map(_view_device, await store.devices.list(user))),
        "presence": await _view_presence(source, user),
        "connections": await _view_connections(source, user),
        "sessions": sessions,
        "blocks": {
            "blocked_by_the_user": len(await blocks.list_blocks(user)),
            "blockers_of_the_user": len(await blocks.list_blockers(user, MAX_BLOCKS)),
        },
        "workspaces": await _view_workspaces(source, user),
        "bans": await _list_bans(source, user),
        "erasure": _view_job(erasure) if erasure is not None else None,
        "jobs": list(map(_view_job, await store.jobs.list_newest(user, _MOST_JOBS))),
        "redis": source.redis_view(),
    }


def _view_device(device: Device) -> View:
    return without_empty(
        device=device.id,
        type=device.type.value,
        name=device.name,
        created_at=time_text(device.created_ms),
        seen_at=time_text(device.seen_ms),
        locale=device.locale,
        push=device.push.platform.value if device.push is not None else None,
    )


async def _view_presence(source: AdminSource, user: UserId) -> View:
    row = (await PresenceRows(source.store.mongo).find([user]))[user]
    setting = row.setting.at(source.store.clock.now_ms())
    return {"setting": setting.value.value, "last_seen_at": time_text(row.seen_ms)}


async def _view_connections(source: AdminSource, user: UserId) -> View | str:
    if not source.has_redis:
        return NOT_KNOWN
    now_ms = source.store.clock.now_ms()
    return {
        "devices": [
            without_empty(
                server=device.server,
                device=device.device,
                type=device.type.value,
                since=time_text(device.since_ms),
                idle_since=time_text(device.idle_since_ms),
                ended_at=time_text(device.gone_at_ms),
            )
            for device in await read_devices(source.store, user)
        ],
        "servers_that_get_events": [
            {"server": server, "until": time_text(until_ms), "is_valid": until_ms >= now_ms}
            for server, until_ms in sorted((await read_routes(source.store, user)).items())
        ],
    }


async def _view_sessions(source: AdminSource, user: UserId) -> View:
    store = source.store
    rows = source.session_rows
    records = await rows.read_without_ticks(user)
    channels = await rows.read_channels_without_ticks(user)
    sessions = [Session(user, name, record) for name, record in (records | channels).items()]
    totals = await rows.read_totals(user)
    view: View = {
        "count": sum(session.exists for session in sessions),
        "by_kind": dict(sorted(Counter(_kind_name(each.conversation) for each in sessions if each.exists).items())),
        "valid": sum(session.valid for session in sessions),
        "muted": sum(session.muted for session in sessions),
        "total_unread": totals.messages,
        "unread_mentions": totals.mentions,
        "unread_mentions_in_channels": sum(totals.in_channels.values()),
        "unread_threads": totals.threads,
    }
    if source.has_redis:
        cached = await read_session(store, user, _NO_CONVERSATION)
        view["cached"] = {"is_loaded": cached.is_loaded} | (
            {
                "total_unread_without_waiting_messages": cached.total_unread,
                "conversations_with_waiting_messages": cached.waiting_conversations,
                "next_mute_ends_at": time_text(cached.mute_due_ms),
                "is_locked": cached.is_held,
            }
            if cached.is_loaded
            else {}
        )
    return view


def _kind_name(conversation: ConversationId) -> str:
    kind = kind_of(conversation)
    return kind.value if kind is not None else "UNKNOWN"


async def _view_workspaces(source: AdminSource, user: UserId) -> list[View]:
    store, now_ms = source.store, source.store.clock.now_ms()
    joined = await store.user_workspaces.list_joined(user)
    ids = [workspace_row_id(each.workspace, user) for each in joined]
    rows = {row["_id"]: row for row in await store.mongo.find(WORKSPACE_MEMBERS, {"_id": {"$in": ids}})}
    found = []
    for id, each in zip(ids, joined, strict=True):
        facts = facts_from(rows[id], 0) if id in rows else None
        timed_out_ms = facts.timed_out_until_ms if facts is not None else 0
        found.append(
            without_empty(
                workspace=each.workspace,
                joined_at=time_text(each.joined_at_ms),
                roles=sorted(facts.roles) if facts is not None else None,
                timed_out_until=time_text(timed_out_ms) if timed_out_ms > now_ms else None,
            )
        )
    return found


async def _list_bans(source: AdminSource, user: UserId) -> list[View]:
    """Return the bans from the deployment, and from workspaces in whose channels the user has sessions."""
    workspaces: list[WorkspaceId | None] = [None, *await source.store.user_conversations.list_workspaces(user)]
    now_ms = source.store.clock.now_ms()
    bans = [await source.store.bans.find(workspace, user, now_ms) for workspace in workspaces]
    return [_view_ban(ban) for ban in bans if ban is not None]


def _view_ban(ban: Ban) -> View:
    return without_empty(
        workspace=ban.workspace or "the deployment",
        by=ban.by,
        since=time_text(ban.created_at_ms),
        until=time_text(ban.until_ms),
        reason=ban.reason,
    )


def _view_job(job: Job) -> View:
    steps = {name: job.progress[name] for name in ("pass", "step", "found") if name in job.progress}
    ended_ms = job.finished_at_ms
    return without_empty(
        job=job.id,
        kind=job.kind.name,
        state=job.state.name,
        created_at=time_text(job.created_at_ms),
        finished_at=time_text(ended_ms),
        took_seconds=seconds_of(ended_ms - job.created_at_ms) if ended_ms is not None else None,
        attempts=job.attempts or None,
        progress=steps,
    )
