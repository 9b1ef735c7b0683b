"""Terms of messages for filters, and which messages are in the index."""

from __future__ import annotations

import pytest

from store.base.ids import ConversationId, FileId, MessageId, UserId
from store.base.workspace_ids import RoleId
from store.files.file import Attachment, FileContent
from store.messages.broadcasts import BroadcastOf
from store.messages.message import Message, MessageKind
from store.search.filter_terms import (
    ANY_ROLE_TERM,
    EVERYBODY_TERM,
    ContentKind,
    contains,
    content_term,
    filter_terms,
    is_filter_term,
    mention_term,
    message_terms,
    sender_term,
)
from store.search.search_index import SearchCriteria
from store.store import Store
from store.text.words import terms_of

ALICE, BOB = UserId("alice"), UserId("b\u00f6b $x")
GROUP = ConversationId("g_1")
TEXT = Message(MessageId(1), GROUP, ALICE, MessageKind.TEXT, "Hello there", seq=1)


def an_attachment(content_type: str) -> Attachment:
    return Attachment(FileId(1), "name", FileContent("blob", content_type, 1))


def with_files(*content_types: str) -> Message:
    return TEXT._replace(attachments=tuple(map(an_attachment, content_types)))


def test_a_message_has_the_terms_of_its_text_and_of_filters() -> None:
    message = TEXT._replace(mentions=(ALICE, BOB), mentioned_roles=(RoleId("e"),), mentions_all=True)
    expected = {sender_term(ALICE), mention_term(ALICE), mention_term(BOB), ANY_ROLE_TERM, EVERYBODY_TERM}
    assert filter_terms(message) == expected
    assert message_terms(message) == expected | {"hello", "there"}
    assert message_terms(TEXT) == {sender_term(ALICE), "hello", "there"}


def test_the_copy_of_a_reply_has_the_terms_of_what_the_reply_mentions() -> None:
    copy = TEXT._replace(broadcast_of=BroadcastOf(MessageId(1), 1, (BOB,), True, (RoleId("e"),)))
    assert filter_terms(copy) == {sender_term(ALICE), mention_term(BOB), ANY_ROLE_TERM, EVERYBODY_TERM}


def test_terms_of_filters_differ_from_each_other_and_from_words() -> None:
    names = ["e", "s", "m", "alice", "FILE", "LINK"]
    terms = [make(name) for name in names for make in (sender_term, mention_term)]
    terms += [EVERYBODY_TERM, ANY_ROLE_TERM, *map(content_term, ContentKind)]
    assert len(set(terms)) == len(terms)
    assert all(map(is_filter_term, terms))
    assert not any(is_filter_term(word) for word in terms_of(" ".join(terms)))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (TEXT, ""),
        (with_files("application/pdf"), "FILE"),
        (with_files("image/png"), "FILE IMAGE"),
        (with_files("image/svg+xml"), "FILE IMAGE"),
        (with_files("video/mp4"), "FILE VIDEO"),
        (with_files("audio/ogg", "video/mp4", "image/png"), "FILE IMAGE VIDEO"),
        (TEXT._replace(text="see https://a.example/"), "LINK"),
        (TEXT._replace(text="see <https://a.example/>"), "LINK"),
        (TEXT._replace(text="see `https://a.example/`"), ""),
        (TEXT._replace(text="see a.example"), ""),
        (with_files("image/png")._replace(text="http://a.example/"), "FILE IMAGE LINK"),
    ],
)
def test_terms_for_files_and_links_agree_with_the_filter(message: Message, expected: str) -> None:
    assert " ".join(kind for kind in ContentKind if contains(message, kind)) == expected
    assert {content_term(ContentKind(name)) for name in expected.split()} == filter_terms(message) - {
        sender_term(ALICE)
    }


@pytest.mark.parametrize(
    "message",
    [
        TEXT._replace(kind=MessageKind.SYSTEM, text="alice joined"),
        TEXT._replace(text=None, recalled_at_ms=1),
        TEXT._replace(text=" \n"),
        with_files("image/png")._replace(text=""),
    ],
)
def test_messages_that_no_word_finds_have_no_terms(message: Message) -> None:
    assert message_terms(message) == set()


async def test_messages_are_found_by_words_and_filters(store: Store) -> None:
    """A message of a bot is indexed as others are. Those without words are left out."""
    messages = [
        TEXT,
        TEXT._replace(id=MessageId(2), seq=2, sender=BOB, kind=MessageKind.BOT_COMMAND, text="/hello"),
        TEXT._replace(id=MessageId(3), seq=3, text="\u4e16\u754c hello", mentions_all=True),
        TEXT._replace(id=MessageId(4), seq=4, kind=MessageKind.SYSTEM, text="hello"),
        with_files("image/png")._replace(id=MessageId(5), seq=5, text=""),
    ]
    await store.search_index.index(messages, 0)

    async def find(*terms: str, any_of: tuple[str, ...] = (), beginning: str = "") -> list[int]:
        wanted = SearchCriteria([GROUP], terms, [any_of] if any_of else [], beginning, 0, None, 25)
        found, next_id = await store.search_index.propose(wanted, 10)
        assert next_id is None
        assert all((place.conversation, place.seq) == (GROUP, place.id) for place in found)
        return [place.id for place in found]

    assert await find("hello") == [3, 2, 1]
    assert await find("hello", sender_term(BOB)) == [2]
    assert await find("hello", any_of=(mention_term(ALICE), EVERYBODY_TERM)) == [3]
    assert await find(sender_term(ALICE), beginning="hel") == [3, 1]
    assert await find("\u4e16\u754c") == [3]
    assert await find(sender_term(ALICE)) == [3, 1]
