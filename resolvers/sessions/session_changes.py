"""Settings of sessions: deleting, muting, pinning, marking unread, categories.

Each change takes one tick of the user's clock. If nothing changes, no tick is taken and no device is notified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from resolvers.base.app import Confab
from resolvers.base.checks import check_category
from resolvers.base.errors import InvalidInput
from resolvers.base.times import LATEST_MS
from resolvers.sessions.channel_sessions import find_named, in_channel, refuse_channels, refuse_unfollowed
from resolvers.sessions.user_transactions import (
    Decision,
    commit,
    find_sessions_after_change,
    known_conversation,
    load_session,
)
from store.base.ids import UserId
from store.sessions.changes import RowChange, SetFields, deletion
from store.sessions.fields import Field, SyncReason
from store.sessions.session import Session
from store.sessions.user_transactions import UserTransaction

HIGHEST_PRIORITY = 1_000
MAX_CONVERSATIONS = 1_000


async def delete_session(app: Confab, user: UserId, conversation: str, *, hard: bool) -> Session:
    """Delete a session for the user alone: INVALID until its next countable message, nothing unread.

    Senders get no receipt. hard: the settings are deleted too. Raises InvalidInput for a gateway; NotFound.
    """

    def decide(session: Session) -> SetFields | None:
        change = deletion(session, hard=hard)
        return change if change.is_needed(session) else None

    return await _change_session(app, user, conversation, SyncReason.DELETE, decide, gateways=False)


async def mute_session(app: Confab, user: UserId, conversation: str, *, muted: bool, until_ms: int | None) -> Session:
    """Mute or unmute a session. The unread messages of a muted one are not in the total. `until_ms`: end of the mute.

    Raises InvalidInput, NotFound.
    """
    if until_ms is not None and (not muted or not app.store.clock.now_ms() < until_ms <= LATEST_MS):
        raise InvalidInput("until must be later than now, and goes with muted: true only", field="until")
    reason = SyncReason.MUTE if muted else SyncReason.UNMUTE
    values: dict[Field[Any], Any] = {Session.muted: muted, Session.muted_until_ms: until_ms}
    return await set_fields(app, user, conversation, reason, values, channels=True)


async def pin_session(app: Confab, user: UserId, conversation: str, priority: int | None) -> Session:
    """Pin a session; higher priorities are nearer the top. 0 unpins, which does not move the session's writeTs.

    Raises InvalidInput, NotFound.
    """
    if priority is None or not 0 <= priority <= HIGHEST_PRIORITY:
        raise InvalidInput(f"priority must be from 0 to {HIGHEST_PRIORITY}", field="priority")

    def decide(session: Session) -> SetFields | None:
        moves = priority > 0 and session.priority != priority
        change = SetFields([session.conversation], {Session.priority: priority}, moves_write_ts=moves)
        return change if change.is_needed(session) else None

    return await _change_session(app, user, conversation, SyncReason.PIN if priority else SyncReason.UNPIN, decide)


async def set_unread(app: Confab, user: UserId, conversation: str) -> Session:
    """Mark a session unread, until it is next changed or read. A deleted session does not change.

    Raises InvalidInput for a gateway; NotFound.
    """

    def decide(session: Session) -> SetFields | None:
        if session.unread_status or not session.has_counts:
            return None
        return SetFields([session.conversation], {Session.unread_mark: session.write_seq}, moves_write_ts=True)

    return await _change_session(app, user, conversation, SyncReason.UNREAD, decide, gateways=False, channels=True)


async def assign_category(
    app: Confab, user: UserId, conversations: Sequence[str], category: str | None
) -> list[Session]:
    """Assign sessions to a category of the user, or to none. If one of them is unknown, none is changed.

    Raises InvalidInput, NotFound.
    """
    if len(conversations) > MAX_CONVERSATIONS:
        raise InvalidInput(f"at most {MAX_CONVERSATIONS} sessions at a time", field="conversationIds")
    check_category(category)
    wanted = [known_conversation(name, "conversationIds") for name in dict.fromkeys(conversations)]
    if not wanted:
        return []
    refuse_channels(wanted, "conversationIds")

    async def work(transaction: UserTransaction) -> list[Session]:
        named = await find_named(app, transaction, wanted, "conversationIds")
        sessions = [named.sessions[name] for name in wanted]
        refuse_unfollowed(sessions, "conversationIds")
        if any(session.is_gateway for session in sessions):
            raise InvalidInput("a subBiz can't be put into a category", field="conversationIds")
        values = {Session.category: category}
        due = [s.conversation for s in sessions if SetFields([s.conversation], values).is_needed(s)]
        if not due:
            return sessions
        changed = await commit(app, transaction, [Decision(SetFields(due, values), SyncReason.CATEGORY)])
        after = await find_sessions_after_change(app, user, transaction.sessions, due, changed)
        return [after[name] for name in wanted]

    return await app.store.user_transactions.run(user, wanted, work)


async def set_fields(
    app: Confab,
    user: UserId,
    conversation: str,
    reason: SyncReason,
    values: Mapping[Field[Any], Any],
    *,
    gateways: bool = True,
    channels: bool = False,
    argument: str = "conversationId",
) -> Session:
    """Set fields of a session. gateways, channels: true if it may be one of these. Raises InvalidInput, NotFound.

    A thread that the user does not follow is like a channel.
    argument: the argument of the API that names the session.
    """

    def decide(session: Session) -> SetFields | None:
        change = SetFields([session.conversation], values)
        return change if values and change.is_needed(session) else None

    return await _change_session(
        app, user, conversation, reason, decide, gateways=gateways, channels=channels, argument=argument
    )


async def _change_session(
    app: Confab,
    user: UserId,
    conversation: str,
    reason: SyncReason,
    decide: Callable[[Session], SetFields | None],
    *,
    gateways: bool = True,
    channels: bool = False,
    argument: str = "conversationId",
) -> Session:
    """Change one session under the user's lock. `decide` returns the change; None: no change."""
    wanted = known_conversation(conversation, argument)
    if not channels:
        refuse_channels([wanted], argument)

    async def work(transaction: UserTransaction) -> Session:
        named = await find_named(app, transaction, [wanted], argument)
        session = named.sessions[wanted]
        if not channels:
            refuse_unfollowed([session], argument)
        if session.is_gateway and not gateways:
            raise InvalidInput("this does not apply to a subBiz", field=argument)
        change = decide(session)
        if change is None:
            return session
        decided: RowChange = change
        if session.comes_from_head:
            decided = in_channel(change, session, is_new=wanted in named.new)
        changed = await commit(app, transaction, [Decision(decided, reason)], heads=named.heads)
        return changed.get(wanted) or await load_session(app, user, wanted)

    return await app.store.user_transactions.run(user, [wanted], work)
