"""Bots and services give embeds with their messages. Others may not, and bad ones change nothing."""

from __future__ import annotations

from resolvers.users.callers import CallerRole
from store.messages.message import MessageKind
from tests.api.broadcast.calls import broadcast
from tests.api.client import SEND, Api, Json, Refusal, make_caller, message_input
from tests.api.previews.site import EVENTS, FakeSite, find, send, stored_embeds, titles
from tests.api.threads.live_calls import make_thread

WHOLE = {
    "url": "https://bot.test/7",
    "title": "Build 7",
    "description": "All tests passed.",
    "authorName": "ci",
    "color": "#00FF7f",
    "imageUrl": "https://bot.test/7.png",
    "fields": [{"name": "branch", "value": "main", "inline": True}, {"name": "time", "value": "7 min"}],
}
FIELD = {"name": "n", "value": "v"}
BAD: dict[str, tuple[list[Json], str]] = {
    "too many embeds": ([{"title": "x"}] * 11, "embeds"),
    "nothing to show": ([{"title": "x"}, {"url": "https://bot.test/", "color": "#000000"}], "embeds[1]"),
    "an empty title": ([{"title": ""}], "embeds[0].title"),
    "a blank title": ([{"title": "  "}], "embeds[0].title"),
    "a NUL": ([{"title": "a\0b"}], "embeds[0].title"),
    "a lone surrogate": ([{"title": "\ud800"}], "embeds[0].title"),
    "a long title": ([{"title": "x" * 257}], "embeds[0].title"),
    "a long description": ([{"description": "x" * 4_097}], "embeds[0].description"),
    "a long author": ([{"authorName": "x" * 257}], "embeds[0].authorName"),
    "a color by name": ([{"title": "x", "color": "red"}], "embeds[0].color"),
    "a color with a line feed": ([{"title": "x", "color": "#000000\n"}], "embeds[0].color"),
    "another scheme": ([{"title": "x", "url": "javascript:alert(1)"}], "embeds[0].url"),
    "a relative address": ([{"title": "x", "url": "/page"}], "embeds[0].url"),
    "an address without a host": ([{"title": "x", "url": "https://"}], "embeds[0].url"),
    "an address with a password": ([{"title": "x", "imageUrl": "https://a:b@bot.test/"}], "embeds[0].imageUrl"),
    "an address with white space": ([{"imageUrl": "https://bot.test/a b"}], "embeds[0].imageUrl"),
    "a long address": ([{"imageUrl": "https://bot.test/" + "x" * 2_040}], "embeds[0].imageUrl"),
    "a file": ([{"imageUrl": "file:///etc/passwd"}], "embeds[0].imageUrl"),
    "too many fields": ([{"fields": [FIELD] * 26}], "embeds[0].fields"),
    "a long name of a field": ([{"fields": [FIELD, FIELD | {"name": "x" * 257}]}], "embeds[0].fields[1].name"),
    "an empty value of a field": ([{"fields": [FIELD | {"value": ""}]}], "embeds[0].fields[0].value"),
    "a long value of a field": ([{"fields": [FIELD | {"value": "x" * 1_025}]}], "embeds[0].fields[0].value"),
    "too much in all": ([{"description": "x" * 3_000}, {"description": "x" * 3_001}], "embeds"),
}


async def make_bot(api: Api) -> str:
    (bot,) = await api.create_users("bot")
    await api.upsert_users({"id": bot, "displayName": "Bot", "isBot": True})
    return bot


async def test_the_embeds_of_a_bot_are_shown_as_given(api: Api, other_api: Api) -> None:
    bot = await make_bot(api)
    (alice,) = await api.create_users("alice")
    device = await api.listen(alice, EVENTS)
    sent = await send(api, bot, alice, "done", embeds=[WHOLE, {"title": "second"}])
    for shown in ((await device.next())["message"], await find(api, alice, sent), await find(other_api, alice, sent)):
        first, second = shown["embeds"]
        picture = first.pop("image")
        assert picture["url"].startswith("http") and "bot.test" not in picture["url"].partition("url=")[0]
        assert first == {
            "type": "RICH",
            "url": "https://bot.test/7",
            "title": "Build 7",
            "description": "All tests passed.",
            "siteName": None,
            "authorName": "ci",
            "color": "#00ff7f",
            "publishedAt": None,
            "thumbnail": None,
            "fields": [
                {"name": "branch", "value": "main", "inline": True},
                {"name": "time", "value": "7 min", "inline": False},
            ],
        }
        assert (second["title"], second["fields"], second["image"]) == ("second", [], None)
    await device.expect_no_event(0.05)


