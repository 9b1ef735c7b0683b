"""Queries, mutations and subscriptions."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import strawberry
from strawberry.extensions import ParserCache, ValidationCache
from strawberry.schema.config import StrawberryConfig

from bench.baseline.chat import ChatError
from bench.baseline.rows import Row, now_ms, session_id
from bench.baseline.types import (
    SCALARS,
    CaughtUp,
    Conversation,
    CreateGroupInput,
    Cursor,
    Group,
    Info,
    Message,
    MessageConnection,
    MessageCreated,
    MessageEdge,
    MessageEvent,
    PageInfo,
    PrivateConversation,
    ReceiptAdvanced,
    ReceiptStatus,
    SendMessageInput,
    SendMessagePayload,
    Session,
    SessionConnection,
    SessionDelta,
    SessionEdge,
    SyncReason,
    SyncSession,
    User,
    conversation_of,
    load_conversations,
    load_messages,
    load_sessions,
)


def _cursor(at: int, name: str = "") -> Cursor:
    return Cursor(f"{at}:{name}")


def _position(cursor: str | None) -> tuple[int, str] | None:
    """Return the time and the row's name that a cursor stands for."""
    if cursor is None:
        return None
    at, _, name = cursor.partition(":")
    return _number(at), name


def _number(cursor: str) -> int:
    if not cursor.isdecimal():
        raise ChatError("INVALID_INPUT", "The cursor is not one of ours.")
    return int(cursor)


def _limit(asked: int) -> int:
    if not 1 <= asked <= 100:
        raise ChatError("INVALID_INPUT", "A page has 1 to 100 entries.")
    return asked


@strawberry.type
class Query:
    @strawberry.field
    async def me(self, info: Info) -> User:
        return User.of(await info.context.users.load(info.context.viewer))

    @strawberry.field
    async def sessions(self, info: Info, first: int = 50, after: str | None = None) -> SessionConnection:
        limit, began = _limit(first), now_ms()
        rows = await info.context.chat.list_sessions(info.context.viewer, _position(after), limit + 1)
        sessions = await load_sessions(info.context, rows[:limit])
        edges = [SessionEdge(node=one, cursor=_cursor(one.write_ts, one.id)) for one in sessions]
        return SessionConnection(
            edges=edges, page_info=_page_info(edges, len(rows) > limit, after is not None), cursor=_cursor(began)
        )

    @strawberry.field
    async def session(self, info: Info, conversation_id: strawberry.ID) -> Session | None:
        row = await info.context.sessions.load(session_id(info.context.viewer, conversation_id))
        return (await load_sessions(info.context, [row]))[0] if row else None

    @strawberry.field
    async def sync_sessions(self, info: Info, since: Cursor | None = None, first: int = 100) -> SessionDelta:
        limit, began = _limit(first), now_ms()
        rows = await info.context.chat.list_changed(info.context.viewer, _position(since), limit + 1)
        shown = rows[:limit]
        return SessionDelta(
            sessions=await load_sessions(info.context, shown),
            cursor=_cursor(shown[-1]["activeTs"], shown[-1]["_id"]) if shown else since or _cursor(began),
            has_more=len(rows) > limit,
        )

    @strawberry.field
    async def total_unread(self, info: Info) -> int:
        return await info.context.chat.total_unread(info.context.viewer)

    @strawberry.field
    async def conversation(self, info: Info, id: strawberry.ID) -> Conversation | None:
        session = await info.context.sessions.load(session_id(info.context.viewer, id))
        row = await info.context.conversations.load(id) if session else None
        return (await load_conversations(info.context, [row]))[0] if row else None

    @strawberry.field
    async def messages(
        self,
        info: Info,
        conversation_id: strawberry.ID,
        first: int | None = None,
        after: str | None = None,
        last: int | None = None,
        before: str | None = None,
    ) -> MessageConnection | None:
        newest = first is None
        limit = _limit(first if first is not None else 50 if last is None else last)
        rows = await info.context.chat.list_messages(
            info.context.viewer,
            conversation_id,
            _number(after) if after else None,
            _number(before) if before else None,
            limit + 1,
            newest=newest,
        )
        if rows is None:
            return None
        shown = rows[:limit][::-1] if newest else rows[:limit]
        messages = await load_messages(info.context, shown)
        edges = [MessageEdge(node=one, cursor=str(one.seq)) for one in messages]
        more = len(rows) > limit
        beyond = (before is not None, more) if newest else (more, after is not None)
        return MessageConnection(edges=edges, page_info=_page_info(edges, *beyond))


