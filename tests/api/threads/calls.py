"""Calls about threads."""

from __future__ import annotations

from typing import Any

from tests.api.client import Api, Json

THREAD = """
    id type title replyCount participantCount participants(first: 50) { id } lastReplyAt followerCount isLocked
    parent { id } lastMessage { id content }
"""
FOLLOW = f"mutation ($id: ID!, $on: Boolean! = true) {{ followThread(threadId: $id, follow: $on) {{ {THREAD} }} }}"
LOCK = f"mutation ($id: ID!, $on: Boolean! = true) {{ lockThread(threadId: $id, locked: $on) {{ {THREAD} }} }}"
FIND = f"query ($id: ID!) {{ thread(id: $id) {{ {THREAD} viewerFollows }} }}"
LIST = f"""query ($id: ID!, $first: Int, $after: String) {{
    threads(conversationId: $id, first: $first, after: $after) {{
        edges {{ cursor node {{ {THREAD} }} }} pageInfo {{ hasNextPage hasPreviousPage endCursor }} }} }}"""


def thread_of(message: Json) -> str:
    """Return the id of the thread under a message, as a send has answered it."""
    return f"t_{message['seq']}_{message['conversationId']}"


async def find_thread(api: Api, user: str, thread: str) -> Json | None:
    found: Json | None = (await api.data(user, FIND, id=thread))["thread"]
    return found


async def list_threads(api: Api, user: str, conversation: str, **page: Any) -> list[str]:
    listed = (await api.data(user, LIST, id=conversation, **{"first": 50, **page}))["threads"]
    return [edge["node"]["id"] for edge in listed["edges"]]


async def contents(api: Api, user: str, conversation: str) -> list[str]:
    """Return the texts of all messages that a user may read, oldest first."""
    return [message["content"] for message in await api.history(user, conversation)]
