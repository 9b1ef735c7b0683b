"""Bans from the whole deployment: the user's tokens are refused while the ban lasts (ADR 96)."""

from __future__ import annotations

import asyncio

from resolvers.base.app import Confab
from resolvers.moderation.ban_input import BanInput, ban_note, recall_jobs, same_terms, terms_of
from resolvers.moderation.targets import check_is_other
from resolvers.users.callers import Caller, check_is_admin
from resolvers.users.users import access_users
from store.audit.audit_note import AuditNote
from store.base.ids import UserId
from store.moderation.ban import Ban
from store.voice.voice_store import VoiceConditions

TOKEN_MARGIN_MS = 5_000
"""Tokens issued up to this much later are revoked too: the issuer's clock may be ahead."""


async def ban_from_deployment(app: Confab, caller: Caller, user: str, given: BanInput) -> Ban:
    """Ban a user from the whole deployment. Role admin only; not oneself, nor the user that one acts for.

    Roles are in tokens, so whether the user is an admin too is not known: admins may be banned.

    When this returns, all servers refuse the user's tokens, later ones too, and have ended their connections and their
    voice state. Tokens issued before the ban stay refused after it. Banning a banned user again replaces the end and
    the reason.

    Raises Forbidden, InvalidInput and NotFound: then nothing was changed. Raises Unreachable: the ban may be stored,
    and some servers apply it up to 30 s later.
    """
    check_is_admin(caller)
    now_ms = app.store.clock.now_ms()
    given = given.accepted(now_ms)
    (target,) = await access_users(app, [user], "userId")
    for own in (caller.user_id, caller.token_user):
        check_is_other(own, target)
    store = app.store
    before = await store.bans.find(None, target, now_ms)
    ban = given.ban_of(None, target, caller.user_id, before.created_at_ms if before is not None else now_ms)
    if before is not None and same_terms(before, ban) and not given.delete_seconds:
        # An earlier call may have stored it without an answer.
        await _apply(app, target)
        return before
    entry = store.audit.entry_writes(ban_note(ban, before, given))
    jobs = recall_jobs(app, ban, given.delete_seconds, now_ms)
    writes = [*store.bans.writes(ban), entry, store.jobs.creation_writes(jobs)]
    revoked_at_ms = now_ms + TOKEN_MARGIN_MS
    await store.bans.change_deployment(writes, revoked=(target, revoked_at_ms))
    await _apply(app, target, revoked_at_ms)
    if given.delete_seconds:
        store.jobs.on_created()
    return ban


async def _apply(app: Confab, target: UserId, revoked_at_ms: int | None = None) -> None:
    """Let all servers apply a stored ban, and end the user's voice state. Raises StoreError."""
    await app.bans.announce(target, revoked_at_ms)
    # The state of a device that is not connected is kept for a while, and so long the media server has the user.
    joined = await app.store.user_workspaces.list_joined(target)
    await asyncio.gather(*(app.voice.end(each.workspace, target, VoiceConditions()) for each in joined))


async def unban_from_deployment(app: Confab, caller: Caller, user: str) -> bool:
    """Lift a ban from the deployment. Role admin only. New tokens are accepted; those from before the ban are not.

    Return False if there is no ban in force. Raises Forbidden.
    """
    check_is_admin(caller)
    target, store = UserId(user), app.store
    before = await store.bans.find(None, target, store.clock.now_ms())
    if before is None:
        return False
    note = AuditNote(caller.user_id, "unbanUser", None, target, before=terms_of(before))
    await store.bans.change_deployment([*store.bans.removal_writes(None, target), store.audit.entry_writes(note)])
    await app.bans.announce(target)
    return True
