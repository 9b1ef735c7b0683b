"""addReaction, removeReaction, clearReactions and reactors: what they change, and what all readers see."""

from __future__ import annotations

import pytest

from tests.api.client import HISTORY, Api, Refusal, gather_all, private_id
from tests.api.reactions.calls import (
    ADD,
    CLEAR,
    MESSAGE,
    REACTIONS,
    REACTORS,
    REMOVE,
    check_summaries,
    clear,
    react,
    reactions_of,
    reactors_of,
    shown,
    take_back,
)
from tests.api.session_calls import iso

BAD_EMOJI = {
    "empty": "",
    "two emoji": "👍👍",
    "an emoji with a text": "👍a",
    "300 code points": "👍" * 300,
    "an unpaired surrogate": "\ud83d",
    "a digit": "1",
    "a digit with a selector": "1\ufe0f",
    "the text presentation": "❤\ufe0e",
    "only a selector": "\ufe0f",
    "only a joiner": "\u200d",
    "only a skin tone": "🏽",
    "half a flag": "🇩",
    "a letter": "é",
    "an upper-case name": ":A:",
    "a name of one character": ":a:",
    "a name of 33 characters": f":{'a' * 33}:",
    "a name with a space": ":a b:",
    "a name with other digits": ":٣٣:",
    "a name without its end": ":smile",
    "a name and a line break": ":smile:\n",
}


