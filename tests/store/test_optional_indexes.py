"""The order in which optional indexes are built."""

from __future__ import annotations

from store.mongo.collections import SEARCH
from store.mongo.indexes import OPTIONAL


def test_the_indexes_that_searches_name_are_built_before_those_of_large_collections() -> None:
    """A search fails until they exist. After an upgrade an index of `messages` may take an hour."""
    assert [collection for collection, _ in OPTIONAL[:2]] == [SEARCH, SEARCH]
    assert SEARCH not in {collection for collection, _ in OPTIONAL[2:]}
