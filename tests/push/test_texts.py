"""Texts of notifications: names, languages, sizes, and characters that must not reach a screen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolvers.push.push_tags import push_tag
from resolvers.push.worker.content import Heading, NotificationTexts
from resolvers.push.worker.keywords import find_keyword
from resolvers.push.worker.phrases import phrases_for
from resolvers.push.worker.plain_text import BODY_BYTES, TITLE_BYTES, cut, plain, with_author
from store.base.ids import ConversationId
from store.files.file import Attachment, FileId
from tests.push.test_decision import message

MOST_PAYLOAD_BYTES = 3_993


def compose(text: str | None, place: str | None = "Climbers", author: str = "Alice", **more: Any) -> tuple[str, str]:
    texts = NotificationTexts(None, shows_names=more.pop("shows_names", True))  # type: ignore[arg-type]
    shown, locale = more.pop("shows_text", True), more.pop("locale", None)
    composed = texts.compose(message(text=text, **more), Heading(author, place), locale, shows_text=shown)
    return composed.title, composed.body


FILE = Attachment(FileId(1), "map.pdf", None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("composed", "expected"),
    [
        (compose("hello"), ("Climbers", "Alice: hello")),
        (compose("hello", place=None), ("Alice", "hello")),
        (compose("two\nlines\tand  more"), ("Climbers", "Alice: two lines and more")),
        (compose("", attachments=(FILE,)), ("Climbers", "Alice: Sent a file")),
        (compose("", attachments=(FILE, FILE), locale="de"), ("Climbers", "Alice: Hat Dateien gesendet")),
        (compose(""), ("Climbers", "Alice: New message")),
        (compose("secret", shows_text=False), ("Climbers", "Alice: New message")),
        (compose("secret", shows_text=False, attachments=(FILE,)), ("Climbers", "Alice: New message")),
        (compose("secret", shows_names=False, locale="fr-CA"), ("Nouveau message", "")),
        (compose("hello", author="evil\u202ename\u0000"), ("Climbers", "evilname : hello".replace(" :", ":"))),
    ],
)
def test_a_notification_has_its_text(composed: tuple[str, str], expected: tuple[str, str]) -> None:
    assert composed == expected


def test_a_name_written_from_right_to_left_does_not_move_the_text() -> None:
    assert with_author("\u05d3\u05e0\u05d9", "3 - 2") == "\u2068\u05d3\u05e0\u05d9\u2069: \u20683 - 2\u2069"


@pytest.mark.parametrize(
    ("locale", "language"),
    [
        (None, "en"), ("en-GB", "en"), ("de", "de"), ("pt-BR", "pt"), ("pt_PT", "pt"), ("zh-CN", "zh"),
        ("zh-TW", "zh-hant"), ("zh-Hant-HK", "zh-hant"), ("tlh", "en"),
    ],
)  # fmt: skip
def test_a_locale_has_its_language(locale: str | None, language: str) -> None:
    assert phrases_for(locale) == phrases_for(language)


@given(st.text(max_size=600), st.integers(40, 400))
def test_a_cut_text_fits_and_begins_like_the_text(text: str, most: int) -> None:
    encodable = text.encode(errors="replace").decode()
    shown = cut(encodable, most)
    assert len(json.dumps(shown)) - 2 <= most
    assert shown == encodable or encodable.startswith(shown[:-1])
    shown.encode()


@pytest.mark.parametrize(
    "character",
    [
        "x",
        '"',
        "\\",
        "\u00fc",
        "\u4e2d",
        "\U0001f600",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "a" + "\u0301" * 3000,
    ],
)
def test_the_largest_notification_fits_the_payload_of_every_service(character: str) -> None:
    text = plain(character * 4_000)
    title, body = compose(text, place=text, author=text)
    conversation = "p_" + "%20" * 80 + "_" + "%20" * 80
    payload = {
        "aps": {"alert": {"title": title, "body": body}, "badge": 10**9, "sound": "default", "mutable-content": 1},
        "title": title, "body": "", "conversationId": conversation, "badge": 10**9, "tag": "x" * 32,
    }  # fmt: skip
    assert len(json.dumps(payload)) < MOST_PAYLOAD_BYTES
    assert len(json.dumps(title)) <= TITLE_BYTES + 2 and len(json.dumps(body)) <= BODY_BYTES + 2


def test_a_cut_does_not_split_characters_as_readers_see_them() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    shown = cut(family * 100, 500)
    assert shown.rstrip("\u2026").replace(family, "") == ""


@given(st.text())
def test_a_plain_text_has_no_control_characters_and_no_direction_marks(text: str) -> None:
    shown = plain(text)
    assert all(character.isprintable() or character in "\u200c\u200d" for character in shown)
    assert plain(shown) == shown


@pytest.mark.parametrize(
    ("text", "keyword", "is_found"),
    [
        ("free beer today", "beer", True),
        ("beer", "beer", True),
        ("BEER!", "Beer", True),
        ("beers", "beer", False),
        ("rootbeer", "beer", False),
        ("root-beer", "beer", True),
        ("Zu\u0308rich", "zürich", True),
        ("c++ and c#", "c#", True),
        ("release 2.0.1", "2.0", True),
        ("two  words here", "two words", False),
        ("two words here", "Two  Words", True),
        ("我住在東京都", "東京", True),
        ("ใช้ภาษาไทยได้", "ไทย", True),
        ("beer", "", False),
        ("beer", "   ", False),
    ],
)
def test_a_keyword_is_found_as_a_whole_word(text: str, keyword: str, is_found: bool) -> None:
    assert (find_keyword(text, [keyword]) is not None) is is_found


def test_a_tag_is_stable_and_of_base64url() -> None:
    tag = push_tag(ConversationId("g_7"))
    assert tag == push_tag(ConversationId("g_7")) != push_tag(ConversationId("g_8"))
    assert len(tag) == 32 and tag.replace("-", "").replace("_", "").isalnum()
