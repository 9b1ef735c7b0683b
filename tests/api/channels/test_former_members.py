"""Users who were in a PRIVATE channel that has become PUBLIC."""

from __future__ import annotations

import pytest

from tests.api.channels.calls import Made
from tests.api.channels.follow_calls import rows_of
from tests.api.channels.session_calls import ADD, FOLLOW, REMOVE, change
from tests.api.client import Api


@pytest.fixture
async def channel(api: Api, made: Made) -> str:
    """A PUBLIC channel that was PRIVATE. The member was in it for one message, and was removed then."""
    name: str = (await made.create(kind="PRIVATE", memberIds=[made.member], historyVisibility="SINCE_JOIN"))["id"]
    await api.send(made.owner, name, "while a member")
    await change(api, made.owner, REMOVE, id=name, user=made.member)
    await api.send(made.owner, name, "after that")
    await made.update(name, kind="PUBLIC")
    return name


@pytest.mark.parametrize("is_added", [True, False])
async def test_former_members_follow_a_public_channel(api: Api, made: Made, channel: str, is_added: bool) -> None:
    for _ in range(2):
        for _ in range(2):
            if is_added:
                await change(api, made.owner, ADD, id=channel, users=[made.member])
            else:
                await change(api, made.member, FOLLOW, id=channel)
            assert rows_of(api, channel) == {made.owner, made.member}
        for _ in range(2):
            left = await change(api, made.member, FOLLOW, id=channel, follow=False)
            assert (left["viewerFollows"], left["memberCount"]) == (False, 1)
            assert rows_of(api, channel) == {made.owner}


async def test_earlier_memberships_are_kept_when_the_channel_is_private_again(
    api: Api, made: Made, channel: str
) -> None:
    await change(api, made.member, FOLLOW, id=channel)
    await change(api, made.member, FOLLOW, id=channel, follow=False)
    await api.send(made.owner, channel, "not following")
    await change(api, made.member, FOLLOW, id=channel)
    await made.update(channel, kind="PRIVATE")
    await api.send(made.owner, channel, "a member again")
    seen = [message["content"] for message in await api.history(made.member, channel)]
    assert seen == ["while a member", "a member again"]
