"""Checks, at the end of a run, that acknowledged reactions, pins, replies and files are there."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping

from tests.chaos.features.feature_actor import FeatureState, SentFiles
from tests.chaos.features.uploads import download
from tests.chaos.judges.acknowledged_marks import Mark, certain_marks
from tests.chaos.judges.history import Json
from tests.chaos.judges.record import Record
from tests.chaos.load.load_state import SentMessage
from tests.chaos.load.requester import Requester


class FeatureCheck:
    """The checks after the load. What its user may not see any more is counted, and not judged."""

    def __init__(self, state: FeatureState, requesters: Mapping[str, Requester]) -> None:
        self.compared: Counter[str] = Counter()
        self._state = state
        self._load = state.load
        self._requesters = requesters
        self._record = Record()

    async def check(self, rows: Mapping[str, Json]) -> None:
        """Compare the API with what was acknowledged. rows: MongoDB's messages by id."""
        self._record = Record.of(self._load.history.lines)
        copies = {copy: reply for reply, copy in self._state.copies.items()}
        marks = certain_marks(self._record.tries, copies)
        await asyncio.gather(
            self._check_marks(marks), self._check_replies(), *map(self._check_files, self._state.with_files.values())
        )
        for reply, copy in self._state.copies.items():
            self.compared["copies"] += 1
            if "bo" not in rows.get(copy, {}):
                self._load.tally.problem(f"{reply} was acknowledged with broadcast, and {copy} is not stored")

    async def _check_marks(self, marks: Mapping[Mark, bool]) -> None:
        by_question: defaultdict[tuple[str, str], list[tuple[Mark, bool]]] = defaultdict(list)
        for mark, value in marks.items():
            for user in [mark.user] if mark.user else self._requesters:
                by_question[user, mark.message].append((mark, value))
        await asyncio.gather(*(self._check_marks_of(*asked, given) for asked, given in by_question.items()))

    async def _check_marks_of(self, user: str, message: str, marks: list[tuple[Mark, bool]]) -> None:
        shown = await self._requesters[user].request("marks", id=message)
        for mark, value in marks:
            kind = "reactions" if mark.emoji else "pins"
            if shown is None:
                self.compared[f"{kind} not visible"] += 1
                continue
            self.compared[kind] += 1
            reacted = {reaction["emoji"] for reaction in shown["reactions"] if reaction["viewerReacted"]}
            found = mark.emoji in reacted if mark.emoji else shown["isPinned"]
            if found != value:
                self._load.tally.problem(f"{mark} must be there: {value}, and {user} is shown {shown}")

    async def _check_replies(self) -> None:
        by_thread: defaultdict[tuple[str, str], list[SentMessage]] = defaultdict(list)
        for sent in self._state.replies.values():
            by_thread[sent.sender, sent.conversation].append(sent)
        await asyncio.gather(*(self._check_replies_in(*place, sent) for place, sent in by_thread.items()))

    async def _check_replies_in(self, user: str, thread: str, replies: list[SentMessage]) -> None:
        shown: dict[str, int] = {}
        page: Json = {"pageInfo": {"hasNextPage": True, "endCursor": None}}
        while page["pageInfo"]["hasNextPage"]:
            after = page["pageInfo"]["endCursor"]
            page = await self._requesters[user].request("replies", id=thread, first=100, after=after)
            if page is None:
                self.compared["replies not visible"] += len(replies)
                return
            shown |= {edge["node"]["id"]: edge["node"]["seq"] for edge in page["edges"]}
        self.compared["replies"] += len(replies)
        for reply in replies:
            if shown.get(reply.id) != reply.seq and await self._is_visible(user, reply.id):
                self._load.tally.problem(f"the reply {reply} was acknowledged, and is not in {thread}: {shown}")

    async def _is_visible(self, user: str, message: str) -> bool:
        """Return whether a user may read a message. A member who came back to a group may read a part of a thread."""
        return await self._requesters[user].request("marks", id=message) is not None

    async def _check_files(self, sent: SentFiles) -> None:
        requester = self._requesters[sent.sender]
        shown = await requester.request("attachments", id=sent.id)
        if shown is None:
            self.compared["files not visible"] += len(sent.contents)
            return
        if sent.id in self._load.recalled:
            self.compared["files of recalled messages"] += len(sent.contents)
            if shown["attachments"] or shown["state"] != "RECALLED":
                self._load.tally.problem(f"{sent.id} was recalled, and shows {shown}")
            return
        if shown["state"] == "RECALLED" and self._may_be_recalled(sent.id):
            return
        files = {file["id"]: file for file in shown["attachments"]}
        if list(files) != list(sent.contents):
            self._load.tally.problem(f"{sent.id} was acknowledged with {list(sent.contents)}, and shows {shown}")
            return
        for id, content in sent.contents.items():
            self.compared["files"] += 1
            found = await download(requester, files[id]["url"])
            if found != content:
                size = None if found is None else len(found)
                self._load.tally.problem(f"{id} of {sent.id} has {size} bytes, not the {len(content)} that were sent")

    def _may_be_recalled(self, message: str) -> bool:
        tries = self._record.tries
        return any(tried.operation == "recallMessage" and tried.variables["id"] == message for tried in tries)
