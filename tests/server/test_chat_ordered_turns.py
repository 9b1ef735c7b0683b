"""Turns order concurrent use cases."""

from __future__ import annotations

import asyncio
import random

import pytest

from resolvers.base.errors import NotAMember
from server.chat_import.ordered_turns import OrderedTurns, OutOfTurn, Turn


async def test_turn_waits_for_earlier_turns() -> None:
    chance = random.Random(3)
    order: list[int] = []
    ended: list[int] = []

    async def use_case(number: int, turn: Turn) -> None:
        async with turn:
            await asyncio.sleep(chance.random() / 50)
            if number % 5:
                await turn.wait()
                order.append(number)
                turn.over.set()
            # Every fifth use case does not wait for its turn.
            await asyncio.sleep(chance.random() / 50)
        ended.append(number)

    turns = OrderedTurns()
    await asyncio.gather(*(use_case(number, turns.next()) for number in range(100)))
    assert order == [number for number in range(100) if number % 5]
    assert ended != sorted(ended), "they run concurrently after their turn"


async def test_failed_turn_stops_later_turns() -> None:
    order: list[int] = []
    refusal = NotAMember("not you")

    async def use_case(number: int, turn: Turn) -> None:
        async with turn:
            await turn.wait()
            if number == 3:
                raise refusal
            order.append(number)
            turn.over.set()

    turns = OrderedTurns()
    results = await asyncio.gather(*(use_case(number, turns.next()) for number in range(8)), return_exceptions=True)
    assert order == [0, 1, 2]
    assert results[:4] == [None, None, None, refusal]
    assert all(isinstance(result, OutOfTurn) for result in results[4:])
    assert turns.failure is refusal


async def test_new_turn_never_comes_after_a_failure() -> None:
    turns = OrderedTurns()
    with pytest.raises(NotAMember):
        async with turns.next():
            raise NotAMember("not you")
    with pytest.raises(OutOfTurn):
        await turns.next().wait()
