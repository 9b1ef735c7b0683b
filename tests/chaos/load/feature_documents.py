"""The GraphQL documents about reactions, threads, pins and files that the load sends."""

from __future__ import annotations

_MARKS = "id state isPinned reactions { emoji count viewerReacted }"

FEATURE_DOCUMENTS = {
    "addReaction": "mutation ($id: ID!, $emoji: String!) { addReaction(messageId: $id, emoji: $emoji) { id } }",
    "removeReaction": "mutation ($id: ID!, $emoji: String!) { removeReaction(messageId: $id, emoji: $emoji) { id } }",
    "followThread": """mutation ($id: ID!, $follow: Boolean!) {
        followThread(threadId: $id, follow: $follow) { id viewerFollows } }""",
    "pinMessage": "mutation ($id: ID!) { pinMessage(messageId: $id) { id isPinned } }",
    "unpinMessage": "mutation ($id: ID!) { unpinMessage(messageId: $id) { id isPinned } }",
    "createUpload": """mutation ($input: CreateUploadInput!) { createUpload(input: $input) {
        id url method headers { name value } } }""",
    "completeUpload": "mutation ($id: ID!) { completeUpload(uploadId: $id) { id state } }",
    "marks": f"query ($id: ID!) {{ message(id: $id) {{ {_MARKS} }} }}",
    "replies": """query ($id: ID!, $first: Int, $after: String) {
        messages(conversationId: $id, first: $first, after: $after) {
        pageInfo { hasNextPage endCursor } edges { node { id seq content state editCount } } } }""",
    "pinnedMessages": """query ($id: ID!) { pinnedMessages(conversationId: $id, first: 50) {
        edges { node { id } } } }""",
    "attachments": """query ($id: ID!) { message(id: $id) {
        id state attachments { id filename sizeBytes state url } } }""",
}
