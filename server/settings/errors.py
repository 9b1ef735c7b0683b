"""Error for settings that cannot be used."""

from __future__ import annotations


class SettingsError(Exception):
    """Raised when settings are invalid. `problems` has one sentence per problem, without secrets."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
