"""The GraphQL types of searches for messages."""

from __future__ import annotations

from enum import Enum

import strawberry

from resolvers.base.pages import Edge
from resolvers.search.message_search import SearchResults
from resolvers.search.search_filter import SearchFilter
from resolvers.search.search_run import FoundMessage
from schema.base.list_sizes import holds
from schema.base.nodes import PageInfo
from schema.base.scalars import DateTime, Timestamp
from schema.compiler import reads
from schema.messages.message_types import MessageType, message_from
from store.search.filter_terms import ContentKind
from store.text.message_query import TextRange


@strawberry.enum
class SearchHas(Enum):
    FILE = ContentKind.FILE
    IMAGE = ContentKind.IMAGE
    VIDEO = ContentKind.VIDEO
    LINK = ContentKind.LINK


@strawberry.input(
    name="SearchFilter",
    description="after and before are exclusive. FILE includes images. At most 100 conversationIds; c_…, t_… too.",
)
class SearchFilterInput:
    conversation_ids: list[strawberry.ID] | None = None
    workspace_id: strawberry.ID | None = None
    sender_ids: list[strawberry.ID] | None = None
    mentions_me: bool | None = None
    after: DateTime | None = None
    before: DateTime | None = None
    has: list[SearchHas] | None = None
    pinned: bool | None = None
    in_threads: bool | None = None

    def to_filter(self) -> SearchFilter:
        """Return the filter. It is not checked."""
        return SearchFilter(
            conversations=tuple(self.conversation_ids) if self.conversation_ids is not None else None,
            workspace=self.workspace_id,
            senders=tuple(self.sender_ids) if self.sender_ids is not None else None,
            mentions_me=self.mentions_me,
            after_ms=self.after,
            before_ms=self.before,
            has=tuple(each.value for each in self.has or ()),
            pinned=self.pinned,
            in_threads=self.in_threads,
        )


@strawberry.type(name="TextRange", description="[start, end) in code points.")
class TextRangeType:
    range: strawberry.Private[TextRange]
    start: int = reads("range.start")
    end: int = reads("range.end")


@strawberry.type(description="highlights: where the words occur in content.")
class SearchEdge:
    edge: strawberry.Private[Edge[FoundMessage]]
    node: MessageType
    cursor: str = reads("edge.cursor")

    @strawberry.field(metadata=holds(3))
    def highlights(self) -> list[TextRangeType]:
        return [TextRangeType(range=each) for each in self.edge.node.highlights]


@strawberry.type(
    description="complete: false means something was not searched (the index is behind, or over its time limit). "
    "totalAtLeast: a lower bound. indexedUpTo: the index is complete up to then."
)
class SearchConnection:
    result: strawberry.Private[SearchResults]
    edges: list[SearchEdge]
    page_info: PageInfo
    total_at_least: int = reads("result.total_at_least")
    complete: bool = reads("result.complete")
    indexed_up_to: Timestamp = reads("result.indexed_up_to_ms")


def search_connection(result: SearchResults) -> SearchConnection:
    """Return a page of results as a Relay connection."""
    return SearchConnection(
        result=result,
        edges=[SearchEdge(edge=edge, node=message_from(edge.node.message)) for edge in result.page.edges],
        page_info=PageInfo(page=result.page),
    )
