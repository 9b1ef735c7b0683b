"""The GraphQL schema: the root types, put together from the subjects' packages."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import strawberry
from graphql import Undefined

from schema.audit.audit_queries import AuditQueries
from schema.audit.audit_types import find_audit_entry
from schema.base.context import Context, ConversationObjects, Info
from schema.base.errors import ErrorCode
from schema.base.nodes import Node
from schema.base.scalars import CONFIG
from schema.blocks.block_mutations import BlockMutations
from schema.blocks.block_queries import BlockQueries
from schema.content_rules.rule_mutations import ContentRuleMutations
from schema.content_rules.rule_queries import ContentRuleQueries
from schema.conversations.conversation_queries import ConversationQueries
from schema.conversations.conversation_types import PrivateConversation, SubBizGateway
from schema.conversations.typing_mutations import TypingMutations
from schema.erasure.erasure_mutations import ErasureMutations
from schema.erasure.erasure_queries import ErasureQueries
from schema.events.subscription import Subscription
from schema.export.export_mutations import ExportMutations
from schema.export.export_queries import ExportQueries
from schema.files.file_mutations import FileMutations
from schema.files.file_queries import FileQueries
from schema.files.file_types import AttachmentType
from schema.groups.group_mutations import GroupMutations
from schema.groups.group_queries import GroupQueries
from schema.groups.group_types import Group
from schema.messages.message_mutations import MessageMutations
from schema.messages.message_queries import MessageQueries
from schema.messages.message_types import find_message
from schema.moderation.moderation_mutations import ModerationMutations
from schema.moderation.moderation_queries import ModerationQueries
from schema.notifications.settings_mutations import NotificationMutations
from schema.notifications.settings_queries import NotificationQueries
from schema.pins.pin_mutations import PinMutations
from schema.pins.pin_queries import PinQueries
from schema.presence.device_mutations import DeviceMutations
from schema.presence.device_queries import DeviceQueries
from schema.presence.device_types import find_device
from schema.presence.presence_mutations import PresenceMutations
from schema.presence.presence_queries import PresenceQueries
from schema.push.push_mutations import PushMutations
from schema.push.push_queries import PushQueries
from schema.reactions.reaction_mutations import ReactionMutations
from schema.reactions.reaction_queries import ReactionQueries
from schema.reports.report_mutations import ReportMutations
from schema.reports.report_queries import ReportQueries
from schema.reports.report_types import find_report_node
from schema.search.search_queries import SearchQueries
from schema.sending.send_message import SendingMutations
from schema.sessions.session_mutations import SessionMutations
from schema.sessions.session_queries import SessionQueries
from schema.sessions.session_types import find_session
from schema.threads.thread_mutations import ThreadMutations
from schema.threads.thread_queries import ThreadQueries
from schema.threads.thread_types import ThreadType
from schema.users.token_renewal import ConnectionMutations
from schema.users.user_mutations import UserMutations
from schema.users.user_queries import UserQueries
from schema.users.user_types import find_user
from schema.voice.voice_mutations import VoiceMutations
from schema.webhooks.incoming_mutations import IncomingWebhookMutations
from schema.webhooks.outgoing_mutations import OutgoingWebhookMutations
from schema.webhooks.outgoing_queries import WebhookQueries
from schema.webhooks.webhook_types import find_webhook_node
from schema.workspaces.category_types import find_category
from schema.workspaces.channel_mutations import ChannelMutations
from schema.workspaces.channel_queries import ChannelQueries
from schema.workspaces.channel_types import ChannelType
from schema.workspaces.following_mutations import FollowingMutations
from schema.workspaces.ready_queries import ReadyQueries
from schema.workspaces.role_mutations import PermissionQueries, RoleMutations
from schema.workspaces.role_types import RoleType
from schema.workspaces.workspace_mutations import WorkspaceMutations
from schema.workspaces.workspace_queries import WorkspaceQueries
from schema.workspaces.workspace_types import WorkspaceType
from store.audit.audit_entry import AuditEntryId
from store.base.ids import ConversationKind, kind_of, parse_file_id, parse_message_id, parse_session_id
from store.base.workspace_ids import is_workspace_id, workspace_of
from store.reports.report import is_report_id
from store.webhooks.webhook import parse_webhook_id

CONVERSATION_TYPES: Mapping[ConversationKind, ConversationObjects] = MappingProxyType(
    {
        ConversationKind.PRIVATE: PrivateConversation,
        ConversationKind.GROUP: Group,
        ConversationKind.SUB_BIZ: SubBizGateway,
        ConversationKind.CHANNEL: ChannelType,
        ConversationKind.THREAD: ThreadType,
    }
)
"""The GraphQL type of each kind of conversation, for the context. Types cannot import those of higher packages."""


async def find_node(context: Context, id: str) -> Node | None:
    """Return the object with an id if the viewer may see it, else None.

    The form of the id shows its type. A user id may look like any other id, so users are looked up after all others.
    The viewer's devices have the ids that the client gave them, so they come last.
    """
    return await _find_by_form(context, id) or await find_user(context, id) or await find_device(context, id)


async def _find_by_form(context: Context, id: str) -> Node | None:
    viewer = context.viewer
    if kind_of(id) is not None:
        conversation: Node | None = await context.find_conversation(id)
        return conversation
    if parse_message_id(id) is not None:
        return await find_message(context, id)
    if parse_file_id(id) is not None:
        return await AttachmentType.find(context, id)
    if is_workspace_id(id):
        return await WorkspaceType.find(context, id)
    if workspace_of(id, "r") is not None:
        return await RoleType.find(context, id)
    if workspace_of(id, "k") is not None:
        return await find_category(context, id)
    if parse_webhook_id(id) is not None and (webhook := await find_webhook_node(context, id)) is not None:
        return webhook
    if is_report_id(id) and (report := await find_report_node(context, id)) is not None:
        return report
    if AuditEntryId.parse(id) is not None and (entry := await find_audit_entry(context, id)) is not None:
        return entry
    session = parse_session_id(id)
    return await find_session(context, session[1]) if session is not None and session[0] == viewer else None


@strawberry.type
class Query(
    UserQueries,
    AuditQueries,
    SessionQueries,
    MessageQueries,
    PinQueries,
    ReactionQueries,
    FileQueries,
    ConversationQueries,
    GroupQueries,
    ThreadQueries,
    WorkspaceQueries,
    ChannelQueries,
    PermissionQueries,
    ReadyQueries,
    PresenceQueries,
    DeviceQueries,
    NotificationQueries,
    SearchQueries,
    PushQueries,
    WebhookQueries,
    ModerationQueries,
    ReportQueries,
    ContentRuleQueries,
    ExportQueries,
    ErasureQueries,
    BlockQueries,
):
    @strawberry.field
    async def node(self, info: Info, id: strawberry.ID) -> Node | None:
        return await find_node(info.context, id)


@strawberry.type
class Mutation(
    UserMutations,
    SessionMutations,
    SendingMutations,
    MessageMutations,
    PinMutations,
    ReactionMutations,
    FileMutations,
    GroupMutations,
    ThreadMutations,
    WorkspaceMutations,
    ChannelMutations,
    FollowingMutations,
    RoleMutations,
    TypingMutations,
    PresenceMutations,
    ConnectionMutations,
    DeviceMutations,
    NotificationMutations,
    VoiceMutations,
    PushMutations,
    IncomingWebhookMutations,
    OutgoingWebhookMutations,
    ModerationMutations,
    ReportMutations,
    ContentRuleMutations,
    ExportMutations,
    ErasureMutations,
    BlockMutations,
):
    pass


def _without_null_defaults(schema: strawberry.Schema) -> strawberry.Schema:
    """Remove the default null of optional arguments and input fields, which comes from Python's None."""
    for named in schema._schema.type_map.values():
        fields = getattr(named, "fields", {})
        for field in fields.values():
            for argument in (field, *getattr(field, "args", {}).values()):
                if getattr(argument, "default_value", Undefined) is None:
                    argument.default_value = Undefined
    return schema


SCHEMA = _without_null_defaults(
    strawberry.Schema(
        query=Query,
        mutation=Mutation,
        subscription=Subscription,
        types=[PrivateConversation, SubBizGateway, Group, ChannelType, ThreadType, ErrorCode],
        config=CONFIG,
    )
)
