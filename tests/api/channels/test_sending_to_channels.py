"""Messages in channels: who may write, and what a message writes."""

from __future__ import annotations

from tests.api.client import Api
from tests.api.sample_workspace import SampleWorkspace


async def test_members_read_what_others_write(api: Api, workspace: SampleWorkspace) -> None:
    sent = await api.send(workspace.member, workspace.general, "hello everybody")
    assert sent["message"]["seq"] == 1 and sent["session"]["readSeq"] == 1
    await api.send(workspace.other, workspace.general, "hello you")
    history = await api.history(workspace.owner, workspace.general)
    assert [message["content"] for message in history] == ["hello everybody", "hello you"]
