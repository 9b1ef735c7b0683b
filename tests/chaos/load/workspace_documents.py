"""The GraphQL documents about workspaces that the load sends."""

from __future__ import annotations

_READ_STATE = "session { readSeq readCount unreadCount unreadMentionCount }"
_SETTINGS = "id name topic kind isArchived messageCount viewerFollows"
CHANNEL = f"{{ {_SETTINGS} memberCount viewerPermissions rev {_READ_STATE} }}"
_PAGE = f"pageInfo {{ hasNextPage endCursor }} edges {{ node {CHANNEL} }}"
_MESSAGE = """{ id seq content state editCount contentType mentionsAll sender { id } mentions { id } conversationId
    createdAt idempotencyKey replyTo { id seq } }"""

WORKSPACE_DOCUMENTS = {
    "createWorkspace": "mutation ($input: CreateWorkspaceInput!) { createWorkspace(input: $input) { id } }",
    "joinWorkspace": "mutation ($id: ID!) { joinWorkspace(workspaceId: $id) { id memberCount } }",
    "leaveWorkspace": "mutation ($id: ID!) { leaveWorkspace(workspaceId: $id) }",
    "setNickname": """mutation ($id: ID!, $nickname: String) {
        setNickname(workspaceId: $id, nickname: $nickname) { nickname } }""",
    "createRole": "mutation ($id: ID!, $input: RoleInput!) { createRole(workspaceId: $id, input: $input) { id } }",
    "setMemberRoles": """mutation ($id: ID!, $user: ID!, $roles: [ID!]!) {
        setMemberRoles(workspaceId: $id, userId: $user, roleIds: $roles) { roles { id } } }""",
    "setPermissionOverwrite": """mutation ($channel: ID!, $role: ID, $user: ID, $allow: [Permission!]! = [],
            $deny: [Permission!]! = []) {
        setPermissionOverwrite(channelId: $channel, roleId: $role, userId: $user, allow: $allow, deny: $deny) {
            roleId userId } }""",
    "createChannel": "mutation ($input: CreateChannelInput!) { createChannel(input: $input) { id } }",
    "updateChannel": f"""mutation ($id: ID!, $input: UpdateChannelInput!) {{
        updateChannel(channelId: $id, input: $input) {CHANNEL} }}""",
    "archiveChannel": f"""mutation ($id: ID!, $archived: Boolean!) {{
        archiveChannel(channelId: $id, archived: $archived) {CHANNEL} }}""",
    "addToChannel": "mutation ($id: ID!, $users: [ID!]!) { addToChannel(channelId: $id, userIds: $users) { id } }",
    "removeFromChannel": """mutation ($id: ID!, $user: ID!) {
        removeFromChannel(channelId: $id, userId: $user) { id } }""",
    "followChannel": f"""mutation ($id: ID!, $follow: Boolean!) {{
        followChannel(channelId: $id, follow: $follow) {CHANNEL} }}""",
    "markChannelsRead": "mutation ($id: ID!) { markChannelsRead(workspaceId: $id) { unread mentions } }",
    "channel": f"query ($id: ID!) {{ channel(id: $id) {CHANNEL} }}",
    "workspace": f"""query ($id: ID!) {{ workspace(id: $id) {{
        id name memberCount rev viewer {{ roles {{ id }} }} channels(first: 100) {{ {_PAGE} }} }} }}""",
    "followedChannels": f"query ($id: ID!) {{ followedChannels(workspaceId: $id) {{ {_PAGE} }} }}",
    "syncChannels": f"""query ($since: Cursor, $first: Int = 100) {{ syncChannels(since: $since, first: $first) {{
        channels {CHANNEL} gone cursor hasMore reset attention {{ unread mentions }} }} }}""",
    "attention": "{ attention { unread mentions threads } }",
}

LIVE_CHANNELS = f"""subscription ($channels: [Position!]!) {{ channelEvents(channels: $channels) {{ __typename
    ... on ChannelMessage {{ conversationId change rev message {_MESSAGE} }}
    ... on ChannelReactions {{ conversationId messageId rev reactions {{ emoji count }} }}
    ... on ChannelPins {{ conversationId pinCount rev }}
    ... on ChannelThread {{ conversationId parentId rev }}
    ... on TypingStarted {{ conversationId user {{ id }} }}
    ... on AccessEnded {{ conversationId }}
    ... on ChannelCaughtUp {{ conversationId rev reset }} }} }}"""
LIVE_WORKSPACES = f"""subscription ($workspaces: [Position!]!) {{ workspaceEvents(workspaces: $workspaces) {{ __typename
    ... on WorkspaceChanged {{ workspace {{ id name }} rev }}
    ... on ChannelChanged {{ channel {{ {_SETTINGS} }} rev }}
    ... on ChannelGone {{ workspaceId channelId rev }}
    ... on OwnMembershipChanged {{ workspaceId member {{ nickname }} rev }}
    ... on ChannelActivity {{ channelId writeSeq messageCount rev }}
    ... on WorkspaceCaughtUp {{ workspaceId rev reset }} }} }}"""
