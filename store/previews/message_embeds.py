"""The embeds of a message: what it shows of its links, and what its bot gave (ADR 78)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from store.previews.embed import Embed, embed_from


class EmbedsField:
    """Stored names of the fields of a message's embeds, which are one field of the message. Empty ones are left out."""

    ITEMS = "e"
    """`Embed.to_stored` of each."""
    VERSION = "v"
    """Grows with each change of the embeds that is no edit of the message."""
    LINKS_DUE = "p"
    """Links pending: the message may have links without previews. From this time on (ms) any server may fetch them;
    until then the server that set it does so.
    """
    SUPPRESSED = "s"
    """True if there are no previews and will be none."""


_F = EmbedsField


class MessageEmbeds(NamedTuple):
    """The embeds of a message.

    Attributes:
        items: Those that a bot gave, then the previews in the order of the links.
        version: Grows with each change that is no edit of the message.
        links_due_ms: Time from which on any server may fetch missing previews; None: there is nothing to fetch.
        is_suppressed: There are no previews and will be none.
    """

    items: tuple[Embed, ...] = ()
    version: int = 0
    links_due_ms: int | None = None
    is_suppressed: bool = False

    @property
    def given(self) -> tuple[Embed, ...]:
        """The embeds that a bot gave."""
        return tuple(embed for embed in self.items if not embed.is_preview)

    @property
    def previews(self) -> dict[str, Embed]:
        """The previews by their links."""
        return {embed.url: embed for embed in self.items if embed.is_preview and embed.url is not None}

    def for_copy(self) -> MessageEmbeds:
        """Return the embeds of the copy of a reply with these embeds. Links are fetched for the reply only."""
        return self._replace(links_due_ms=None)

    def to_stored(self) -> dict[str, Any]:
        """Return the stored form; empty if there is nothing to store."""
        fields: dict[str, Any] = {}
        if self.items:
            fields[_F.ITEMS] = [embed.to_stored() for embed in self.items]
        if self.version:
            fields[_F.VERSION] = self.version
        if self.links_due_ms is not None:
            fields[_F.LINKS_DUE] = self.links_due_ms
        if self.is_suppressed:
            fields[_F.SUPPRESSED] = True
        return fields


NO_EMBEDS = MessageEmbeds()


def message_embeds_from(stored: Mapping[str, Any]) -> MessageEmbeds:
    """Return the embeds of a message from their stored form."""
    return MessageEmbeds(
        tuple(map(embed_from, stored.get(_F.ITEMS, ()))),
        stored.get(_F.VERSION, 0),
        stored.get(_F.LINKS_DUE),
        bool(stored.get(_F.SUPPRESSED, False)),
    )
