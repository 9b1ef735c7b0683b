"""The text that explains an export to the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from resolvers.export.section import ExportSection
from store.base.ids import UserId

_INTRODUCTION = """\
This is what the chat server has stored of what you wrote, uploaded and set.

User: {user}
Made on: {time} UTC

Each file that ends in .jsonl is text. Every line in it is one JSON object. Times are in UTC. Other people appear only
with their ids, where you mentioned them or wrote to them: what they wrote is theirs, and is not in here.

"""

_END = """
The folder files has the bytes of your files. A name begins with the id of the file. In files.jsonl, "path" is the name
in this zip; it is null if the bytes are not there: the file was rejected, or was removed while this was made.

Messages that you recalled are included with their text as long as the server stores them. Earlier versions of a
message that you edited are not stored. Reactions are found in the conversations listed in conversations.jsonl.
"""


def readme(user: UserId, now_ms: int, sections: Sequence[ExportSection], counts: Mapping[str, int]) -> str:
    """Return the text. counts: number of lines, by section."""
    time = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    lines = [f"{section.name}.jsonl ({counts[section.name]:,}): {section.title}\n" for section in sections]
    return "".join((_INTRODUCTION.format(user=user, time=time), *lines, _END))
