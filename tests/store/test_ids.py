"""Forms of ids: which texts are ids, and which form user ids have inside other ids."""

from __future__ import annotations

import gc
from itertools import combinations, product
from weakref import ref

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from store.base.ids import (
    ConversationId,
    ConversationKind,
    UserId,
    decode_user,
    encode_user,
    is_user_id,
    kind_of,
    parse_private,
    parse_session_id,
    parse_thread,
    partition_of,
    private_id,
    session_id,
    thread_id,
    without_thread,
)
from store.base.workspace_ids import WorkspaceId, channel_id, is_in_workspace, workspace_of_channel
from store.redis.keys import Keys
from tests.user_ids import NOT_USER_IDS, UNUSUAL_USER_IDS, encoded

ASCII = "".join(map(chr, range(33, 127)))
LONGEST = UserId("\N{GRINNING FACE}" * 128)
LONGEST_AND_NEXT = UserId("\N{GRINNING FACE}" * 127 + "\N{GRINNING FACE WITH SMILING EYES}")

user_ids = st.one_of(
    st.sampled_from(UNUSUAL_USER_IDS),
    st.text("aB09.@-_~%|/{}57CF", min_size=1, max_size=6),
    st.text(min_size=1, max_size=128),
).filter(is_user_id)
sub_bizs = st.sampled_from([None, "shop", "b"])


def short(value: object) -> str:
    """Return a name of a test."""
    return ascii(value)[:30]


class Spelt(str):
    pass


@pytest.mark.parametrize(
    "text", ["g_" + "1" * 1_000, "p_a_" + "b" * 1_000, "x" * 1_000, "p_a_" + "%F0%9F%98%80" * 128, "p_a_" + "b" * 9_999]
)
def test_a_long_conversation_id_is_not_cached(text: str) -> None:
    spelt = Spelt(text)
    is_valid = text.endswith("%80")
    assert (kind_of(spelt) is not None) is is_valid
    assert (parse_private(spelt) is not None) is is_valid
    gone = ref(spelt)
    del spelt
    gc.collect()
    assert gone() is None


def test_the_longest_conversation_id_is_valid() -> None:
    longest = private_id(LONGEST, LONGEST_AND_NEXT, "c" * 32)
    assert kind_of(longest) is ConversationKind.PRIVATE
    assert parse_private(longest) == (LONGEST, LONGEST_AND_NEXT, "c" * 32)
    assert parse_session_id(session_id(LONGEST, longest)) == (LONGEST, longest)


@pytest.mark.parametrize("text", [*UNUSUAL_USER_IDS, *ASCII, ASCII, ".", "-", "a" * 128], ids=short)
def test_printable_characters_without_white_space_are_user_ids(text: str) -> None:
    assert is_user_id(text)


@pytest.mark.parametrize("text", NOT_USER_IDS, ids=short)
def test_other_texts_are_not_user_ids(text: str) -> None:
    assert not is_user_id(text)
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert decode_user(encoded(text)) is None


def test_ids_have_the_form_of_the_contract() -> None:
    assert private_id(UserId("user_2N"), UserId("auth0|7")) == "p_auth0%7C7_user%5F2N"
    assert private_id(UserId("b"), UserId("a"), "shop") == "p_a_b~shop"
    assert encode_user(UserId("Az09.@-")) == "Az09.@-"
    assert encode_user(UserId("\N{LATIN SMALL LETTER E WITH ACUTE}")) == "%C3%A9"
    assert session_id(UserId("user_2N"), ConversationId("g_7")) == "s_user%5F2N_g_7"


def test_people_are_sorted_before_they_are_encoded() -> None:
    assert private_id(UserId("a_"), UserId("aA")) == "p_aA_a%5F"
    assert parse_private("p_a%5F_aA") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "%",
        "%4",
        "a%",
        "%41",
        "%2E",
        "%5f",
        "%7c",
        "%C0%AF",
        "%C3",
        "%A9",
        "%ED%A0%80",
        "%F4%90%80%80",
        "%20",
        "%00",
        "%E2%80%8B",
        "a_b",
        "~",
        "a|b",
        "\N{LATIN SMALL LETTER E WITH ACUTE}",
        "a\n",
        "\ud800",
        "%ZZ",
        "a" * 129,
        "%7C" * 129,
    ],
)
def test_other_encodings_are_refused(text: str) -> None:
    assert decode_user(text) is None
    assert parse_private(f"p_-_{text}") is None
    assert parse_session_id(f"s_{text}_g_1") is None


