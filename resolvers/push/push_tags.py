"""The tag of a conversation: the key by which a push replaces an earlier one."""

from __future__ import annotations

import base64
import hashlib

from store.base.ids import ConversationId

_TAG_CHARACTERS = 32


def push_tag(conversation: ConversationId) -> str:
    """Return the tag of a conversation: 32 characters of base64url, always the same. It does not reveal the id."""
    digest = hashlib.sha256(conversation.encode()).digest()
    return base64.urlsafe_b64encode(digest)[:_TAG_CHARACTERS].decode()
