"""The actions of people with reactions, threads, pins and files, in conversations of all kinds."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from store.base.ids import parse_private
from tests.chaos.features.uploads import upload
from tests.chaos.judges.history import Json
from tests.chaos.load.connection import RequestFailed
from tests.chaos.load.load_end import LoadEnd
from tests.chaos.load.load_state import LoadState, SentMessage
from tests.chaos.load.requester import GaveUp, Requester
from tests.chaos.workspaces.spaces import Spaces

EMOJI = ("👍", "🎉", "🚀", ":party:")

# Each action, and its share of the sum of all.
_WEIGHTS = {
    "react": 16, "unreact": 8, "react_again": 3, "reply": 18, "broadcast": 5, "follow": 3, "unfollow": 3, "pin": 5,
    "unpin": 3, "send_files": 9, "recall_files": 3, "recall_reply": 2, "edit_reply": 3, "read_thread": 4,
    "read_pins": 2,
}  # fmt: skip
CHANGES = ("send_files", "reply", "react", "broadcast", "pin", "follow")
_NEWEST = 12
_LARGEST_FILE = 40_000

# The rights of the actor, or the state of the message, may have changed just before.
_REFUSALS = frozenset({"NOT_FOUND", "FORBIDDEN", "NOT_A_MEMBER", "ARCHIVED", "INVALID_INPUT", "RECALL_TIMEOUT"})


@dataclass(frozen=True, slots=True)
class SentFiles:
    """An acknowledged message with files: their contents by id."""

    id: str
    sender: str
    contents: dict[str, bytes]


@dataclass
class FeatureState:
    """The acknowledged replies and files of a run."""

    load: LoadState
    spaces: Spaces
    replies: dict[str, SentMessage] = field(default_factory=dict)
    """Acknowledged replies by their texts."""
    copies: dict[str, str] = field(default_factory=dict)
    """By reply that was sent with broadcast, its copy in the conversation."""
    with_files: dict[str, SentFiles] = field(default_factory=dict)
    """By message."""


class FeatureActor:
    """A person who annotates messages, replies in threads and sends files."""

    def __init__(self, requester: Requester, state: FeatureState) -> None:
        self.requester = requester
        self.load = state.load
        self.rng = requester.rng
        self.state = state
        self.user = requester.user

    async def act(self, until: LoadEnd, pause: float, first: str) -> None:
        """Act until the load ends, with pauses of that many seconds on average."""
        await self.do(first)
        while await until.rest(self.rng, pause):
            await self.do(self.rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0])

    async def do(self, name: str) -> None:
        """Carry out one action by its name."""
        action: Callable[[], Awaitable[None]] = getattr(self, f"_{name}")
        try:
            await action()
        except RequestFailed as failed:
            if failed.code not in _REFUSALS:
                self.load.tally.problem(f"{self.requester.name}: {name}: {failed}")
        except GaveUp:
            self.load.tally.notes[f"not answered within {self.load.patience:.0f} s: {name}"] += 1

    # --- what to act on

    def _conversations(self) -> list[str]:
        """Return the conversations in which the user may write, as far as the load knows."""
        names = {sent.conversation for sent in self.load.sent.values()}
        mine = [name for name in names if self.user in (parse_private(name) or ())[:2]]
        mine += [name for name, group in self.load.groups.items() if self.user in group.members]
        return sorted(mine) + [channel.id for _, channel in self.state.spaces.visible(self.user)]

    def _pick_message(self, *, replies: bool) -> str | None:
        """Return one of the newest messages of a conversation, or of a thread there."""
        names = self._conversations()
        if not names:
            return None
        name = self.rng.choice(names)
        sent = [*self.load.sent.values(), *self.state.spaces.sent.values()]
        found = [one.id for one in sent if one.conversation == name][-_NEWEST:]
        if replies:
            of_threads = [one.id for one in self.state.replies.values() if one.conversation.endswith(f"_{name}")]
            found += of_threads[-_NEWEST:]
            found += [self.state.copies[id] for id in of_threads if id in self.state.copies][-_NEWEST:]
        return self.rng.choice(found) if found else None

    def _pick_thread(self) -> str | None:
        mine = set(self._conversations())
        threads = {sent.conversation for sent in self.state.replies.values()}
        found = sorted(thread for thread in threads if thread[2:].partition("_")[2] in mine)
        return self.rng.choice(found) if found else None

    # --- reactions

    async def _react(self) -> None:
        await self._change_reactions("addReaction", "removeReaction")

    async def _unreact(self) -> None:
        await self._change_reactions("removeReaction")

    async def _react_again(self) -> None:
        await self._change_reactions("addReaction", "removeReaction", "addReaction")

    async def _change_reactions(self, first: str, *sometimes: str) -> None:
        message, emoji = self._pick_message(replies=True), self.rng.choice(EMOJI)
        if message is not None:
            await self.requester.request(first, id=message, emoji=emoji)
            for operation in sometimes if self.rng.random() < 0.3 else ():
                await self.requester.request(operation, id=message, emoji=emoji)

    # --- threads

    async def _reply(self) -> None:
        await self._send_reply(broadcast=False)

    async def _broadcast(self) -> None:
        await self._send_reply(broadcast=True)

    async def _send_reply(self, *, broadcast: bool) -> None:
        parent = self._pick_message(replies=self.rng.random() < 0.3)
        if parent is None:
            return
        text = self.load.text(self.user)
        self.load.tried.add(text)
        given: Json = {"threadOf": parent, "content": text, "idempotencyKey": text, "broadcast": broadcast}
        began = time.time()
        message = (await self.requester.request("sendMessage", input=given))["message"]
        place = (message["id"], message["conversationId"], message["seq"])
        self.state.replies[text] = SentMessage(*place, self.user, began, time.time())
        if broadcast:
            self.state.copies[message["id"]] = f"m_{int(message['id'][2:]) + 1}"

    async def _follow(self) -> None:
        if thread := self._pick_thread():
            await self.requester.request("followThread", id=thread, follow=True)

    async def _unfollow(self) -> None:
        if thread := self._pick_thread():
            await self.requester.request("followThread", id=thread, follow=False)

    async def _read_thread(self) -> None:
        if thread := self._pick_thread():
            await self.requester.request("replies", id=thread, first=100)
            if self.rng.random() < 0.5:
                await self.requester.request("markRead", id=thread)

    def _own_reply(self) -> str | None:
        own = [sent.id for sent in self.state.replies.values() if sent.sender == self.user]
        return self.rng.choice(own[-4:]) if own else None

    async def _edit_reply(self) -> None:
        if reply := self._own_reply():
            await self.requester.request("editMessage", id=reply, text=f"{self.load.text(self.user)}, edited")
            self.load.edited.add(reply)

    async def _recall_reply(self) -> None:
        if reply := self._own_reply():
            await self.requester.request("recallMessage", id=reply)
            self.load.recalled.add(reply)

    # --- pins

    async def _pin(self) -> None:
        if message := self._pick_message(replies=True):
            await self.requester.request("pinMessage", id=message)

    async def _unpin(self) -> None:
        if name := self._pick_conversation():
            pinned = await self.requester.request("pinnedMessages", id=name)
            if pinned["edges"]:
                await self.requester.request("unpinMessage", id=self.rng.choice(pinned["edges"])["node"]["id"])

    async def _read_pins(self) -> None:
        if name := self._pick_conversation():
            await self.requester.request("pinnedMessages", id=name)

    def _pick_conversation(self) -> str | None:
        names = self._conversations()
        return self.rng.choice(names) if names else None

    # --- files

    async def _send_files(self) -> None:
        conversation = self._pick_conversation()
        if conversation is None:
            return
        contents: dict[str, bytes] = {}
        for _ in range(self.rng.choice((1, 1, 2))):
            content = self.rng.randbytes(self.rng.randint(1, _LARGEST_FILE))
            name = f"{self.load.text(self.user)}.bin"
            contents[await upload(self.requester, conversation, name, content)] = content
        text = self.load.text(self.user)
        self.load.tried.add(text)
        given = {"content": text, "idempotencyKey": text, "attachmentIds": list(contents)}
        if self.rng.random() < 0.3 and (parent := self._pick_parent(conversation)):
            given["threadOf"] = parent
        else:
            given["conversationId"] = conversation
        began = time.time()
        message = (await self.requester.request("sendMessage", input=given))["message"]
        sent = SentMessage(message["id"], message["conversationId"], message["seq"], self.user, began, time.time())
        self.state.with_files[sent.id] = SentFiles(sent.id, self.user, contents)
        if sent.conversation.startswith("t_"):
            self.state.replies[text] = sent
        else:
            (self.state.spaces.sent if conversation.startswith("c_") else self.load.sent)[text] = sent

    def _pick_parent(self, conversation: str) -> str | None:
        sent = [*self.load.sent.values(), *self.state.spaces.sent.values()]
        found = [one.id for one in sent if one.conversation == conversation]
        return self.rng.choice(found[-_NEWEST:]) if found else None

    async def _recall_files(self) -> None:
        own = [sent.id for sent in self.state.with_files.values() if sent.sender == self.user]
        if own:
            message = self.rng.choice(own[-4:])
            await self.requester.request("recallMessage", id=message)
            self.load.recalled.add(message)
