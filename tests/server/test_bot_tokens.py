"""`confab token --bot` makes a user a bot for all servers, and prints a token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import jwt
import pytest
from pymongo import MongoClient

from server.cli import commands as cli
from server.cli.tokens import mark_as_bot
from server.errors import CommandError
from server.settings import Settings
from store.base.ids import UserId
from store.mongo.client import Mongo
from tests.server.test_revocation import served
from tests.server.tokens import SECRET
from tests.waiting import TIMEOUT_SECONDS

BOT = UserId("auth0|helper")
Users = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def in_environment(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for field in ("mongo_url", "redis_url", "mongo_database", "redis_prefix"):
        monkeypatch.setenv(f"CONFAB_{field.upper()}", getattr(settings, field))
    monkeypatch.setenv("CONFAB_JWT_SECRET", SECRET)


@pytest.fixture
def users(settings: Settings, _mongo_janitor: MongoClient[dict[str, Any]]) -> Users:
    """The stored users."""
    return lambda: list(_mongo_janitor[settings.mongo_database]["users"].find())


async def test_running_servers_know_the_bot_and_accept_its_token(
    settings_with: Callable[..., Settings], in_environment: None, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_with(jwt_secret=SECRET)
    async with served(settings) as one, served(settings) as two:

        async def ask(server: Any, token: str) -> dict[str, Any]:
            headers = {"authorization": f"Bearer {token}"}
            answer = await server.http.post(
                "/graphql", json={"query": "{ me { id displayName isBot } }"}, headers=headers
            )
            me: dict[str, Any] = answer.json()["data"]["me"]
            return me

        await asyncio.to_thread(cli.token, BOT, name="Helper")
        person = capsys.readouterr().out.split()[-1]
        for server in (one, two):
            assert await ask(server, person) == {"id": BOT, "displayName": "Helper", "isBot": False}
        await asyncio.to_thread(cli.token, BOT, bot=True, name="Another name")
        printed = capsys.readouterr()
        token = printed.out.split()[-1]
        assert f"{BOT} is a bot." in printed.err
        for server in (one, two):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not (await ask(server, token))["isBot"]:  # noqa: ASYNC110  # only the server knows
                    await asyncio.sleep(0.01)
            assert await ask(server, token) == {"id": BOT, "displayName": "Helper", "isBot": True}


async def test_a_bot_that_is_new_gets_its_name_at_its_first_request(
    settings_with: Callable[..., Settings], in_environment: None, capsys: pytest.CaptureFixture[str], users: Users
) -> None:
    await asyncio.to_thread(cli.token, BOT, bot=True, name="Helper")
    token = capsys.readouterr().out.strip()
    claims = jwt.decode(token, SECRET, ["HS256"])
    assert claims["exp"] - claims["iat"] == pytest.approx(365 * 86_400, abs=1)
    (stored,) = users()
    assert (stored["_id"], stored["n"], stored["bot"]) == (BOT, None, True)
    async with served(settings_with(jwt_secret=SECRET)) as server:
        headers = {"authorization": f"Bearer {token}"}
        query = {"query": "{ me { displayName isBot } }"}
        answer = (await server.http.post("/graphql", json=query, headers=headers)).json()
    assert answer["data"]["me"] == {"displayName": "Helper", "isBot": True}


@pytest.mark.parametrize("wrong", [{"user": "white space"}, {"ttl": "0"}, {"ttl": "soon"}])
def test_a_refused_token_makes_nobody_a_bot(in_environment: None, users: Users, wrong: dict[str, str]) -> None:
    with pytest.raises(Exception, match=r"user id|above 0|--ttl"):
        cli.token(**({"user": BOT, "bot": True} | wrong))
    assert users() == []


def test_with_a_jwk_set_nobody_is_made_a_bot(
    in_environment: None, monkeypatch: pytest.MonkeyPatch, users: Users
) -> None:
    monkeypatch.delenv("CONFAB_JWT_SECRET")
    monkeypatch.setenv("CONFAB_JWKS_URL", "https://id.example.org/jwks")
    with pytest.raises(CommandError, match="upsertUsers with isBot: true"):
        cli.token(BOT, bot=True)
    assert users() == []


async def test_an_unreachable_database_is_named(
    settings: Settings, settings_with: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch, users: Users
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("server.cli.tokens.Mongo", partial(Mongo, timeout_ms=100))
        with pytest.raises(CommandError, match=r"may not be a bot yet: MongoDB"):
            await mark_as_bot(settings_with(mongo_url="mongodb://127.0.0.1:9"), BOT)
    assert users() == []
    with pytest.raises(CommandError, match=r"is a bot now, but Redis"):
        await mark_as_bot(settings_with(redis_url="redis://127.0.0.1:9"), BOT)
    assert [user["bot"] for user in users()] == [True]
    # It may be repeated.
    await mark_as_bot(settings, BOT)
    assert [user["bot"] for user in users()] == [True]
