"""The GraphQL types of embeds."""

from __future__ import annotations

from enum import Enum

import strawberry

from schema.base.context import Info
from schema.base.list_sizes import holds
from schema.base.scalars import DateTime
from schema.compiler import reads
from store.messages.message import Message
from store.previews.embed import Embed, EmbedField, EmbedImage, EmbedKind


@strawberry.enum(name="EmbedType")
class EmbedTypeEnum(Enum):
    LINK = EmbedKind.LINK
    IMAGE = EmbedKind.IMAGE
    VIDEO = EmbedKind.VIDEO
    RICH = EmbedKind.RICH


@strawberry.type(name="EmbedImage")
class EmbedImageType:
    record: strawberry.Private[EmbedImage]
    width: int | None = reads("record.width")
    height: int | None = reads("record.height")

    @strawberry.field
    def url(self, info: Info) -> str:
        return info.context.app.addresses.picture(self.record.url)


@strawberry.type(name="EmbedField")
class EmbedFieldType:
    record: strawberry.Private[EmbedField]
    name: str = reads("record.name")
    value: str = reads("record.value")
    inline: bool = reads("record.inline")


@strawberry.type(
    name="Embed",
    description="At most 5 per message from links, 10 from bots. Links are previewed in groups, channels and their "
    "threads, not in private conversations; only public addresses on ports 80 and 443 are fetched. Images are served "
    "by Confab: readers' addresses are not revealed to the site.",
)
class EmbedType:
    record: strawberry.Private[Embed]
    type: EmbedTypeEnum = reads("record.kind")
    url: str | None = reads("record.url")
    title: str | None = reads("record.title")
    description: str | None = reads("record.description")
    site_name: str | None = reads("record.site_name")
    author_name: str | None = reads("record.author_name")
    color: str | None = reads("record.color")
    published_at: DateTime | None = reads("record.published_ms")

    @strawberry.field
    def image(self) -> EmbedImageType | None:
        return _image_from(self.record.image)

    @strawberry.field
    def thumbnail(self) -> EmbedImageType | None:
        return _image_from(self.record.thumbnail)

    @strawberry.field(metadata=holds(3))
    def fields(self) -> list[EmbedFieldType]:
        return [EmbedFieldType(record=field) for field in self.record.fields]


def _image_from(image: EmbedImage | None) -> EmbedImageType | None:
    return EmbedImageType(record=image) if image is not None else None


def embeds_of(message: Message) -> list[EmbedType]:
    """Return the GraphQL objects of a message's embeds."""
    return [EmbedType(record=embed) for embed in message.embeds.items]
