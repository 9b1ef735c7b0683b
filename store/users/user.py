"""A user's public profile, as a record."""

from __future__ import annotations

from dataclasses import dataclass

from store.base.ids import UserId


@dataclass(frozen=True, slots=True)
class User:
    """A user's public face. `display_name` falls back to the id until somebody sets one."""

    id: UserId
    name: str | None
    avatar_url: str | None
    is_bot: bool

    @property
    def display_name(self) -> str:
        return self.name or self.id
