"""The inventory of user ids is complete: a new collection or key fails here until its treatment is decided."""

from __future__ import annotations

import inspect

from store.deployment import chat_imports, worker_numbers
from store.erasure.inventory import COLLECTIONS, KEYS, Treatment
from store.mongo import collections
from store.redis.keys import Keys

_FIELDS = ("PENDING", "LINKS", "PIN_", "HELD_UNTIL", "BLOCKED_USER", "BLOCK_PENDING")
"""Beginnings of the names of constants that are no collections."""

_NAMES = {
    value
    for name, value in vars(collections).items()
    if name.isupper() and isinstance(value, str) and not name.startswith(_FIELDS)
}


def test_every_collection_has_a_treatment() -> None:
    assert set(COLLECTIONS) == _NAMES | {chat_imports.IMPORTS, worker_numbers.LEASES}


def test_every_kind_of_key_has_a_treatment() -> None:
    members = inspect.getmembers(Keys, lambda member: inspect.isfunction(member) or isinstance(member, property))
    kinds = {name for name, _ in members if not name.startswith("_")} - {"enter"}
    assert set(KEYS) == kinds


def test_collections_without_users_have_no_fields() -> None:
    for rule in COLLECTIONS.values():
        assert rule.treatment is not Treatment.NO_USERS or not rule.fields


def test_the_parts_of_each_row_id_are_known() -> None:
    unknown = {
        name
        for name, rule in COLLECTIONS.items()
        if rule.treatment is not Treatment.NO_USERS and rule.layout is None and not rule.layouts
    }
    # Rows about messages have a number, those about keys the user first.
    assert unknown == {collections.ORIGINS}
