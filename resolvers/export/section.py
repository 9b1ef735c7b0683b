"""A section of an export: one file of JSON lines in the zip."""

from __future__ import annotations

from array import array
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from resolvers.base.app import Confab
from store.base.ids import ConversationId, FileId, UserId
from store.base.workspace_ids import WorkspaceId

Record = Mapping[str, Any]
"""A line: JSON values by names, which are those of the API where it has the same."""

NO_CONVERSATION = ConversationId("")
"""The conversation of export files. Messages cannot be sent there, so no message can attach these files."""

_CONVERSATIONS_PER_PAGE = 200


@dataclass(slots=True)
class Exported:
    """The user whose data is exported, for the functions of sections.

    Attributes:
        app: The application.
        user: The user.
        files: Files of the user's messages that are not recalled. The section of messages adds them.
        lost_files: Files whose bytes could not be read to their end. The section of files reads it.
    """

    app: Confab
    user: UserId
    files: array[int] = field(default_factory=lambda: array("q"))
    lost_files: set[FileId] = field(default_factory=set)

    async def conversations(self) -> AsyncGenerator[list[ConversationId], None]:
        """Yield all conversations of the user, present and former ones, threads included, in pages."""
        after: ConversationId | None = None
        store = self.app.store
        while page := await store.user_conversations.list_after(self.user, after, _CONVERSATIONS_PER_PAGE):
            yield page
            after = page[-1]

    async def workspaces(self) -> list[WorkspaceId]:
        """Return the workspaces of the user, present and former ones."""
        store = self.app.store
        joined = [each.workspace for each in await store.user_workspaces.list_joined(self.user)]
        former = await store.user_conversations.list_workspaces(self.user)
        return list(dict.fromkeys((*joined, *former)))


@dataclass(frozen=True, slots=True)
class ExportSection:
    """A kind of data of the user.

    Attributes:
        name: The name of its file in the zip, without `.jsonl`.
        title: A description for the user.
        list_records: Yields the records in batches of at most some hundred. Each StoreError begins the export again.
    """

    name: str
    title: str
    list_records: Callable[[Exported], AsyncGenerator[Sequence[Record], None]]