async def test_a_service_gives_embeds_for_any_user(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    service = make_caller(alice, CallerRole.SERVICE)
    fields = message_input(bob, "done", embeds=[{"title": "x"}])
    sent = (await api.data(service, SEND, input=fields))["sendMessage"]["message"]
    assert titles(await find(api, bob, sent)) == ["x"]


async def test_others_may_not_give_embeds(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    before = await api.stored_hashes()
    for role in (CallerRole.USER, CallerRole.ADMIN):
        fields = message_input(bob, "done", embeds=[{"title": "x"}])
        refusal = await api.expect_refusal(make_caller(alice, role), SEND, input=fields)
        assert refusal == Refusal("FORBIDDEN", "embeds")
    assert await api.stored_hashes() == before
    assert (await api.send(alice, bob, embeds=[]))["message"]["seq"] == 1


async def test_bad_embeds_are_refused_with_the_path_of_the_field(api: Api) -> None:
    bot = await make_bot(api)
    (alice,) = await api.create_users("alice")
    before = await api.stored_hashes()
    refusals = {name: await api.expect_send_refusal(bot, alice, embeds=embeds) for name, (embeds, _) in BAD.items()}
    assert refusals == {name: Refusal("INVALID_INPUT", field) for name, (_, field) in BAD.items()}
    assert await api.stored_hashes() == before


async def test_embeds_of_the_largest_size_are_accepted(api: Api) -> None:
    bot = await make_bot(api)
    (alice,) = await api.create_users("alice")
    largest = {
        "title": "x" * 256,
        "description": "x" * 4_096,
        "authorName": "x" * 256,
        "fields": [{"name": "n" * 256, "value": "v" * 1_024}, *[FIELD] * 24],
    }
    rest = {"title": "x" * (6_000 - 256 - 4_096 - 256 - 256 - 1_024 - 2 * 24)}
    sent = await send(api, bot, alice, "x", embeds=[largest, rest])
    assert len((await find(api, alice, sent))["embeds"][0]["fields"]) == 25


async def test_embeds_are_part_of_the_input_that_a_key_stands_for(api: Api) -> None:
    bot = await make_bot(api)
    (alice,) = await api.create_users("alice")
    given: Json = {"embeds": [WHOLE], "idempotencyKey": "k"}
    sent = await api.send(bot, alice, "x", **given)
    again = await api.send(bot, alice, "x", **given)
    assert again["replayed"] and again["message"] == sent["message"]
    for other in ({"embeds": [WHOLE | {"title": "other"}]}, {"embeds": []}, {"suppressEmbeds": True}):
        refusal = await api.expect_send_refusal(bot, alice, "x", **(given | other))
        assert refusal.code == "IDEMPOTENCY_CONFLICT"


async def test_given_embeds_come_before_previews_and_survive_edits(api: Api, site: FakeSite) -> None:
    bot = await make_bot(api)
    alice, bob = await api.create_users("alice", "bob")
    group = await api.create_group(alice, bob, bot)
    sent = await send(api, bot, group, "https://site.test/a", embeds=[{"title": "given", "url": "https://site.test/a"}])
    assert titles(await find(api, bob, sent)) == ["given", "a"]
    await api.edit(bot, sent["id"], "no link")
    assert titles(await find(api, bob, sent)) == ["given"]
    await api.recall(bot, sent["id"])
    assert (await find(api, bob, sent))["embeds"] == []


async def test_a_copy_shows_the_embeds_given_with_its_reply(api: Api) -> None:
    place = await make_thread(api, "group")
    await api.upsert_users({"id": place.second, "displayName": "Bot", "isBot": True})
    made = await broadcast(api, place.second, place, embeds=[{"title": "given"}])
    assert [titles(await find(api, place.first, shown)) for shown in (made.reply, made.copy)] == [["given"]] * 2


async def test_a_system_message_of_a_service_has_its_embeds_and_no_previews(api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    service = make_caller(alice, CallerRole.SERVICE)
    fields = message_input(group, "https://site.test/a", contentType="SYSTEM", embeds=[{"title": "given"}])
    sent = (await api.data(service, SEND, input=fields))["sendMessage"]["message"]
    await api.wait_until_idle()
    assert titles(await find(api, bob, sent)) == ["given"]
    assert site.fetched == [] and "p" not in stored_embeds(api, sent)
    assert MessageKind.SYSTEM.name == sent["contentType"]
