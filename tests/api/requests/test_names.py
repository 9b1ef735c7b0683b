"""Names of users and groups: characters that cannot be seen are removed, unless a script or an emoji needs them."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resolvers.base.errors import InvalidInput
from resolvers.base.names import accept_external_name, accept_name, clean_name
from resolvers.users.callers import CallerRole
from tests.api.client import UPSERT_USERS, Api, make_caller

HIDDEN = {
    "zero-width space": "\u200b",
    "zero-width non-joiner": "\u200c",
    "zero-width joiner": "\u200d",
    "left-to-right mark": "\u200e",
    "right-to-left mark": "\u200f",
    "Arabic letter mark": "\u061c",
    "right-to-left embedding": "\u202b",
    "pop": "\u202c",
    "right-to-left override": "\u202e",
    "word joiner": "\u2060",
    "invisible times": "\u2062",
    "right-to-left isolate": "\u2067",
    "pop isolate": "\u2069",
    "byte order mark": "\ufeff",
    "soft hyphen": "\u00ad",
    "combining grapheme joiner": "\u034f",
    "Mongolian vowel separator": "\u180e",
    "Hangul filler": "\u3164",
    "halfwidth Hangul filler": "\uffa0",
    "Hangul choseong filler": "\u115f",
    "Khmer inherent vowel": "\u17b5",
    "variation selector": "\ufe00",
    "emoji selector": "\ufe0f",
    "ideographic selector": "\U000e0100",
    "tag": "\U000e0061",
    "end of tags": "\U000e007f",
    "annotation anchor": "\ufff9",
    "beam": "\U0001d173",
}

KEPT = {
    "Latin": "Renée O'Brien-Łuk",
    "Arabic": "محمد بن سلمان",
    "Persian with a non-joiner": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "Hebrew": "דָּוִד",
    "Hindi with a joiner": "क्\u200dष",
    "Hindi with a non-joiner": "क्\u200cष",
    "Malayalam with a joiner at the end": "മോഹന്\u200d",
    "Sinhala": "ශ්\u200dරී",
    "Kannada": "ರ್\u200cಕ",
    "Thai": "สมชาย",
    "Mongolian with a selector": "ᠮᠣᠩᠭᠣᠯ\u180b",
    "Chinese": "王小明",
    "Japanese with an ideographic selector": "葛\U000e0100城",
    "Korean": "김민준",
    "Arabic number sign": "\u0600123",
    "Zalgo": "Z\u0335a\u0489",
    "family": "👨\u200d👩\u200d👧",
    "skin tone and gender": "🤷🏽\u200d♂\ufe0f",
    "heart on fire": "❤\ufe0f\u200d🔥",
    "head shaking": "🙂\u200d↔\ufe0f",
    "rainbow flag": "🏳\ufe0f\u200d🌈",
    "flag of a country": "🇫🇷",
    "flag of Scotland": "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "keycap": "1\ufe0f\u20e3",
    "copyright": "©\ufe0f",
}

CLEANED = {
    "joiner between Latin letters": ("al\u200dice", "alice"),
    "non-joiner between emoji": ("😀\u200c😀", "😀😀"),
    "joiner after an emoji at the end": ("😀\u200d", "😀"),
    "joiner between an emoji and a letter": ("😀\u200da", "😀a"),
    "two joiners": ("क्\u200d\u200dष", "क्\u200dष"),
    "non-joiner before a space": ("می\u200c خواهم", "می خواهم"),
    "selector after a letter": ("a\ufe0f", "a"),
    "selector after a digit": ("1\ufe0f2", "12"),
    "two selectors": ("❤\ufe0f\ufe0f", "❤\ufe0f"),
    "ideographic selector after a letter": ("a\U000e0100", "a"),
    "tags without an end": ("🏴\U000e0067\U000e0062", "🏴"),
    "tags after another emoji": ("😀\U000e0067\U000e0062\U000e0073\U000e007f", "😀"),
    "too many tags": ("🏴" + "\U000e0061" * 7 + "\U000e007f", "🏴"),
    "turned around": ("Ann\u202egnp.exe", "Anngnp.exe"),
    "line separator": ("Ann\u2028Lee", "Ann Lee"),
    "blank of Braille": ("Ann\u2800Lee", "Ann Lee"),
}


@pytest.mark.parametrize("character", HIDDEN.values(), ids=HIDDEN)
def test_hidden_character_is_removed_everywhere(character: str) -> None:
    assert clean_name(f"{character}Ann{character}é Lee{character}") == "Anné Lee"
    assert clean_name(character * 3) == ""


@pytest.mark.parametrize("name", KEPT.values(), ids=KEPT)
def test_visible_name_stays_as_it_is(name: str) -> None:
    assert clean_name(name) == name
    assert clean_name(f"é {name} é") == f"é {name} é"


@pytest.mark.parametrize(("name", "cleaned"), CLEANED.values(), ids=CLEANED)
def test_character_without_an_effect_is_removed(name: str, cleaned: str) -> None:
    assert clean_name(name) == cleaned
    assert clean_name(cleaned) == cleaned


@given(st.text(st.sampled_from([*"".join(KEPT.values()), *HIDDEN.values(), *"aé1# \u2800"]), max_size=12))
@example("ក\u200d\u17b5")
def test_cleaned_name_needs_no_further_cleaning(name: str) -> None:
    assert clean_name(clean_name(name)) == clean_name(name)


def test_no_format_character_stays_between_latin_letters() -> None:
    kept = {
        code
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) == "Cf" and clean_name(f"a{chr(code)}b") != "ab"
    }
    assert kept == {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("Ann Lee", "Ann Lee"),
        ("Ann\r\nLee", "Ann Lee"),
        (" \tAnn\x00\x00Lee\n", "Ann Lee"),
        ("Ann\u2028Lee\u2029", "Ann Lee"),
        ("Ann\x85Lee", "Ann Lee"),
        ("x" * 100 + "\u200b" * 50, "x" * 100),
    ],
    ids=ascii,
)
def test_name_from_another_system_becomes_one_line(name: str, stored: str) -> None:
    assert accept_external_name(name, "name") == stored


@pytest.mark.parametrize(
    "name",
    ["", " ", "\n", "\u200b", "\u3164\u3164", "x" * 101, "é" * 1_000_000, "Ann\ud800"],
    ids=lambda name: name[:4],
)
def test_name_that_cannot_be_shown_is_refused(name: str) -> None:
    for accept in (accept_name, accept_external_name):
        with pytest.raises(InvalidInput) as caught:
            accept(name, "name")
        assert caught.value.field == "name"


async def test_hidden_characters_are_removed_from_users_of_services(api: Api) -> None:
    (user,) = await api.create_users("user")
    service = make_caller("service", CallerRole.SERVICE)
    users = [{"id": user, "displayName": "\u202eBo\u200bb\ufeff 👨\u200d👩\u200d👧"}]
    (answer,) = (await api.data(service, UPSERT_USERS, input=users))["upsertUsers"]
    assert answer["displayName"] == "Bob 👨\u200d👩\u200d👧"
    stored = await api.stored_hashes()
    for name in ("\u200b", "\u3164 \u2800"):
        refusal = await api.expect_refusal(service, UPSERT_USERS, input=[{"id": user, "displayName": name}])
        assert (refusal.code, refusal.field) == ("INVALID_INPUT", "displayName")
    assert await api.stored_hashes() == stored


async def test_hidden_characters_are_removed_from_names_of_groups(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    create = "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id name } }"
    update = "mutation ($id: ID!, $input: UpdateGroupInput!) { updateGroup(groupId: $id, input: $input) { name } }"
    group = {"name": "Te\u200bam\u202e", "memberIds": [bob, carol]}
    created = (await api.data(alice, create, input=group))["createGroup"]
    assert created["name"] == "Team"
    renamed = (await api.data(alice, update, id=created["id"], input={"name": "\ufeffTeam é"}))["updateGroup"]
    assert renamed["name"] == "Team é"
    stored = await api.stored_hashes()
    for refused in (
        await api.expect_refusal(alice, create, input=group | {"name": "\u200b"}),
        await api.expect_refusal(alice, update, id=created["id"], input={"name": "\u2060\u3164"}),
    ):
        assert (refused.code, refused.field) == ("INVALID_INPUT", "name")
    # The same name with a hidden character is no change.
    await api.data(alice, update, id=created["id"], input={"name": "Team\u200d é"})
    assert await api.stored_hashes() == stored