async def test_a_reaction_is_returned_and_seen_by_all_readers(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    before_ms = api.services.app.store.clock.now_ms()
    (added,) = (await api.data(bob, ADD, id=sent, emoji="👍"))["addReaction"]["reactions"]
    assert iso(before_ms) <= added["firstAt"] <= iso(api.services.app.store.clock.now_ms())
    assert added == {
        "emoji": "👍", "count": 1, "viewerReacted": True, "users": [{"id": bob}], "firstAt": added["firstAt"],
    }  # fmt: skip
    for reader in (alice, bob):
        seen = added | {"viewerReacted": reader == bob}
        last = f"query ($id: ID!) {{ conversation(id: $id) {{ lastMessage {{ {REACTIONS} }} }} }}"
        page = HISTORY.replace("editCount", f"editCount {REACTIONS}", 1)
        conversation = private_id(alice, bob)
        answers = [
            (await api.data(reader, MESSAGE, id=sent))["message"],
            (await api.data(reader, last, id=conversation))["conversation"]["lastMessage"],
            (await api.data(reader, page, id=conversation, last=1))["messages"]["edges"][0]["node"],
        ]
        assert [answer["reactions"] for answer in answers] == [[seen]] * 3
    check_summaries(api)


async def test_emoji_stay_in_the_order_in_which_they_were_first_used(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    for user, emoji in ((alice, "👍"), (bob, "🎉"), (bob, "👍"), (alice, ":party_parrot:")):
        await react(api, user, sent, emoji)
    assert await reactions_of(api, bob, sent) == [("👍", 2, True), ("🎉", 1, True), (":party_parrot:", 1, False)]
    # The first user of an emoji takes theirs back: the place stays. All do: the next use is a new one.
    assert await take_back(api, alice, sent) == [("👍", 1, False), ("🎉", 1, False), (":party_parrot:", 1, True)]
    await take_back(api, bob, sent)
    assert [emoji for emoji, _, _ in await react(api, bob, sent)] == ["🎉", ":party_parrot:", "👍"]
    check_summaries(api)


async def test_repeating_changes_nothing(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    await react(api, bob, sent)
    stored = await api.stored_hashes()
    assert await react(api, bob, sent) == [("👍", 1, True)]
    assert await take_back(api, alice, sent) == [("👍", 1, False)]
    assert await take_back(api, bob, sent, "🎉") == [("👍", 1, True)]
    assert await api.stored_hashes() == stored


async def test_reactions_move_no_session(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    sessions = [await api.own_session(user, private_id(alice, bob)) for user in (alice, bob)]
    await react(api, bob, sent)
    await take_back(api, bob, sent)
    await api.wait_until_idle()
    assert [await api.own_session(user, private_id(alice, bob)) for user in (alice, bob)] == sessions


@pytest.mark.parametrize(
    ("spelling", "stored"),
    [("❤", "❤️"), ("❤️", "❤️"), ("1⃣", "1️⃣"), ("👍🏽", "👍🏽"), ("👩‍❤‍👩", "👩‍❤️‍👩"), ("🇩🇪", "🇩🇪"), (":a_+-9:", ":a_+-9:")],
)
async def test_other_spellings_are_the_same_emoji(api: Api, spelling: str, stored: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    assert await react(api, bob, sent, spelling) == await react(api, bob, sent, stored) == [(stored, 1, True)]
    assert await reactors_of(api, alice, sent, spelling) == [bob]
    assert await take_back(api, bob, sent, spelling) == []


async def test_skin_tones_are_different_emoji(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    for emoji in ("👍", "👍🏽", "👍🏿"):
        await react(api, bob, sent, emoji)
    assert len(await reactions_of(api, bob, sent)) == 3


async def test_text_that_is_not_one_emoji_is_refused(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(alice, group))["message"]["id"]
    await react(api, alice, sent)
    stored = await api.stored_hashes()
    for variant, emoji in BAD_EMOJI.items():
        for query in (ADD, REMOVE, CLEAR, REACTORS):
            refusal = await api.expect_refusal(alice, query, id=sent, emoji=emoji)
            assert refusal == Refusal("INVALID_INPUT", "emoji"), variant
    assert await api.stored_hashes() == stored


async def test_the_first_five_users_are_named_and_all_are_listed(api: Api) -> None:
    users = await api.create_users(*(f"u{number}" for number in range(9)))
    group = await api.create_group(*users)
    sent = (await api.send(users[0], group))["message"]["id"]
    for user in reversed(users):
        await react(api, user, sent)
    expected = users[::-1]
    for leaving in (users[8], users[0], users[5]):
        await take_back(api, leaving, sent)
        expected.remove(leaving)
        (reaction,) = (await api.data(users[3], MESSAGE, id=sent))["message"]["reactions"]
        assert [user["id"] for user in reaction["users"]] == expected[:5]
        assert reaction["count"] == len(expected)
    for page in (1, 2, 50):
        assert await reactors_of(api, users[0], sent, page=page) == expected
    for user in users:
        assert await reactions_of(api, user, sent) == [("👍", 6, user in expected)]
    check_summaries(api)


async def test_users_who_react_at_once_on_two_servers_are_all_counted(api: Api, other_api: Api) -> None:
    users = await api.create_users(*(f"u{number}" for number in range(24)))
    group = await api.create_group(*users)
    sent = (await api.send(users[0], group))["message"]["id"]
    servers = (api, other_api)
    # Everybody twice, as when a device repeats a request.
    await gather_all(*(react(servers[i % 2], user, sent) for i, user in enumerate(users * 2)))
    assert await reactions_of(api, users[5], sent) == [("👍", 24, True)]
    await gather_all(*(take_back(servers[i % 2], user, sent) for i, user in enumerate(users[:10] * 2)))
    assert await reactions_of(other_api, users[5], sent) == [("👍", 14, False)]
    assert sorted(await reactors_of(api, users[5], sent)) == sorted(users[10:])
    check_summaries(api)


async def test_clearing_removes_one_emoji_or_all(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(bob, group))["message"]["id"]
    for user, emoji in ((bob, "👍"), (carol, "👍"), (carol, "🎉"), (bob, "❤️")):
        await react(api, user, sent, emoji)
    assert await clear(api, alice, sent, "👍") == [("🎉", 1, False), ("❤️", 1, False)]
    stored = await api.stored_hashes()
    assert len(await clear(api, alice, sent, "👍")) == 2
    assert await api.stored_hashes() == stored
    assert await clear(api, alice, sent) == await clear(api, alice, sent) == []
    assert await reactors_of(api, bob, sent) == []
    assert await react(api, bob, sent) == [("👍", 1, True)]
    check_summaries(api)


async def test_readers_of_the_list_see_shown_reactions_only(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    sent = (await api.send(alice, bob))["message"]["id"]
    await react(api, bob, sent)
    for message in ("m_1", sent):
        refusal = await api.expect_refusal(carol, REACTORS, id=message, emoji="👍")
        assert refusal == Refusal("NOT_FOUND", "messageId")
    assert shown((await api.data(alice, MESSAGE, id=sent))["message"]) == [("👍", 1, False)]
