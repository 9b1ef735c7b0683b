"""Rows of `users`: {_id: user, n: name, av: avatar URL, bot: whether it is a bot, md: metadata, and search fields}.

The search fields are in `search_text`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo import UpdateOne

from store.base.ids import UserId
from store.mongo.client import Document
from store.users.search_text import search_fields
from store.users.user import User

PROFILE: Mapping[str, Any] = {"n": 1, "av": 1, "bot": 1, "md": 1}
"""Projection of the fields of a profile."""


def user_from_row(row: Document) -> User:
    """Return the profile of a row."""
    return User(UserId(row["_id"]), row.get("n"), row.get("av"), bool(row.get("bot")), row.get("md"))


def profile_update(user: User, *, has_directory: bool) -> UpdateOne:
    """Return the write that creates a user, or replaces their profile."""
    profile = {"n": user.name, "av": user.avatar_url, "bot": user.is_bot, "md": user.metadata}
    fields = profile | search_fields(user.name, user.id, has_directory=has_directory)
    return UpdateOne({"_id": user.id}, set_fields(fields), upsert=True)


def set_fields(fields: Mapping[str, Any]) -> Document:
    """Return the update that sets fields of a row. If they contain search fields without k, the stored k is removed."""
    update: Document = {"$set": dict(fields)}
    return update | {"$unset": {"k": ""}} if "s" in fields and "k" not in fields else update