@given(user_ids)
def test_an_encoded_user_id_is_safe_and_decodes_to_the_user_id(user: UserId) -> None:
    text = encode_user(user)
    assert text == encoded(user)
    assert decode_user(text) == user
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.@-%")


@given(st.text("aB%57Cf.@-_F", max_size=12))
def test_an_accepted_encoding_is_the_only_one(text: str) -> None:
    user = decode_user(text)
    assert user is None or encode_user(user) == text


@given(user_ids, user_ids, sub_bizs)
def test_a_private_id_names_its_people(one: UserId, other: UserId, sub_biz: str | None) -> None:
    assume(one != other)
    conversation = private_id(one, other, sub_biz)
    assert conversation == private_id(other, one, sub_biz)
    assert parse_private(conversation) == (*sorted((one, other)), sub_biz)
    for user in (one, other):
        assert parse_session_id(session_id(user, conversation)) == (user, conversation)


def test_different_people_have_different_conversations_and_keys() -> None:
    near = [
        UserId(text) for text in ("a", "a_b", "b", "b_a", "a%5Fb", "a~b", "a~", "~b", "_", "%5F", "a}", "a}:meta", "{")
    ]
    pairs = list(product(combinations(near, 2), ("b", None)))
    assert len({private_id(*pair, sub_biz) for pair, sub_biz in pairs}) == len(pairs)
    assert len({session_id(user, private_id(*pair)) for pair in combinations(near, 2) for user in pair}) == len(pairs)
    keys = Keys("")
    others = [UserId("a}:key:k"), UserId("a}:typing:g_1")]
    names = [keys.of_user(user, name) for user in (*near, *others) for name in ("meta", "lock")]
    names += [keys.claim(user, key) for user in (*near, *others) for key in ("k", "x}:meta", "k}:key:k")]
    names += [keys.typing(user, ConversationId("g_1")) for user in (*near, *others)]
    assert len(set(names)) == len(names)
    assert all(name.count("{") == name.partition("}")[0].count("{") == 1 for name in names)


@pytest.mark.parametrize("user", UNUSUAL_USER_IDS, ids=short)
def test_the_hash_tag_of_a_users_keys_is_the_whole_encoded_id(user: UserId) -> None:
    key = Keys("confab").of_user(user, "meta")
    assert key.count("{") == key.count("}") == 1
    assert key[key.index("{") + 1 : key.index("}")] == f"u:{encode_user(user)}"


@pytest.mark.parametrize("parent", ["p_a_b", "p_a%5F_b~shop", "g_17", "c_1.2"])
def test_a_thread_names_its_parent_and_shares_its_partition(parent: str) -> None:
    thread = thread_id(ConversationId(parent), 12)
    assert thread == f"t_12_{parent}"
    assert parse_thread(thread) == (parent, 12)
    assert kind_of(thread) is ConversationKind.THREAD
    assert partition_of(thread) == partition_of(ConversationId(parent))
    assert without_thread(thread) == without_thread(ConversationId(parent)) == parent
    assert is_in_workspace(thread) is is_in_workspace(ConversationId(parent)) is parent.startswith("c_")


@pytest.mark.parametrize(
    "text", ["t_", "t_1", "t_0_g_17", "t_01_g_17", "t_-1_g_17", "t_1_b_shop", "t_1_t_1_g_17", "t_1_g_"]
)
def test_other_texts_are_no_threads(text: str) -> None:
    assert parse_thread(text) is None
    assert kind_of(text) is None


def test_a_channel_and_its_threads_name_the_workspace() -> None:
    workspace = WorkspaceId("w_12")
    channel = channel_id(workspace, 34)
    assert workspace_of_channel(channel) == workspace_of_channel(thread_id(channel, 5)) == workspace
