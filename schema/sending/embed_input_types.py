"""The inputs of embeds that bots and services give."""

from __future__ import annotations

import strawberry

from resolvers.messages.given_embeds import NewEmbed


@strawberry.input
class EmbedFieldInput:
    name: str
    value: str
    inline: bool | None = False


@strawberry.input
class EmbedInput:
    url: str | None = None
    title: str | None = None
    description: str | None = None
    author_name: str | None = None
    color: str | None = None
    image_url: str | None = None
    fields: list[EmbedFieldInput] | None = strawberry.field(default_factory=list)

    def to_new_embed(self) -> NewEmbed:
        """Return the input with its defaults filled in."""
        return NewEmbed(
            self.url,
            self.title,
            self.description,
            self.author_name,
            self.color,
            self.image_url,
            tuple((field.name, field.value, bool(field.inline)) for field in self.fields or ()),
        )
