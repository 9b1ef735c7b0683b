"""The Node interface and the Relay page info that several subjects share."""

from __future__ import annotations

from typing import Any

import strawberry

from resolvers.base.pages import Page
from schema.compiler import reads


@strawberry.interface
class Node:
    id: strawberry.ID


@strawberry.type
class PageInfo:
    page: strawberry.Private[Page[Any]]
    has_next_page: bool = reads("page.has_next")
    has_previous_page: bool = reads("page.has_previous")
    start_cursor: str | None = reads("page.start_cursor")
    end_cursor: str | None = reads("page.end_cursor")
