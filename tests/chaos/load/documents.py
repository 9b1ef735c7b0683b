"""The GraphQL documents that the load sends."""

from __future__ import annotations

from tests.chaos.load.feature_documents import FEATURE_DOCUMENTS
from tests.chaos.load.workspace_documents import WORKSPACE_DOCUMENTS

SESSION = """{
    id writeSeq readSeq deliveredSeq unreadCount unreadMentionCount unreadStatus muteStatus mutedUntil priority
    categoryId subBiz status activeTs writeTs peerDeliveredSeq peerReadSeq conversation { id }
    lastMessage { id seq content state editCount } }"""
_TEXT = "id seq content state editCount"
_COUNTED = "contentType mentionsAll sender { id } mentions { id }"
_MESSAGE = f"{_TEXT} {_COUNTED} conversationId createdAt idempotencyKey replyTo {{ id seq }}"


def _change(name: str, parameters: str, arguments: str) -> str:
    return f"mutation ($id: ID!{parameters}) {{ {name}(conversationId: $id{arguments}) {SESSION} }}"


DOCUMENTS = WORKSPACE_DOCUMENTS | {
    "sendMessage": f"""mutation ($input: SendMessageInput!) {{ sendMessage(input: $input) {{
        replayed message {{ id conversationId seq content }} session {SESSION} }} }}""",
    "markRead": _change("markRead", ", $seq: Int", ", upToSeq: $seq"),
    "ackDelivered": _change("ackDelivered", ", $seq: Int!", ", upToSeq: $seq"),
    "deleteSession": _change("deleteSession", ", $hard: Boolean", ", hard: $hard"),
    "muteSession": _change("muteSession", ", $muted: Boolean!, $until: DateTime", ", muted: $muted, until: $until"),
    "pinSession": _change("pinSession", ", $priority: Int", ", priority: $priority"),
    "setUnread": _change("setUnread", "", ""),
    "assignCategory": f"""mutation ($ids: [ID!]!, $category: ID) {{
        assignCategory(conversationIds: $ids, categoryId: $category) {SESSION} }}""",
    "editMessage": "mutation ($id: ID!, $text: String!) { editMessage(messageId: $id, content: $text) { editCount } }",
    "recallMessage": "mutation ($id: ID!) { recallMessage(messageId: $id) { state } }",
    "createGroup": "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id } }",
    "inviteMembers": "mutation ($id: ID!, $users: [ID!]!) { inviteMembers(groupId: $id, userIds: $users) { id } }",
    "removeMember": "mutation ($id: ID!, $user: ID!) { removeMember(groupId: $id, userId: $user) { id } }",
    "leaveGroup": "mutation ($id: ID!) { leaveGroup(groupId: $id) }",
    "deleteConversation": "mutation ($id: ID!) { deleteConversation(conversationId: $id) }",
    "startTyping": "mutation ($id: ID!) { startTyping(conversationId: $id) }",
    "renewAuth": "mutation ($token: String!) { renewAuth(token: $token) }",
    "upsertUsers": "mutation ($input: [UserInput!]!) { upsertUsers(input: $input) { id } }",
    "session": f"query ($id: ID!) {{ session(conversationId: $id) {SESSION} }}",
    "sessions": f"""query ($first: Int, $after: String, $subBiz: String, $category: ID) {{
        sessions(first: $first, after: $after, subBiz: $subBiz, categoryId: $category) {{
        pageInfo {{ hasNextPage endCursor }} edges {{ node {SESSION} }} }} }}""",
    "sessionCategories": "{ sessionCategories { categoryId sessionCount unreadCount writeTs lastMessage { id } } }",
    "totalUnread": "{ totalUnread }",
    "syncSessions": f"""query ($since: Cursor, $first: Int = 100) {{ syncSessions(since: $since, first: $first) {{
        cursor hasMore totalUnread reset sessions {SESSION} }} }}""",
    "messages": f"""query ($id: ID!, $last: Int, $first: Int, $after: String) {{
        messages(conversationId: $id, last: $last, first: $first, after: $after) {{
        pageInfo {{ hasPreviousPage hasNextPage endCursor }} edges {{ node {{ {_TEXT} {_COUNTED} }} }} }} }}""",
    "delivery": """query ($id: ID!) { message(id: $id) {
        id delivery { status recipientCount deliveredCount readCount } } }""",
    "me": "{ me { id } }",
    **FEATURE_DOCUMENTS,
}
LIVE_SESSIONS = f"""subscription ($since: Cursor) {{ syncSession(since: $since) {{
    reason hasMore totalUnread cursor reset sessions {SESSION} }} }}"""


def live_messages(*, delivery: bool) -> str:
    """Return the messageEvents subscription. The two selections make a server render each event twice."""
    message = f"{{ {_MESSAGE} {'delivery { status }' if delivery else ''} }}"
    return f"""subscription ($since: Cursor, $id: ID) {{ messageEvents(since: $since, conversationId: $id) {{ __typename
        ... on MessageCreated {{ cursor message {message} }}
        ... on MessageUpdated {{ cursor message {message} }}
        ... on MessageRecalled {{ cursor message {message} }}
        ... on Mentioned {{ cursor message {message} }}
        ... on ReceiptAdvanced {{ cursor conversationId status seq user {{ id }} }}
        ... on ReactionsChanged {{ cursor conversationId messageId reactions {{ emoji count }} }}
        ... on PinsChanged {{ cursor conversationId pinCount }}
        ... on ThreadChanged {{ cursor parentId thread {{ id replyCount }} }}
        ... on TypingStarted {{ conversationId at user {{ id }} }}
        ... on CaughtUp {{ cursor reset }} }} }}"""
