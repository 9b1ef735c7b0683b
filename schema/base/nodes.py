"""The Node interface and the Relay page info that several subjects share."""

from __future__ import annotations

from typing import Any

import strawberry

from resolvers.base.pages import Page


@strawberry.interface
class Node:
    id: strawberry.ID


@strawberry.type
class PageInfo:
    has_next_page: bool
    has_previous_page: bool
    start_cursor: str | None
    end_cursor: str | None


def page_info(page: Page[Any]) -> PageInfo:
    """Return the Relay page info of a page."""
    edges = page.edges
    return PageInfo(
        has_next_page=page.has_next,
        has_previous_page=page.has_previous,
        start_cursor=edges[0].cursor if edges else None,
        end_cursor=edges[-1].cursor if edges else None,
    )
