"""At most 50 different emoji on a message, and 20 of one user: also when many come at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.api.client import Api, Json, Refusal, gather_all, parse_refusal
from tests.api.reactions.calls import ADD, check_summaries, expect_refusal, react, reactions_of, take_back

LIMIT = Refusal("LIMIT_REACHED", "emoji")


async def add_names(api: Api, message: str, user: str, numbers: Sequence[int]) -> None:
    """Add an emoji for each number."""
    await gather_all(*(react(api, user, message, f":n{number}:") for number in numbers))


async def race(apis: Sequence[Api], message: str, attempts: Sequence[tuple[str, str]]) -> list[Json]:
    """Let users add emoji at the same time, on all servers. Return the answers."""
    calls = [apis[i % len(apis)].run(user, ADD, id=message, emoji=emoji) for i, (user, emoji) in enumerate(attempts)]
    return await gather_all(*calls)


def count_accepted(answers: Sequence[Json]) -> int:
    """Return the number of accepted calls. The others have to be refused because of a limit."""
    refused = [answer for answer in answers if "errors" in answer]
    assert {parse_refusal(answer["errors"][0]) for answer in refused} <= {LIMIT}
    return len(answers) - len(refused)


async def test_the_51st_emoji_of_a_message_is_refused(api: Api, other_api: Api) -> None:
    users = await api.create_users("alice", "bob", "carol", "dave")
    alice, bob, carol, dave = users
    sent = (await api.send(alice, await api.create_group(*users)))["message"]["id"]
    for first, user in ((0, alice), (20, bob)):
        await add_names(api, sent, user, range(first, first + 20))
    await add_names(api, sent, carol, range(40, 48))
    attempts = [(user, f":{user[0]}{number}:") for number in range(4) for user in (carol, dave)]
    # Everybody twice, as when a device repeats a request: a repetition of what is there is accepted.
    answers = await race((api, other_api), sent, attempts * 2)
    assert count_accepted(answers) == 4
    assert len(await reactions_of(api, dave, sent)) == 50
    await expect_refusal(api, dave, ADD, LIMIT, id=sent, emoji="👍")
    check_summaries(api)
    # An emoji that is there already is no further one.
    assert {emoji: count for emoji, count, _ in await react(api, dave, sent, ":n0:")}[":n0:"] == 2
    await take_back(api, carol, sent, ":n40:")
    assert len(await react(api, dave, sent, "👍")) == 50


async def test_the_21st_emoji_of_a_user_is_refused(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    await add_names(api, sent, bob, range(18))
    await add_names(api, sent, alice, range(15, 35))
    attempts = [(bob, f":n{number}:") for number in range(18, 26)]
    assert count_accepted(await race((api, other_api), sent, attempts)) == 2
    own = [emoji for emoji, _, is_own in await reactions_of(api, bob, sent) if is_own]
    assert len(own) == 20
    for emoji in ("👍", ":n34:"):
        await expect_refusal(api, bob, ADD, LIMIT, id=sent, emoji=emoji)
    check_summaries(api)
    await take_back(api, bob, sent, own[0])
    await react(api, bob, sent, "👍")
    # A user at the limit may repeat a reaction of their own.
    await react(api, bob, sent, "👍")


async def test_the_limits_hold_where_the_summary_does_not_know_all_users(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.reactions.reaction_draft.MOST_KEYS", 0)
    users = await api.create_users(*(f"u{number}" for number in range(7)))
    last = users[-1]
    sent = (await api.send(users[0], await api.create_group(*users)))["message"]["id"]
    for user in users[:6]:
        await add_names(api, sent, user, range(20))
    await take_back(api, users[0], sent, ":n0:")
    await add_names(api, sent, users[0], [20])
    await add_names(api, sent, last, range(1, 20))
    shown = {emoji: (count, is_own) for emoji, count, is_own in await reactions_of(api, last, sent)}
    assert shown == {f":n{n}:": (7, True) for n in range(1, 20)} | {":n0:": (5, False), ":n20:": (1, False)}
    await add_names(api, sent, last, [0])
    await expect_refusal(api, last, ADD, LIMIT, id=sent, emoji=":n20:")
    stored = await api.stored_hashes()
    await react(api, last, sent, ":n3:")
    assert await api.stored_hashes() == stored
    await take_back(api, users[2], sent, ":n3:")
    await take_back(api, last, sent, ":n3:")
    assert (":n3:", 5, False) in await reactions_of(api, last, sent)
    check_summaries(api)
