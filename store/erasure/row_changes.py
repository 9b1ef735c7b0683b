"""Decides how one row changes when its user is erased."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from store.base.ids import ConversationId, parse_private
from store.conversations.conversation_fields import NO_END, ConversationField, MemberField
from store.erasure.inventory import CollectionRule, Treatment
from store.erasure.renaming import Renaming, contains_form
from store.erasure.row_ids import is_own_row, rename_conversations, rename_row
from store.files.file import FileField
from store.jobs.job import JobKind
from store.jobs.job_store import JobField
from store.messages.message import MessageKind
from store.messages.message_fields import MessageField
from store.messages.system_events import SystemEventKind
from store.mongo.client import Document
from store.mongo.collections import CONVERSATIONS, FILES, JOBS, MESSAGES, SEARCH
from store.search.index_rows import IndexField, with_other_terms

_M = MessageField

SYSTEM_TEXTS = {
    SystemEventKind.MEMBERS_JOINED: "Members joined",
    SystemEventKind.MEMBER_LEFT: "A member left",
    SystemEventKind.MEMBER_REMOVED: "A member was removed",
    SystemEventKind.OWNER_CHANGED: "The owner changed",
    SystemEventKind.RENAMED: "The group was renamed",
    SystemEventKind.TOPIC_CHANGED: "The topic changed",
    SystemEventKind.MESSAGE_PINNED: "A message was pinned",
    SystemEventKind.CHANNEL_ARCHIVED: "The channel was archived",
    SystemEventKind.CHANNEL_UNARCHIVED: "The channel is no longer archived",
}
"""Texts of SYSTEM messages about an erased user, without the name that they contained. Most clients show
texts of their own."""

_KEY_FIELDS = (_M.KEY, _M.KEY_RELEASED, _M.DIGEST)
_CONTENT_FIELDS = (_M.TEXT, _M.METADATA, _M.EMBEDS, _M.ATTACHMENTS, _M.REACTIONS, _M.MENTIONS)


@dataclass(frozen=True, slots=True)
class RowRewrite:
    """Change of a row.

    Attributes:
        new: The row afterwards; None: it is removed.
        set: Fields that get other values. Only for rows that keep their `_id` and shard key.
        unset: Fields that are removed.
    """

    new: Document | None
    set: Document = field(default_factory=dict)
    unset: tuple[str, ...] = ()


def change_of(collection: str, rule: CollectionRule, row: Document, renaming: Renaming) -> RowRewrite | None:
    """Return the change of a row; None: it does not contain the id."""
    if rule.treatment is Treatment.REMOVED:
        return RowRewrite(None) if _names_user(collection, rule, row, renaming) else None
    if is_own_row(collection, row["_id"], renaming):
        return RowRewrite(None)
    if rule.removes_named_rows and rename_row(collection, row["_id"], renaming) != row["_id"]:
        return RowRewrite(None)
    if collection == SEARCH:
        return _change_of_index(row, renaming)
    new = {name: value for name, value in renaming.rename_values(row, rule.fields).items() if name != "_id"}
    new = {"_id": rename_row(collection, row["_id"], renaming)} | new | rename_conversations(collection, row, renaming)
    if collection == JOBS:
        return _change_of_job(row, new, renaming)
    if collection == MESSAGES:
        new = _message(row, new, renaming)
    elif collection == CONVERSATIONS and new["_id"] != row["_id"]:
        new = _private_conversation(row, new)
    elif collection == FILES and row.get(FileField.OWNER) == renaming.user:
        for name in (FileField.KEY, FileField.DIGEST, FileField.DESCRIPTION):
            new.pop(name, None)
        new[FileField.FILENAME] = "file"
    return _rewrite_of(row, new)


def _rewrite_of(row: Document, new: Document) -> RowRewrite | None:
    if new == row:
        return None
    return RowRewrite(
        new,
        {name: value for name, value in new.items() if row.get(name, ...) != value and name != "_id"},
        tuple(name for name in row if name not in new),
    )


def _change_of_job(row: Document, new: Document, renaming: Renaming) -> RowRewrite | None:
    """Return the change of a job. An export of the user is removed, and so is an erasure that has failed.

    A recall of messages goes on under the pseudonym. A server that works on it loses it, and stops.
    """
    kind = row[JobField.KIND]
    if kind == JobKind.ERASURE.value:
        # The progress of another one may name the user for a moment, as a position in the order of rows.
        is_own = renaming.user in row[JobField.INPUT].values()
        return RowRewrite(None) if is_own else None
    if new == row:
        return None
    if kind == JobKind.EXPORT.value:
        return RowRewrite(None)
    if new.pop(JobField.LEASE, None) is not None:
        new[JobField.DUE] = 0
    return _rewrite_of(row, new)


def _names_user(collection: str, rule: CollectionRule, row: Document, renaming: Renaming) -> bool:
    if rename_row(collection, row["_id"], renaming) != row["_id"]:
        return True
    named = {name: row[name] for name in rule.fields if name in row}
    forms = renaming.stored_forms()
    if any(isinstance(value, bytes) and contains_form(value, forms) for value in named.values()):
        return True
    return bool(renaming.rename_values(named, rule.fields) != named)


def _message(row: Document, new: Document, renaming: Renaming) -> Document:
    is_own = row[_M.SENDER] == renaming.user
    if row[_M.KIND] == MessageKind.SYSTEM.value and (is_own or renaming.user in row.get(_M.MENTIONS, ())):
        event = row.get(_M.SYSTEM_EVENT)
        text = SYSTEM_TEXTS.get(SystemEventKind(event[0])) if event and event[0] in _EVENTS else None
        if text is not None and _M.TEXT in new:
            new[_M.TEXT] = text
    if is_own:
        for name in _KEY_FIELDS:
            new.pop(name, None)
        new.pop(_M.ATTACHMENTS, None)
        if _M.RECALLED_AT in row:
            new = without_content(new)
    if _M.RECALLED_AT in row and _M.REACTIONS in row:
        # The reactions to a recalled message are not shown any more.
        new.pop(_M.REACTIONS, None)
    return new


_EVENTS = frozenset(kind.value for kind in SystemEventKind)


def is_open_membership(row: Document) -> bool:
    """Return whether the user of a row of `members` is a member, or a follower of a thread, now."""
    intervals: list[list[int]] = row.get(MemberField.INTERVALS) or []
    return bool(intervals) and intervals[-1][1] == NO_END


def without_content(row: Document) -> Document:
    """Return the row of a recalled message without its content."""
    return {name: value for name, value in row.items() if name not in _CONTENT_FIELDS}


def _private_conversation(row: Document, new: Document) -> Document:
    """Return the row of a private conversation whose people may have another order by their ids."""
    before, after = parse_private(row["_id"]), parse_private(new["_id"])
    if before is None or after is None or (before[0] == after[0]) or (before[1] == after[1]):
        return new
    for pair in (
        ConversationField.READ,
        ConversationField.DELIVERED,
        ConversationField.WROTE_SEQ,
        ConversationField.WROTE_N,
    ):
        values = [row.get(name) for name in pair]
        for name, value in zip(pair, reversed(values), strict=True):
            new.pop(name, None)
            if value is not None:
                new[name] = value
    return new


def _change_of_index(row: Document, renaming: Renaming) -> RowRewrite | None:
    """Return the change of a row of the index. The hashes of its terms follow the terms."""
    terms = {term: renaming.rename_term(term) for term in row[IndexField.TERMS]}
    conversation = renaming.rename_conversation(row[IndexField.CONVERSATION])
    if conversation == row[IndexField.CONVERSATION] and all(old == new for old, new in terms.items()):
        return None
    return RowRewrite(with_other_terms(row, terms, ConversationId(conversation)))


def contains_id(value: Any, renaming: Renaming) -> bool:
    """Return whether a value contains the id anywhere, as BSON or JSON text would show it. Texts count too."""
    forms = renaming.stored_forms()
    match value:
        case dict():
            return any(contains_id(part, renaming) for pair in value.items() for part in pair)
        case list() | tuple():
            return any(contains_id(part, renaming) for part in value)
        case str():
            return contains_form(value.encode("utf-8", "surrogatepass"), forms)
        case bytes():
            return contains_form(value, forms)
        case _:
            return False
