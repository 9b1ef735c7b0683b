"""The judge of rights in channels finds each kind of violation, and excuses what is not certain."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.judges.channel_rights import judge_channels
from tests.chaos.judges.history import Json
from tests.chaos.judges.record import Record
from tests.chaos.test_judges import Story, message, page

SPACE, ROOM, STAFF, NEWS = "w_1", "c_1.2", "c_1.3", "c_1.4"


class Channels(Story):
    """A correct history: `o` owns a workspace, `a` joins, is added to a PRIVATE channel, and loses all again."""

    def __init__(self) -> None:
        super().__init__()
        self.ask("o", "createWorkspace", {"input": {}}, {"id": SPACE})
        for id, kind in ((ROOM, "PUBLIC"), (STAFF, "PRIVATE"), (NEWS, "PUBLIC")):
            self.ask("o", "createChannel", {"input": {"kind": kind}}, {"id": id})
        everyone = {"channel": NEWS, "role": "r_1", "deny": ["SEND_MESSAGES"]}
        self.ask("o", "setPermissionOverwrite", everyone, [])
        self.ask("a", "joinWorkspace", {"id": SPACE}, {"id": SPACE})
        self.hello = self.send("a", "hello", "m_10", 1, ROOM)
        self.ask("o", "addToChannel", {"id": STAFF, "users": ["a"]}, {"id": STAFF})
        self.ask("a", "messages", {"id": STAFF}, page())
        self.ask("o", "removeFromChannel", {"id": STAFF, "user": "a"}, {"id": STAFF})
        self.ask("a", "channel", {"id": STAFF}, None)
        self.send("o", "secret", "m_11", 1, STAFF)
        self.ask("o", "setPermissionOverwrite", {"channel": ROOM, "user": "a", "deny": ["VIEW_CHANNEL"]}, [])

    def show(self, user: str, id: str, channel: str) -> None:
        """Add a live event of a message in a channel."""
        shown = message(id, 1, "text") | {"conversationId": channel}
        event = {"__typename": "ChannelMessage", "change": "CREATED", "message": shown}
        self.line("event", device=f"{user}/1", user=user, subscription="channels", live=True, event=event)

    def overwrite(self, *deny: str, code: str = "ok") -> Json:
        return self.ask("o", "setPermissionOverwrite", {"channel": ROOM, "user": "a", "deny": list(deny)}, [], code)

    def found(self) -> list[str]:
        """Return the kinds of the violations, each once."""
        return sorted({violation.kind for violation in judge_channels(Record.of(self.lines))})


def test_a_correct_history_of_channels_has_no_violations() -> None:
    story = Channels()
    assert story.found() == []
    story.overwrite()
    story.send("a", "again", "m_12", 2, ROOM)
    assert story.found() == []


def _read_a_hidden_channel(story: Channels) -> None:
    story.ask("a", "messages", {"id": ROOM}, page())


def _read_as_a_former_member(story: Channels) -> None:
    story.ask("a", "messages", {"id": STAFF}, page(message("m_11", 1, "secret")))


def _read_as_an_outsider(story: Channels) -> None:
    story.ask("z", "channel", {"id": ROOM}, {"id": ROOM})


def _show_an_event_of_a_hidden_channel(story: Channels) -> None:
    story.send("o", "later", "m_13", 2, ROOM)
    story.show("a", "m_13", ROOM)


def _send_to_a_hidden_channel(story: Channels) -> None:
    story.send("a", "late", "m_14", 2, ROOM)


def _send_as_no_writer(story: Channels) -> None:
    story.send("a", "news", "m_15", 1, NEWS)


def _send_to_an_archived_channel(story: Channels) -> None:
    story.ask("o", "archiveChannel", {"id": NEWS, "archived": True}, {"id": NEWS})
    story.send("o", "late", "m_16", 1, NEWS)


def _refuse_a_member(story: Channels) -> None:
    story.ask("a", "messages", {"id": NEWS}, None)


def _refuse_the_owner(story: Channels) -> None:
    story.ask("o", "sendMessage", {"input": {"conversationId": NEWS, "content": "x"}}, None, "FORBIDDEN")


@pytest.mark.parametrize(
    ("spoil", "kinds"),
    [
        (_read_a_hidden_channel, ["shown without a right"]),
        (_read_as_a_former_member, ["shown without a right"]),
        (_read_as_an_outsider, ["shown without a right"]),
        (_show_an_event_of_a_hidden_channel, ["shown without a right"]),
        (_send_to_a_hidden_channel, ["sent without a right", "shown without a right"]),
        (_send_as_no_writer, ["sent without a right"]),
        (_send_to_an_archived_channel, ["sent without a right"]),
        (_refuse_a_member, ["refused with a right"]),
        (_refuse_the_owner, ["refused with a right"]),
    ],
)
def test_each_violation_of_rights_is_found(spoil: Callable[[Channels], None], kinds: list[str]) -> None:
    story = Channels()
    spoil(story)
    assert story.found() == kinds


def test_an_event_may_be_under_way_when_the_right_ends() -> None:
    story = Channels()
    story.show("a", "m_10", ROOM)
    assert story.found() == []


@pytest.mark.parametrize("code", ["lost", "UNAVAILABLE"])
def test_a_change_without_an_answer_may_take_effect_later(code: str) -> None:
    story = Channels()
    story.overwrite(code=code)
    story.ask("a", "messages", {"id": ROOM}, page())
    story.overwrite("VIEW_CHANNEL")
    story.ask("a", "messages", {"id": ROOM}, page())
    assert story.found() == []
    story.now += 60
    story.overwrite("VIEW_CHANNEL")
    _read_a_hidden_channel(story)
    assert story.found() == ["shown without a right"]
