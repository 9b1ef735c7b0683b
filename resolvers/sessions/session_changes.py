"""Changes of sessions: deleting, muting, pinning, marking unread, filing; reading is in `reading`. Each is one step on the user's clock, ordered
by the user's lock; one that changes nothing takes no step and tells nobody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from resolvers.base.app import Confab
from resolvers.base.checks import check_category
from resolvers.base.errors import InvalidInput, NotFound
from store.base.errors import Fenced
from store.base.ids import ConversationId, UserId, kind_of
from store.sessions.session import Session
from store.sessions.session_store import ApplyResult, applied_each
from store.sessions.user_locks import UserLock
from subscriptions.realtime.events.sessions import SessionChanged, SyncReason
from subscriptions.realtime.outgoing_events import OutgoingEvents

HIGHEST_PRIORITY = 1_000
MOST_CONVERSATIONS = 1_000
LATEST_MS = 253_402_300_799_999
"""The last moment that a DateTime can spell in UTC: the end of the year 9999."""

T = TypeVar("T")

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a session. `fields`: by their short names (store/sessions/session_rows.py), None takes one away. re_sorts: it
    moves in the list on the screen."""

    reason: SyncReason
    fields: dict[str, Any] = field(default_factory=dict)
    re_sorts: bool = False

    @property
    def recorded(self) -> dict[str, Any]:
        """The fields as records keep them."""
        ends = self.fields.get("mu")
        return self.fields if ends is None else self.fields | {"mu": str(ends)}


async def delete_session(app: Confab, user: UserId, conversation: str, *, hard: bool) -> Session:
    """The user's own view ends: INVALID until the next message that isn't SYSTEM, nothing unread, no receipt to anybody. hard:
    priority, mute and category are forgotten too. Raises InvalidInput for a gateway, NotFound."""
    forgotten: dict[str, Any] = {"p": 0, "m": None, "mu": None, "ca": None} if hard else {}

    def decide(session: Session) -> Change | None:
        if session.valid:
            gone = {"x": session.write_seq, "xn": session.n}
            return Change(SyncReason.DELETE, gone | forgotten)
        return _if_different(session, Change(SyncReason.DELETE, forgotten))

    return await _change(app, user, conversation, decide, gateways=False)


async def mute_session(app: Confab, user: UserId, conversation: str, *, muted: bool, until_ms: int | None) -> Session:
    """Takes the session's unread count out of the total, or puts it back. A mute with an end ends by itself.
    Raises InvalidInput, NotFound."""
    if until_ms is not None and (not muted or not app.store.clock.now_ms() < until_ms <= LATEST_MS):
        raise InvalidInput("until must be later than now, and goes with muted: true only", field="until")
    reason = SyncReason.MUTE if muted else SyncReason.UNMUTE
    change = Change(reason, {"m": 1 if muted else None, "mu": until_ms})
    return await _change(app, user, conversation, lambda session: _if_different(session, change))


async def pin_session(app: Confab, user: UserId, conversation: str, priority: int | None) -> Session:
    """Above 0 pins, higher nearer the top; 0 unpins, which doesn't move the session's writeTs. Raises InvalidInput, NotFound."""
    if priority is None or not 0 <= priority <= HIGHEST_PRIORITY:
        raise InvalidInput(f"priority must be from 0 to {HIGHEST_PRIORITY}", field="priority")
    reason = SyncReason.PIN if priority else SyncReason.UNPIN

    def decide(session: Session) -> Change | None:
        moves = priority > 0 and session.priority != priority
        return _if_different(session, Change(reason, {"p": priority}, re_sorts=moves))

    return await _change(app, user, conversation, decide)


async def set_unread(app: Confab, user: UserId, conversation: str) -> Session:
    """A reminder to oneself, until the next change or reading; what is deleted takes none. Raises InvalidInput for a gateway,
    NotFound."""

    def decide(session: Session) -> Change | None:
        if session.unread_status or not session.valid:
            return None
        return Change(SyncReason.UNREAD, {"us": session.write_seq}, re_sorts=True)

    return await _change(app, user, conversation, decide, gateways=False)


async def assign_category(
    app: Confab, user: UserId, conversations: Sequence[str], category: str | None
) -> list[Session]:
    """Files sessions under a category of the user's own making, or under none: all of them or, where one is unknown, none.
    Raises InvalidInput, NotFound."""
    if len(conversations) > MOST_CONVERSATIONS:
        raise InvalidInput(f"at most {MOST_CONVERSATIONS} sessions at a time", field="conversationIds")
    check_category(category)
    wanted = [known_conversation(name, "conversationIds") for name in dict.fromkeys(conversations)]
    if not wanted:
        return []
    change = Change(SyncReason.CATEGORY, {"ca": category})

    async def work(held: UserLock) -> list[Session]:
        sessions = [existing_session(held, name, "conversationIds") for name in wanted]
        if any(session.is_gateway for session in sessions):
            raise InvalidInput("a subBiz can't be put into a category", field="conversationIds")
        due = [s.conversation for s in sessions if _if_different(s, change) is not None]
        changed = await _carry_out(app, user, held, due, change) if due else {}
        return [changed.get(session.conversation, session) for session in sessions]

    return await user_transaction(app, user, wanted, work)


