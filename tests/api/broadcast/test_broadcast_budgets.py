"""Round trips of broadcasts when everything is cached."""

from __future__ import annotations

from tests.api.broadcast.calls import PAGE, broadcast
from tests.api.client import Api
from tests.api.requests.test_budgets import Meter
from tests.api.threads.live_calls import PLACES, make_thread


async def test_a_broadcast_costs_no_more_than_a_message(api: Api) -> None:
    meter = Meter(api)
    for kind in PLACES:
        place = await make_thread(api, kind)
        for user in (place.first, place.second):
            await api.sessions(user)
        await meter.expect(
            f"sendMessage with broadcast, {kind}",
            lambda place=place: meter.send(place.second, place.parent["id"], broadcast=True),  # type: ignore[misc]
            1,
            2,
        )


async def test_a_page_with_copies_takes_one_more_read(api: Api) -> None:
    meter = Meter(api)
    place = await make_thread(api, "group")
    for number in range(10):
        await broadcast(api, place.second, place, f"both {number}")
    await meter.expect("messages with copies", lambda: api.data(place.first, PAGE, id=place.conversation), 3, 2)
