"""Checks of texts that clients send. All raise InvalidInput, which names the invalid field."""

from __future__ import annotations

from resolvers.base.errors import InvalidInput
from store.base.ids import is_sub_biz

LONGEST_CATEGORY = 128
LONGEST_CONTENT = 4_000
LONGEST_KEY = 128
LONGEST_NAME = 100
LONGEST_URL = 2_048


def check_content(content: str, *, may_be_empty: bool = False) -> None:
    """Raise InvalidInput for a message that is empty, blank or too long, or has a NUL or a lone surrogate.

    may_be_empty: The message has attachments. It may be empty then, and not blank.
    """
    if may_be_empty and not content:
        return
    if not 1 <= len(content) <= LONGEST_CONTENT:
        raise InvalidInput(f"content must have 1 to {LONGEST_CONTENT} characters", field="content")
    if not content.strip():
        raise InvalidInput("content must not be only white space", field="content")
    if "\0" in content:
        raise InvalidInput("content must not contain a NUL character", field="content")
    check_encodable(content, "content")


def check_encodable(text: str, field: str) -> None:
    """Raise InvalidInput for a lone surrogate, which JSON can contain but UTF-8 can't encode."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(f"{field} must not contain a lone surrogate", field=field) from error


def check_sub_biz(name: str | None) -> None:
    """Raise InvalidInput for a text that can't be the name of a subBiz."""
    if name is not None and not is_sub_biz(name):
        raise InvalidInput("subBiz must have 1 to 32 characters of a-z, 0-9 and -", field="subBiz")


def check_category(category: str | None) -> None:
    """Raise InvalidInput for a category that is empty, blank or too long, or has control characters."""
    if category is None:
        return
    if not 1 <= len(category) <= LONGEST_CATEGORY or not category.strip() or has_control_characters(category):
        raise InvalidInput(
            f"categoryId must have 1 to {LONGEST_CATEGORY} characters, not only white space, no control characters",
            field="categoryId",
        )
    check_encodable(category, "categoryId")


def check_key(key: str | None) -> None:
    """Raise InvalidInput for an idempotency key that is empty or too long."""
    if key is None:
        return
    if not 1 <= len(key) <= LONGEST_KEY:
        raise InvalidInput(f"idempotencyKey must have 1 to {LONGEST_KEY} characters", field="idempotencyKey")
    check_encodable(key, "idempotencyKey")


def check_avatar_url(url: str | None, field: str = "avatarUrl") -> None:
    """Raise InvalidInput for a text that can't be the address of a picture."""
    if url is None:
        return
    if len(url) > LONGEST_URL or not url.startswith(("https://", "http://")) or not url.isprintable():
        raise InvalidInput(f"{field} must be an http(s) URL of at most {LONGEST_URL} characters", field=field)


def check_name(name: str, field: str, longest: int = LONGEST_NAME) -> None:
    """Raise InvalidInput for a name that is empty, blank or too long, or has control characters."""
    if not 1 <= len(name) <= longest or not name.strip() or has_control_characters(name):
        raise InvalidInput(
            f"{field} must have 1 to {longest} characters, not only white space, no control characters",
            field=field,
        )
    check_encodable(name, field)


def has_control_characters(text: str) -> bool:
    """Return whether a text has control characters of ASCII or Latin-1."""
    return any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text)