def _page_info(edges: list[SessionEdge] | list[MessageEdge], has_next: bool, has_previous: bool) -> PageInfo:
    return PageInfo(
        has_next_page=has_next,
        has_previous_page=has_previous,
        start_cursor=edges[0].cursor if edges else None,
        end_cursor=edges[-1].cursor if edges else None,
    )


@strawberry.type
class Mutation:
    @strawberry.mutation
    async def send_message(self, info: Info, input: SendMessageInput) -> SendMessagePayload:
        sent = await info.context.chat.send_message(
            info.context.viewer, input.content, input.to_user_id, input.conversation_id, input.idempotency_key
        )
        message = Message.of(sent.message, sent.people[sent.message["senderId"]])
        conversation = conversation_of(sent.conversation, info.context.viewer, sent.people)
        return SendMessagePayload(message=message, replayed=sent.replayed, conversation=conversation)

    @strawberry.mutation
    async def mark_read(self, info: Info, conversation_id: strawberry.ID, up_to_seq: int | None = None) -> Session:
        row = await info.context.chat.mark_read(info.context.viewer, conversation_id, up_to_seq)
        (session,) = await load_sessions(info.context, [row])
        return session

    @strawberry.mutation
    async def create_group(self, info: Info, input: CreateGroupInput) -> Group:
        row = await info.context.chat.create_group(info.context.viewer, input.name, input.member_ids)
        return Group.of(row)


@strawberry.type
class Subscription:
    @strawberry.subscription
    async def message_events(
        self, info: Info, since: Cursor | None = None, conversation_id: strawberry.ID | None = None
    ) -> AsyncGenerator[MessageEvent, None]:
        async with info.context.chat.broadcast.subscribe(info.context.viewer) as events:
            yield CaughtUp(cursor=_cursor(now_ms()), reset=since is not None)
            while True:
                event = _message_event(await events.get(), conversation_id)
                if event is not None:
                    yield event

    @strawberry.subscription
    async def sync_session(self, info: Info, since: Cursor | None = None) -> AsyncGenerator[SyncSession, None]:
        async with info.context.chat.broadcast.subscribe(info.context.viewer) as events:
            yield SyncSession(
                reason=SyncReason.CATCH_UP, sessions=[], cursor=_cursor(now_ms()), reset=since is not None
            )
            while True:
                event = await events.get()
                if event["kind"] == "session":
                    row = event["session"]
                    yield SyncSession(
                        reason=SyncReason(event["reason"]),
                        sessions=await load_sessions(info.context, [row]),
                        cursor=_cursor(row["activeTs"], row["_id"]),
                    )


def _message_event(event: Row, conversation_id: str | None) -> MessageCreated | ReceiptAdvanced | None:
    if event["kind"] == "message":
        row = event["message"]
        if conversation_id in (None, row["conversationId"]):
            return MessageCreated(message=Message.of(row, event["sender"]), cursor=_cursor(row["createdAt"]))
    elif event["kind"] == "receipt" and conversation_id in (None, event["conversationId"]):
        return ReceiptAdvanced(
            conversation_id=event["conversationId"],
            user=User.of(event["user"]),
            status=ReceiptStatus.READ,
            seq=event["seq"],
            cursor=_cursor(event["at"]),
        )
    return None


schema = strawberry.Schema(
    Query,
    Mutation,
    Subscription,
    types=[PrivateConversation, Group],
    extensions=[ParserCache, ValidationCache],
    config=StrawberryConfig(scalar_map=SCALARS),
)
