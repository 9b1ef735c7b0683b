"""The schema: the root types, put together from the aggregates."""

from __future__ import annotations

import strawberry
from graphql import Undefined

from schema.base.context import Info
from schema.base.errors import ErrorCode
from schema.base.nodes import Node
from schema.base.scalars import CONFIG
from schema.connections import ConnectionMutations
from schema.conversations import ConversationQueries, PrivateConversation, SubBizGateway, find_conversation
from schema.events.subscription import Subscription
from schema.group_changes import GroupChangeMutations
from schema.groups import Group, GroupMutations, GroupQueries
from schema.messages import MessageMutations, MessageQueries, find_message
from schema.session_changes import SessionMutations
from schema.sessions import SessionQueries, find_session
from schema.typing import TypingMutations
from schema.users import UserMutations, UserQueries, find_user
from store.base.ids import kind_of, parse_message_id, parse_session_id


@strawberry.type
class Query(UserQueries, SessionQueries, MessageQueries, ConversationQueries, GroupQueries):
    @strawberry.field
    async def node(self, info: Info, id: strawberry.ID) -> Node | None:
        context = info.context
        viewer = context.viewer
        if kind_of(id) is not None:
            found = await find_conversation(context, id)
            return found if isinstance(found, Node) else None
        if parse_message_id(id) is not None:
            return await find_message(context, id)
        session = parse_session_id(id)
        if session is not None:
            return await find_session(context, session[1]) if session[0] == viewer else None
        return await find_user(context, id)


@strawberry.type
class Mutation(
    UserMutations,
    SessionMutations,
    MessageMutations,
    GroupMutations,
    GroupChangeMutations,
    TypingMutations,
    ConnectionMutations,
):
    pass


def _without_null_defaults(schema: strawberry.Schema) -> strawberry.Schema:
    """Optional arguments and input fields have no default, where Python's None would print as one."""
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
        types=[PrivateConversation, SubBizGateway, Group, ErrorCode],
        config=CONFIG,
    )
)
