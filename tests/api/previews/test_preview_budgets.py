"""Round trips of messages with links and embeds: as many as without."""

from __future__ import annotations

from tests.api.client import Api
from tests.api.previews.site import SHOWN, FakeSite, send
from tests.api.requests.test_budgets import Meter

PAGE = f"query ($id: ID!) {{ messages(conversationId: $id, last: 50) {{ edges {{ node {{ {SHOWN} }} }} }} }}"


async def test_a_message_with_a_link_costs_its_sender_no_more(api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.sessions(alice)
    site.hold()
    meter = Meter(api)

    async def release() -> None:
        site.answers.set()
        await api.wait_until_idle()
        site.hold()

    async def send_link() -> None:
        await meter.send(alice, group, content="https://site.test/a")

    await meter.expect("sendMessage with a link", send_link, 1, 2, prepare=release)
    site.answers.set()


async def test_a_page_of_messages_with_embeds_costs_no_more(api: Api, site: FakeSite) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    for number in range(10):
        await send(api, alice, group, f"https://site.test/{number}")
    await Meter(api).expect("messages with embeds", lambda: api.data(bob, PAGE, id=group), 1, 1)
