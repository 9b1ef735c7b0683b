"""A list is prefetched once for all its objects, and only for fields that are selected."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import strawberry
from graphql import execute, parse

from schema.compiler import compile_operation, prefetched_by


def _prefetch(calls: list[list[int]], items: Sequence[Item]) -> asyncio.Future[None]:
    calls.append([item.number for item in items])
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    loop.call_soon(future.set_result, None)
    return future


@strawberry.type
class Item:
    number: int

    @strawberry.field(metadata=prefetched_by(_prefetch))
    def doubled(self) -> int:
        return 2 * self.number

    @strawberry.field(metadata=prefetched_by(_prefetch))
    def tripled(self) -> int:
        return 3 * self.number


@strawberry.type
class Edge:
    node: Item | None


@strawberry.type
class Query:
    @strawberry.field
    def items(self) -> list[Item]:
        return [Item(number=number) for number in range(3)]

    @strawberry.field
    def edges(self) -> list[Edge | None]:
        return [Edge(node=Item(number=5)), None, Edge(node=None)]

    @strawberry.field
    def none(self) -> list[Item]:
        return []


SCHEMA = strawberry.Schema(Query)


async def prefetches_of(query: str) -> list[list[int]]:
    """Execute a query, compare its result with graphql-core's, and return the objects of each prefetch."""
    calls: list[list[int]] = []
    operation = compile_operation(SCHEMA, parse(query))
    assert operation is not None
    result = await operation.execute(None, None, calls)
    expected: Any = execute(SCHEMA._schema, parse(query))
    assert result.errors is None and result.data == expected.data
    return calls


async def test_one_prefetch_serves_all_objects_and_all_fields_that_share_it() -> None:
    assert await prefetches_of("{ items { doubled tripled number } none { doubled } }") == [[0, 1, 2]]


async def test_objects_that_are_attributes_of_the_items_are_prefetched() -> None:
    assert await prefetches_of("{ edges { node { number ...Doubled } } } fragment Doubled on Item { doubled }") == [[5]]


async def test_fields_that_are_not_selected_cause_no_prefetch() -> None:
    assert await prefetches_of("{ items { number doubled @skip(if: true) } edges { node { number } } }") == []
