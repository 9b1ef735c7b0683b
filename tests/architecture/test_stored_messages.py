"""Servers keep stored messages in memory, so a change of them has to change the contents version (ADR 69)."""

from __future__ import annotations

import re

from tests.architecture.sources import PACKAGES, ROOT, modules

WRITERS = {
    "store/messages/commit_store.py": "inserts; set_newest_message changes the version if a later message was first",
    "store/messages/revision_store.py": "edits and recalls; revise_newest_message changes the version",
    "store/messages/key_owners.py": "marks released keys, which no reader is shown",
    "store/mongo/indexes.py": "marks released keys, which no reader is shown",
    "store/messages/copy_store.py": "copies that follow their replies; revise_newest_message changes the version",
    "store/previews/embed_store.py": "embeds; revise_newest_message changes the version, unless only a mark changes",
    "store/pins/pin_store.py": "pins and unpins; revise_newest_message changes the version",
    "store/reactions/reaction_store.py": "reactions; revise_newest_message changes the version",
    "store/checking/conversations/reaction_summaries.py": "repairs; drops the head, so the version changes",
    "store/conversations/group_store.py": "inserts the first message of a group, before it has a head",
    "store/threads/thread_store.py": "marks parent messages; mark_parent_message changes the version",
    "store/channels/channel_contents.py": "deletes the messages of channels that nobody can see any more",
    "store/retention/expired_messages.py": "deletes expired messages; raise_floor has changed the version before",
}
"""Modules that write messages to MongoDB, and why no server shows what it has kept."""

_WRITE = re.compile(
    r"(?:insert_one|insert_many|update_one|update_many|bulk_write|find_one_and_update|delete_\w+|Write\.\w+)"
    r"\(\s*MESSAGES\b"
)


def test_only_these_modules_write_messages() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in modules(*PACKAGES) if _WRITE.search(path.read_text())}
    assert found == WRITERS.keys()
