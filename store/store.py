"""The store as one thing to hand around: every repository over one MongoDB and one Redis."""

from __future__ import annotations

from dataclasses import dataclass

from store.around import Turns
from store.cache import Cache
from store.claims import ClaimStore
from store.clock import DeploymentClock
from store.conversations import ConversationStore
from store.deployment import Deployment
from store.event_streams import EventStreamStore
from store.generations import Spare
from store.groups import GroupStore
from store.keys import Keys
from store.locks import UserLocks
from store.messages import MessageStore
from store.mongo import Mongo
from store.owed import Owed
from store.rate_limits import RateLimits, RatesPerMinute
from store.receipts import ReceiptStore
from store.revisions import RevisionStore
from store.revocations import RevocationStore
from store.session_rows import SessionRows
from store.sessions import SessionStore
from store.snowflakes import Snowflakes
from store.typing import TypingStore
from store.unshown import UnshownMessages
from store.users import UserStore


@dataclass(frozen=True, slots=True)
class Store:
    """All repositories of one process."""

    mongo: Mongo
    cache: Cache
    keys: Keys
    clock: DeploymentClock
    ids: Snowflakes
    deployment: Deployment
    users: UserStore
    conversations: ConversationStore
    messages: MessageStore
    revisions: RevisionStore
    claims: ClaimStore
    sessions: SessionStore
    session_rows: SessionRows
    locks: UserLocks
    groups: GroupStore
    receipts: ReceiptStore
    typing: TypingStore
    revocations: RevocationStore
    event_streams: EventStreamStore
    owed: Owed
    unshown: UnshownMessages
    turns: Turns
    rate_limits: RateLimits


def build_store(
    mongo: Mongo,
    cache: Cache,
    clock: DeploymentClock,
    data_center: int,
    *,
    rates: RatesPerMinute | None = None,
    spare: Spare | None = None,
) -> Store:
    """Puts the repositories together. Opens nothing. spare: asked while Redis is away."""
    keys = cache.keys
    deployment = Deployment(mongo, cache, keys, clock, spare)
    rows = SessionRows(mongo, clock)
    sessions = SessionStore(rows, cache, keys, clock)
    conversations = ConversationStore(mongo, cache, keys)
    owed = Owed(cache, deployment.generations, conversations, sessions)
    return Store(
        mongo=mongo,
        cache=cache,
        keys=keys,
        clock=clock,
        ids=Snowflakes(clock, data_center),
        deployment=deployment,
        users=UserStore(mongo),
        conversations=conversations,
        messages=MessageStore(mongo, cache, keys),
        revisions=RevisionStore(mongo, cache, keys),
        claims=ClaimStore(mongo, cache, keys),
        sessions=sessions,
        session_rows=rows,
        locks=UserLocks(cache, keys, clock, sessions, deployment.owner, owed),
        groups=GroupStore(mongo),
        receipts=ReceiptStore(mongo),
        typing=TypingStore(cache, keys, clock),
        revocations=RevocationStore(mongo),
        event_streams=EventStreamStore(cache, keys),
        owed=owed,
        unshown=UnshownMessages(mongo),
        turns=Turns(),
        rate_limits=RateLimits(cache, keys, rates or RatesPerMinute()),
    )
