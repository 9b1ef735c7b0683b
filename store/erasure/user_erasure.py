"""The steps of an erasure, as one object."""

from __future__ import annotations

from dataclasses import dataclass

from store.erasure.private_moves import PrivateMoves
from store.erasure.redis_clearing import RedisClearing
from store.erasure.row_rewriting import RowRewriting
from store.erasure.user_contents import UserContents


@dataclass(frozen=True, slots=True)
class UserErasure:
    """The steps of an erasure."""

    rewriting: RowRewriting
    moves: PrivateMoves
    contents: UserContents
    clearing: RedisClearing
