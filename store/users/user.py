"""Users' profiles."""

from __future__ import annotations

from dataclasses import dataclass

from store.base.ids import UserId


@dataclass(frozen=True, slots=True)
class User:
    """A user's public profile. `metadata`: encoded JSON."""

    id: UserId
    name: str | None
    avatar_url: str | None
    is_bot: bool
    metadata: str | None = None

    @property
    def display_name(self) -> str:
        """The name, or the id while no name is set."""
        return self.name or self.id
