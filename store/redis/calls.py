"""Calls to Redis as repositories write them, the scripts they name, and their form in the Redis protocol (RESP)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import hiredis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError


@dataclass(slots=True)
class Call:
    """A Redis command, or a script by its name, with its keys and arguments."""

    name: str
    keys: tuple[str, ...]
    args: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script with the text it includes, and the SHA-1 digest that EVALSHA calls it by."""

    name: str
    source: str
    digest: str


class FormerGeneration(RedisConnectionError):
    """A key is named by a former generation of Redis. Nothing was sent."""


ReadScripts = Callable[[bool], Mapping[str, Script]]
"""Returns all scripts by name. The argument is True for a Redis Cluster."""


def encode_command(words: tuple[Any, ...]) -> bytes:
    """Return a command in the Redis protocol. Raises TypeError for a word that Redis cannot store."""
    try:
        encoded: bytes = hiredis.pack_command(words)
    except TypeError:
        # hiredis takes plain types only, not subclasses: integers that MongoDB returns, members of enums.
        encoded = hiredis.pack_command(tuple(map(_plain, words)))  # type: ignore[arg-type]  # its stub expects a pair
    return encoded


def error_reply(text: str) -> ResponseError:
    """Return the exception for an error reply."""
    return NoScriptError(text) if text.startswith("NOSCRIPT") else ResponseError(text)


def _plain(word: Any) -> str | int | float | bytes:
    match word:
        case str():
            return str(word)
        case int() if not isinstance(word, bool):
            return int(word)
        case float() | bytes():
            return word
        case _:
            raise TypeError(f"Redis cannot store a {type(word).__name__}")
