"""What texts may be, whoever sends them. All raise InvalidInput naming the field at fault."""

from __future__ import annotations

from resolvers.base.errors import InvalidInput
from store.base.ids import is_sub_biz

LONGEST_CATEGORY = 128
LONGEST_CONTENT = 4_000
LONGEST_KEY = 128
LONGEST_NAME = 100
LONGEST_URL = 2_048


def check_content(content: str) -> None:
    """Raises InvalidInput for what is no message: empty, blank, too long, with a NUL or half a character."""
    if not 1 <= len(content) <= LONGEST_CONTENT:
        raise InvalidInput(f"content must have 1 to {LONGEST_CONTENT} characters", field="content")
    if not content.strip():
        raise InvalidInput("content must not be only white space", field="content")
    if "\0" in content:
        raise InvalidInput("content must not hold a NUL character", field="content")
    check_encodable(content, "content")


def check_encodable(text: str, field: str) -> None:
    """Raises InvalidInput for lone surrogates, which JSON can spell and no encoding can keep."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(f"{field} holds half of a surrogate pair", field=field) from error


def check_sub_biz(name: str | None) -> None:
    """Raises InvalidInput for what is no name of a subBiz."""
    if name is not None and not is_sub_biz(name):
        raise InvalidInput("subBiz must have 1 to 32 of a-z, 0-9 and -", field="subBiz")


def check_category(category: str | None) -> None:
    """Raises InvalidInput for categories that are blank, too long or hold control characters."""
    if category is None:
        return
    if not 1 <= len(category) <= LONGEST_CATEGORY or not category.strip() or any(map(_is_control, category)):
        raise InvalidInput(f"categoryId must have 1 to {LONGEST_CATEGORY} characters", field="categoryId")
    check_encodable(category, "categoryId")


def check_key(key: str | None) -> None:
    """Raises InvalidInput for what is no idempotency key."""
    if key is None:
        return
    if not 1 <= len(key) <= LONGEST_KEY:
        raise InvalidInput(f"idempotencyKey must have 1 to {LONGEST_KEY} characters", field="idempotencyKey")
    check_encodable(key, "idempotencyKey")


def check_avatar_url(url: str | None) -> None:
    """Raises InvalidInput for what can't be shown as a picture's address."""
    if url is None:
        return
    if len(url) > LONGEST_URL or not url.startswith(("https://", "http://")) or not url.isprintable():
        raise InvalidInput(f"avatarUrl must be an http(s) URL of at most {LONGEST_URL} characters", field="avatarUrl")


def check_name(name: str, field: str) -> None:
    """Raises InvalidInput for names that are blank, too long or hold control characters."""
    if not 1 <= len(name) <= LONGEST_NAME or not name.strip() or any(map(_is_control, name)):
        raise InvalidInput(
            f"{field} must have 1 to {LONGEST_NAME} characters, not only white space, no control characters",
            field=field,
        )
    check_encodable(name, field)


def _is_control(character: str) -> bool:
    return ord(character) < 32 or 127 <= ord(character) < 160
