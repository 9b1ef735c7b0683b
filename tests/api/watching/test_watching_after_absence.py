"""Users who look at a thread, do not follow it, and were away from the group for a time."""

from __future__ import annotations

import pytest

from tests.api.client import Api
from tests.api.reactions.calls import react
from tests.api.threads.live_calls import look, next_of, shown


@pytest.mark.parametrize("is_follower", [False, True], ids=["watching", "following"])
async def test_no_change_of_a_reply_from_the_time_of_absence_is_shown(api: Api, is_follower: bool) -> None:
    anna, ben, cleo = await api.create_users("anna", "ben", "cleo")
    group = await api.create_group(anna, ben, cleo)
    parent = (await api.send(anna, group, "parent"))["message"]
    before = (await api.send(ben, parent["id"], "before"))["message"]
    if is_follower:
        await api.send(cleo, parent["id"], "I follow")
    await api.leave(cleo, group)
    hidden = [(await api.send(ben, parent["id"], f"hidden {number}"))["message"] for number in range(2)]
    await api.invite(anna, group, cleo)
    await api.wait_until_idle()
    device = await look(api, cleo, before["conversationId"])
    own = await api.listen(cleo)
    await api.edit(ben, hidden[0]["id"], "edited while hidden")
    await react(api, anna, hidden[0]["id"])
    await api.recall(ben, hidden[1]["id"])
    await api.wait_until_idle()
    await api.edit(ben, before["id"], "shown")
    seen = await next_of(device, "ChannelMessage", "ChannelReactions")
    assert shown(seen)[1:] == (before["seq"], "shown")
    if is_follower:
        assert shown(await next_of(own, "MessageUpdated", "MessageRecalled"))[1:] == (before["seq"], "shown")
