"""Positions of ids in rows, by the inventory. A word at another position may look like the id of a user, and stays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from store.base.ids import ConversationId
from store.erasure.inventory import COLLECTIONS
from store.erasure.renaming import Renaming
from store.mongo.collections import ORIGINS

_SEPARATORS = re.compile(r"([ \t])")
_USER, _CONVERSATION = "u", "c"


def rename_row(collection: str, row: Any, renaming: Renaming) -> Any:
    """Return the `_id` that takes the place of the `_id` of a row of a collection."""
    if not isinstance(row, str):
        return row
    parts = _SEPARATORS.split(row)
    layout = _layout_of(collection, parts[::2])
    if layout is None:
        return renaming.rename_row_id(row)
    for place, kind in enumerate(layout[: len(parts[::2])]):
        part = parts[2 * place]
        if kind == _USER and part == renaming.user:
            parts[2 * place] = renaming.pseudonym
        elif kind == _CONVERSATION:
            parts[2 * place] = renaming.rename_conversation(part)
    return "".join(parts)


def is_own_row(collection: str, row: Any, renaming: Renaming) -> bool:
    """Return whether a row of a collection is the user's own: the first part of its `_id` is the user."""
    if not isinstance(row, str):
        return False
    parts = _SEPARATORS.split(row)
    layout = _layout_of(collection, parts[::2])
    return (layout is None or layout.startswith(_USER)) and parts[0] == renaming.user


def rename_conversations(collection: str, row: Mapping[str, Any], renaming: Renaming) -> dict[str, Any]:
    """Return the fields of a row that name conversations, with the ids that these have afterwards."""
    return {name: _rename_places(row[name], renaming) for name in COLLECTIONS[collection].conversations if name in row}


def _rename_places(value: Any, renaming: Renaming) -> Any:
    if isinstance(value, list):
        return [_rename_places(each, renaming) for each in value]
    if not isinstance(value, str):
        return value
    return "".join(renaming.rename_conversation(ConversationId(part)) for part in _SEPARATORS.split(value))


def _layout_of(collection: str, parts: list[str]) -> str | None:
    if collection == ORIGINS:
        return "u-" if len(parts) > 1 else "-"
    rule = COLLECTIONS[collection]
    return rule.layouts.get(parts[0]) if rule.layouts else rule.layout
