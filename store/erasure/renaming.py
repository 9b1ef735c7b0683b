"""Replaces the id of a user by a pseudonym, in every form in which other ids contain it."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import orjson

from store.base.ids import (
    ConversationId,
    UserId,
    encode_user,
    parse_private,
    parse_session_id,
    parse_thread,
    private_id,
    session_id,
    thread_id,
)

_SEPARATORS = re.compile(r"([ \t])")
_SEARCH_TERMS = ("\x01s", "\x01m")
"""Beginnings of the terms of the index of messages that name a sender or a mentioned user."""


class Renaming:
    """The id of one user, and the pseudonym that takes its place."""

    def __init__(self, user: UserId, pseudonym: UserId) -> None:
        self.user = user
        self.pseudonym = pseudonym

    @property
    def pattern(self) -> str:
        """Regular expression that finds all `_id`s which contain the user, and some others: `rename_row_id` decides."""
        forms = "|".join(re.escape(form) for form in dict.fromkeys((self.user, encode_user(self.user))))
        return rf"(^|[ \t_])({forms})([ \t_~]|$)"

    def rename_conversation(self, conversation: str) -> str:
        """Return the id of a conversation after the erasure: a new one if it is private, or a thread there."""
        thread = parse_thread(conversation)
        if thread is not None:
            parent = self.rename_conversation(thread.parent)
            return conversation if parent == thread.parent else thread_id(ConversationId(parent), thread.seq)
        people = parse_private(conversation)
        if people is None or self.user not in people[:2]:
            return conversation
        first, second, sub_biz = people
        one, other = (self.pseudonym if user == self.user else user for user in (first, second))
        return private_id(one, other, sub_biz)

    def rename_id(self, text: str) -> str:
        """Return the id that takes the place of an id: of the user, a conversation or a session."""
        if text == self.user:
            return self.pseudonym
        session = parse_session_id(text)
        if session is not None:
            return session_id(UserId(self.rename_id(session[0])), ConversationId(self.rename_conversation(session[1])))
        return self.rename_conversation(text)

    def rename_term(self, term: str) -> str:
        """Return the term of the index of messages that takes the place of a term. A word is never an id."""
        is_named = term[:2] in _SEARCH_TERMS and term[2:] == self.user
        return term[:2] + self.pseudonym if is_named else term

    def rename_row_id(self, row: Any) -> Any:
        """Return the `_id` that takes the place of the `_id` of a row: its parts are ids."""
        if not isinstance(row, str):
            return row
        return "".join(map(self.rename_id, _SEPARATORS.split(row)))

    def rename_values(self, value: Any, fields: Collection[str], *, is_inside: bool = False) -> Any:
        """Return a value with replaced ids in some of its fields, at any depth. Other fields are unchanged.

        is_inside: The value is inside such a field.
        """
        match value:
            case dict():
                return {
                    self.rename_row_id(name) if is_inside else name: self.rename_values(
                        inner, fields, is_inside=is_inside or name in fields
                    )
                    for name, inner in value.items()
                }
            case list():
                return [self.rename_values(inner, fields, is_inside=is_inside) for inner in value]
            case str() if is_inside:
                return self.rename_row_id(value)
            case _:
                return value

    def stored_forms(self) -> tuple[bytes, ...]:
        """Return the forms in which values in Redis may contain the id: plain, encoded, and in JSON text.

        JSON text inside JSON text is escaped twice. Lua's JSON escapes slashes.
        """
        forms = {self.user, encode_user(self.user)}
        for _ in range(2):
            escaped = {orjson.dumps(form).decode()[1:-1] for form in forms}
            forms |= escaped | {form.replace("/", "\\/") for form in escaped}
        return tuple(sorted(form.encode() for form in forms))


_INSIDE_IDS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.@%-")
"""Bytes that an encoded id consists of. Next to them, a short form is a part of a longer id."""

_DISTINCT_BYTES = 8
"""Forms of this length or more are looked for anywhere: they hardly occur in other values by chance."""


def contains_form(data: bytes, forms: Collection[bytes], *, only_words: bool = False) -> bool:
    """Return whether data contains one of some forms of an id; a short form only if it is no part of a longer word.

    only_words: Long forms too.
    """
    return any(
        form in data and ((len(form) >= _DISTINCT_BYTES and not only_words) or _is_word_in(data, form))
        for form in forms
    )


def _is_word_in(data: bytes, form: bytes) -> bool:
    at = data.find(form)
    while at >= 0:
        end = at + len(form)
        before, after = data[at - 1 : at], data[end : end + 1]
        if not any(byte in _INSIDE_IDS for byte in before + after):
            return True
        at = data.find(form, at + 1)
    return False
