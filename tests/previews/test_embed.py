"""Stored forms of embeds."""

from __future__ import annotations

import orjson
import pytest

from store.previews.embed import Embed, EmbedField, EmbedImage, EmbedKind, embed_from

EMBEDS = [
    Embed(EmbedKind.LINK, True, "https://a.example/"),
    Embed(
        EmbedKind.RICH,
        False,
        "https://a.example/",
        "title",
        "description",
        "site",
        "author",
        "#00ff00",
        EmbedImage("https://a.example/p.png", 640, 480),
        EmbedImage("https://a.example/t.png"),
        (EmbedField("name", "value"), EmbedField("name", "value", True)),
        1_700_000_000_000,
    ),
]


@pytest.mark.parametrize("embed", EMBEDS, ids=lambda embed: embed.kind.name)
def test_an_embed_is_the_same_after_it_was_stored_as_json(embed: Embed) -> None:
    assert embed_from(orjson.loads(orjson.dumps(embed.to_stored()))) == embed


def test_values_that_a_later_version_appended_are_ignored() -> None:
    assert embed_from([*EMBEDS[1].to_stored(), "more"]) == EMBEDS[1]
