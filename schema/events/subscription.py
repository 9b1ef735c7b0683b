"""The root type of subscriptions."""

from __future__ import annotations

from functools import partial

import strawberry

from resolvers.live import channel_events, message_events, presence_events, session_sync, workspace_events
from resolvers.live.block_list_stream import open_with_block_list
from schema.base.context import Info
from schema.base.scalars import Cursor
from schema.events.channels import PositionInput, channel_event_from, channel_event_union
from schema.events.registry import message_event_from, message_event_union
from schema.events.sessions import SyncSessionType
from schema.events.source import Source
from schema.events.workspaces import workspace_event_from, workspace_event_union
from schema.presence.presence_types import PresenceType, presence_from
from subscriptions.presence.presence_watch import PresenceState


@strawberry.type
class Subscription:
    @strawberry.subscription(
        graphql_type=SyncSessionType,
        description="Changes to the caller's session state made on any device, and changes made to them (a mute that "
        "ended, a dismissed group, a membership). Not new messages: only message events change a session without one "
        "of these. First CATCH_UP in one or more parts (with since: everything missed; without: empty), then live, "
        "without gap or repetition between the two.",
    )
    async def sync_session(self, info: Info, since: Cursor | None = None) -> Source:
        """Subscribe to changes of sessions."""
        context = info.context
        app, viewer = context.app, context.viewer
        open_stream = partial(session_sync.sync_session, app, viewer, since, context.queue_budget)
        stream = await open_with_block_list(app, viewer, open_stream)
        return Source(context, stream, SyncSessionType.from_event)

    @strawberry.subscription(
        graphql_type=message_event_union(),
        description="Messages (new, edited, recalled), receipts, reactions and typing in all of the caller's private "
        "conversations, groups and followed threads, or in one of them, and mentions in channels. Includes the "
        "caller's own messages, for their other devices. With since: first what was missed (messages in order of seq "
        "per conversation), then CaughtUp in any case, then live, without gap or repetition. Of a group the caller "
        "has left: what was missed while a member, then CaughtUp, then nothing.",
    )
    async def message_events(
        self, info: Info, since: Cursor | None = None, conversation_id: strawberry.ID | None = None
    ) -> Source:
        """Subscribe to message events."""
        context = info.context
        app, viewer = context.app, context.viewer
        open_stream = partial(message_events.message_events, app, viewer, since, conversation_id, context.queue_budget)
        stream = await open_with_block_list(app, viewer, open_stream)
        return Source(context, stream, message_event_from)

    @strawberry.subscription(
        graphql_type=channel_event_union(),
        description="Everything that happens in up to 20 channels, threads or groups that are on the screen: messages, "
        "edits, recalls, reactions, pins, thread counts, typing. For bots (isBot) up to 1,000. rev: from channel, "
        "thread or an event. What was missed comes first, in order, then ChannelCaughtUp for each, then live, without "
        "gap or repetition. reset: true means: fetch the newest page again. When access ends: AccessEnded for that "
        "one, then nothing more of it.",
    )
    async def channel_events(self, info: Info, channels: list[PositionInput]) -> Source:
        """Subscribe to what happens in channels."""
        context = info.context
        positions = [position.to_position() for position in channels]
        app, viewer = context.app, context.viewer
        open_stream = partial(channel_events.channel_events, app, viewer, positions, context.queue_budget)
        stream = await open_with_block_list(app, viewer, open_stream)
        return Source(context, stream, channel_event_from)

    @strawberry.subscription(
        graphql_type=workspace_event_union(),
        description="What changes in up to 20 workspaces: name, roles, categories, the channels the caller can see, "
        "the caller's own membership, voice states, and ChannelActivity of followed channels. rev: from ready, "
        "workspace, or an event. First what changed meanwhile (whole objects, each once), then WorkspaceCaughtUp, "
        "then live.",
    )
    async def workspace_events(self, info: Info, workspaces: list[PositionInput]) -> Source:
        """Subscribe to what changes in workspaces."""
        context = info.context
        positions = [position.to_position() for position in workspaces]
        app, viewer = context.app, context.viewer
        open_stream = partial(workspace_events.workspace_events, app, viewer, positions, context.queue_budget)
        stream = await open_with_block_list(app, viewer, open_stream)
        return Source(context, stream, workspace_event_from)

    @strawberry.subscription(
        graphql_type=PresenceType,
        description="People on the screen, at most 200: first what each is now, then changes, at most one per user in "
        "5 s. Also when their name or picture changes.",
    )
    async def presence_events(self, info: Info, user_ids: list[strawberry.ID]) -> Source:
        """Subscribe to the presence of users."""
        context = info.context
        stream = await presence_events.presence_events(context.app, context.viewer, user_ids, context.queue_budget)
        return Source(context, stream, _presence_from)


def _presence_from(state: PresenceState) -> PresenceType:
    return presence_from(state.shown, state.at_ms)
