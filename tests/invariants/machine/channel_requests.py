"""GraphQL documents of the machine of channels, and the requests of its operations."""

from __future__ import annotations

from collections.abc import Mapping

from tests.api.channels.calls import CREATE_WORKSPACE as CREATE_WORKSPACE
from tests.invariants.model.channels import EVERYONE
from tests.invariants.model.operation import Op
from tests.invariants.model.sessions import Json

STATE = "writeSeq readSeq readCount unreadCount unreadMentionCount unreadStatus muteStatus"
CHANNEL = f"id kind isArchived messageCount viewerFollows session {{ {STATE} }}"
OVERVIEW = f"""query ($id: ID!) {{
    workspace(id: $id) {{ memberCount viewerPermissions channels {{ edges {{ node {{ id }} }} }} }}
    followedChannels(workspaceId: $id) {{ edges {{ node {{ {CHANNEL} }} }} }}
    unread: followedChannels(workspaceId: $id, unreadOnly: true) {{ edges {{ node {{ id }} }} }}
    attention {{ unread mentions threads }} }}"""
ONE_CHANNEL = f"""query ($id: ID!) {{
    channel(id: $id) {{ {CHANNEL} memberCount viewerPermissions pinCount }}
    session(conversationId: $id) {{ {STATE} }}
    messages(conversationId: $id, last: 100) {{
        edges {{ node {{ id seq content state isPinned sender {{ id }} systemEvent {{ kind }}
            reactions {{ emoji count viewerReacted users {{ id }} }} }} }} }} }}"""
PINNED = "query ($id: ID!) { pinnedMessages(conversationId: $id, first: 100) { edges { node { seq } } } }"
SYNC = f"""query ($since: Cursor, $first: Int = 100) {{ syncChannels(since: $since, first: $first) {{
    channels {{ {CHANNEL} }} gone cursor hasMore reset attention {{ unread mentions }} }} }}"""
CREATE_ROLE = "mutation ($id: ID!, $input: RoleInput!) { createRole(workspaceId: $id, input: $input) { id } }"

_DOCUMENTS = {
    "join": "mutation ($id: ID!) { joinWorkspace(workspaceId: $id) { id } }",
    "leave": "mutation ($id: ID!) { leaveWorkspace(workspaceId: $id) }",
    "permit": "mutation ($id: ID!, $input: RoleInput!) { updateRole(roleId: $id, input: $input) { id } }",
    "roles": """mutation ($id: ID!, $user: ID!, $roles: [ID!]!) {
        setMemberRoles(workspaceId: $id, userId: $user, roleIds: $roles) { user { id } } }""",
    "read_all": "mutation ($id: ID!) { markChannelsRead(workspaceId: $id) { mentions } }",
    "create": "mutation ($input: CreateChannelInput!) { createChannel(input: $input) { id } }",
    "overwrite": """mutation ($id: ID!, $role: ID, $user: ID, $allow: [Permission!]!, $deny: [Permission!]!) {
        setPermissionOverwrite(channelId: $id, roleId: $role, userId: $user, allow: $allow, deny: $deny) {
            roleId } }""",
    "kind": """mutation ($id: ID!, $kind: ChannelKind!) {
        updateChannel(channelId: $id, input: { kind: $kind }) { id } }""",
    "archive": "mutation ($id: ID!, $value: Boolean!) { archiveChannel(channelId: $id, archived: $value) { id } }",
    "follow": "mutation ($id: ID!) { followChannel(channelId: $id) { id } }",
    "unfollow": "mutation ($id: ID!) { followChannel(channelId: $id, follow: false) { id } }",
    "add": "mutation ($id: ID!, $value: [ID!]!) { addToChannel(channelId: $id, userIds: $value) { id } }",
    "remove": "mutation ($id: ID!, $value: ID!) { removeFromChannel(channelId: $id, userId: $value) { id } }",
    "send": "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id } } }",
    "edit": "mutation ($id: ID!, $content: String!) { editMessage(messageId: $id, content: $content) { id } }",
    "recall": "mutation ($id: ID!) { recallMessage(messageId: $id) { id } }",
    "react": "mutation ($id: ID!, $emoji: String!) { addReaction(messageId: $id, emoji: $emoji) { id } }",
    "unreact": "mutation ($id: ID!, $emoji: String!) { removeReaction(messageId: $id, emoji: $emoji) { id } }",
    "clear": "mutation ($id: ID!, $emoji: String) { clearReactions(messageId: $id, emoji: $emoji) { id } }",
    "pin": "mutation ($id: ID!) { pinMessage(messageId: $id) { id } }",
    "unpin": "mutation ($id: ID!) { unpinMessage(messageId: $id) { id } }",
    "read": "mutation ($id: ID!, $value: Int) { markRead(conversationId: $id, upToSeq: $value) { id } }",
    "mute": "mutation ($id: ID!, $value: Boolean!) { muteSession(conversationId: $id, muted: $value) { id } }",
    "mark": "mutation ($id: ID!) { setUnread(conversationId: $id) { id } }",
}


class ChannelRequests:
    """Makes requests of operations. `messages`: ids by channel and seq. `roles`: ids by name, also of everyone."""

    def __init__(self, workspace: str, roles: Mapping[str, str]) -> None:
        self.workspace = workspace
        self.roles = {EVERYONE: f"r_{workspace[2:]}", **roles}
        self.messages: dict[tuple[str, int], str] = {}

    def request(self, op: Op) -> tuple[str, Json]:
        """Return the document and the variables of an operation."""
        return _DOCUMENTS[op.kind], self._variables(op)

    def _variables(self, op: Op) -> Json:
        match op.kind:
            case "join" | "leave" | "read_all":
                return {"id": self.workspace}
            case "permit":
                role, permissions = op.value
                return {"id": self.roles[role], "input": {"permissions": sorted(permissions)}}
            case "roles":
                member, roles = op.value
                return {"id": self.workspace, "user": member, "roles": [self.roles[role] for role in sorted(roles)]}
            case "create":
                return {"input": self.new_channel(op)}
            case "overwrite":
                target, (allow, deny) = op.value
                place = {"role": self.roles[target]} if target in self.roles else {"user": target}
                return {"id": op.target, "allow": sorted(allow), "deny": sorted(deny)} | place
            case "kind":
                return {"id": op.target, "kind": op.value}
            case "send":
                mentions, roles, mentions_all, content = op.value
                return {
                    "input": {
                        "conversationId": op.target,
                        "content": content,
                        "mentions": mentions,
                        "mentionRoleIds": [self.roles[role] for role in roles],
                        "mentionAll": mentions_all,
                    }
                }
            case "edit":
                return {"id": self.messages[op.target, op.value[0]], "content": op.value[1]}
            case "react" | "unreact" | "clear":
                return {"id": self.messages[op.target, op.value[0]], "emoji": op.value[1]}
            case "recall" | "pin" | "unpin":
                return {"id": self.messages[op.target, op.value]}
            case _:
                return {"id": op.target, "value": op.value}

    def new_channel(self, op: Op, *, is_default: bool = False) -> Json:
        """Return the input of a new channel."""
        kind, has_full_history, members = op.value
        visibility = "FULL" if has_full_history else "SINCE_JOIN"
        fields = {"name": "channel", "kind": kind, "memberIds": members, "isDefault": is_default}
        return {"workspaceId": self.workspace, "historyVisibility": visibility} | fields
