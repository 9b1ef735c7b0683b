"""Updates of the embeds in a message's document. Those that depend on the embeds of that moment are pipelines."""

from __future__ import annotations

from typing import Any, NamedTuple

from store.content_rules.content_flag import ContentFlag
from store.messages.message_fields import MessageField
from store.mongo.index_fields import LINKS_DUE
from store.previews.embed import Embed
from store.previews.message_embeds import EmbedsField

EMBEDS_VERSION = f"{MessageField.EMBEDS}.{EmbedsField.VERSION}"
_ITEMS = f"{MessageField.EMBEDS}.{EmbedsField.ITEMS}"
_SUPPRESSED = f"{MessageField.EMBEDS}.{EmbedsField.SUPPRESSED}"

_IS_PREVIEW = {"$arrayElemAt": ["$$embed", Embed._fields.index("is_preview")]}
_LINK = {"$arrayElemAt": ["$$embed", Embed._fields.index("url")]}


class NewText(NamedTuple):
    """The text of an edit.

    Attributes:
        text: The text.
        links: The links in it. Previews of other links are removed.
        links_due_ms: Set if links may have to be fetched: see `EmbedsField.LINKS_DUE`.
        flag: Set if a report has to be made about the new text.
    """

    text: str
    links: tuple[str, ...] = ()
    links_due_ms: int | None = None
    flag: ContentFlag | None = None


def edit_stages(fields: dict[str, Any], new: NewText) -> list[dict[str, Any]]:
    """Return the update of a message whose text is replaced. fields: the other fields that change, as expressions."""
    kept = {"$or": [{"$not": [_IS_PREVIEW]}, {"$in": [_LINK, {"$literal": list(new.links)}]}]}
    changed: dict[str, Any] = {EmbedsField.ITEMS: _filter_items(kept)}
    if new.links_due_ms is not None:
        changed[EmbedsField.LINKS_DUE] = {"$cond": [f"${_SUPPRESSED}", "$$REMOVE", new.links_due_ms]}
        return [_merge_embeds(changed, fields)]
    has_embeds = {"$ne": [{"$type": f"${MessageField.EMBEDS}"}, "missing"]}
    return [_merge_embeds(changed, fields, condition=has_embeds), {"$unset": LINKS_DUE}]


def suppression_stages() -> list[dict[str, Any]]:
    """Return the update of a message whose previews are removed for good. Without any, its version stays."""
    previews = {"$size": _filter_items(_IS_PREVIEW)}
    raised = {"$add": [{"$ifNull": [f"${EMBEDS_VERSION}", 0]}, 1]}
    version = {"$cond": [{"$gt": [previews, 0]}, raised, {"$ifNull": [f"${EMBEDS_VERSION}", "$$REMOVE"]}]}
    changed = {
        EmbedsField.ITEMS: _filter_items({"$not": [_IS_PREVIEW]}),
        EmbedsField.VERSION: version,
        EmbedsField.SUPPRESSED: True,
    }
    return [_merge_embeds(changed, {}), {"$unset": LINKS_DUE}]


def previews_update(items: list[Any]) -> dict[str, Any]:
    """Return the update of a message whose links were fetched. items: the stored form of all its embeds."""
    return {"$set": {_ITEMS: items}, "$inc": {EMBEDS_VERSION: 1}, "$unset": {LINKS_DUE: ""}}


def has_text_of(edits: int) -> dict[str, Any]:
    """Return the condition that a message has the same text as after a number of edits."""
    return {MessageField.EDITS: edits or {"$exists": False}}


HAS_PENDING_LINKS = {LINKS_DUE: {"$exists": True}}
NOT_SUPPRESSED = {_SUPPRESSED: {"$exists": False}}


def _filter_items(condition: dict[str, Any]) -> dict[str, Any]:
    items = {"$ifNull": [f"${_ITEMS}", []]}
    return {"$filter": {"input": items, "as": "embed", "cond": condition}}


def _merge_embeds(
    changed: dict[str, Any], fields: dict[str, Any], condition: dict[str, Any] | None = None
) -> dict[str, Any]:
    merged: dict[str, Any] = {"$mergeObjects": [f"${MessageField.EMBEDS}", changed]}
    if condition is not None:
        merged = {"$cond": [condition, merged, "$$REMOVE"]}
    return {"$set": fields | {MessageField.EMBEDS: merged}}