def _if_different(session: Session, change: Change) -> Change | None:
    """The change, if it makes a difference: to what is set, or by taking away the mark of being unread."""
    rec = session.record
    differs = any(rec.get(name) != value for name, value in change.recorded.items())
    return change if differs or session.unread_status else None


async def _change(
    app: Confab,
    user: UserId,
    conversation: str,
    decide: Callable[[Session], Change | None],
    *,
    gateways: bool = True,
) -> Session:
    """One session's change, decided on the session as it is under the lock."""
    wanted = known_conversation(conversation, "conversationId")

    async def work(held: UserLock) -> Session:
        session = existing_session(held, wanted, "conversationId")
        if session.is_gateway and not gateways:
            raise InvalidInput("this does not apply to a subBiz", field="conversationId")
        change = decide(session)
        if change is None:
            return session
        return (await _carry_out(app, user, held, [wanted], change))[wanted]

    return await user_transaction(app, user, [wanted], work)


async def _carry_out(
    app: Confab, user: UserId, held: UserLock, conversations: Sequence[ConversationId], change: Change
) -> dict[ConversationId, Session]:
    """The same change of some sessions: in MongoDB, in the user's cached state, to the user's devices. Answers them as they are
    then."""
    store = app.store
    times = {conversation: held.at + offset for offset, conversation in enumerate(conversations)}
    held.in_doubt = True
    await store.session_rows.write(user, held.fence, {c: _row_update(change, at) for c, at in times.items()})
    gone = [name for name, value in change.fields.items() if value is None]
    fields = {
        "cs": conversations,
        "f": {name: value for name, value in change.recorded.items() if value is not None},
        "u": gone if "us" in change.fields else [*gone, "us"],
        "w": int(change.re_sorts),
        "at": held.at,
        "e": SessionChanged.log_entry(change.reason, conversations),
    }
    (outcome,) = await apply_held(app, user, held, [("set", fields)])
    event = SessionChanged(change.reason, outcome.sessions, outcome.total_unread)
    announce(app, user, [(event, outcome)], times)
    changed = {session.conversation: session for session in outcome.sessions}
    missing = [c for c in conversations if c not in changed]
    if missing:
        snapshot = await store.sessions.find_many(user, missing)
        changed |= {session.conversation: session for session in snapshot.sessions}
    return changed


def _row_update(change: Change, at: int) -> dict[str, Any]:
    kept = {n: v for n, v in change.fields.items() if v is not None and (n, v) != ("p", 0)}
    update: dict[str, Any] = {"$max": {"a": at, "w": at} if change.re_sorts else {"a": at}, "$set": kept}
    gone = {name: "" for name in (*change.fields, "us") if name not in kept}
    return update | {"$unset": gone} if gone else update


async def apply_held(
    app: Confab, user: UserId, held: UserLock, changes: Sequence[tuple[str, dict[str, Any]]]
) -> list[ApplyResult]:
    """Applies changes that MongoDB holds to the user's cached state, and gives the lock back.

    Answers an outcome for each, or one for all where the state isn't in use. Raises Fenced.
    """
    store = app.store
    answer = await store.cache.one(store.sessions.changes(user, changes, held.token))
    if answer[0] == b"fenced":
        raise Fenced("the lock ended before the change was applied")
    held.given_back = True
    return applied_each(user, answer)


def announce(
    app: Confab,
    user: UserId,
    events: Sequence[tuple[SessionChanged, ApplyResult]],
    times: Mapping[ConversationId, int],
) -> None:
    """SyncSession to all of the user's connections, the one that asked included. times: of the changes in MongoDB."""
    parcel = OutgoingEvents()
    for event, outcome in events:
        parcel.add(event, [(user, outcome)], stored_at=times)
    app.bus.send(parcel)


def known_conversation(conversation: str, name: str) -> ConversationId:
    """A well-formed id. Raises NotFound naming the argument."""
    if kind_of(conversation) is None:
        raise NotFound("there is no such conversation", field=name)
    return ConversationId(conversation)


def existing_session(held: UserLock, conversation: ConversationId, name: str) -> Session:
    """The user's session as it is under the lock. Raises NotFound naming the argument."""
    session = held.sessions.get(conversation)
    if session is None or not session.exists:
        raise NotFound("there is no such conversation", field=name)
    return session


async def user_transaction(
    app: Confab, user: UserId, conversations: Sequence[ConversationId], work: Callable[[UserLock], Awaitable[T]]
) -> T:
    """Work under the user's lock; begun anew where the lock was lost on the way. Raises LockTimeout, Unreachable, Fenced."""
    # Found out later, it would leave the user's state in doubt, and those who read it with nothing.
    app.store.mongo.require_primary()
    for attempt in range(_ATTEMPTS):
        try:
            async with app.store.locks.hold(user, conversations) as held:
                return await work(held)
        except Fenced:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")
