"""Revoked tokens and withdrawn keys: refused everywhere, and their connections are closed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm
from pymongo import MongoClient

from resolvers.base.errors import Unauthenticated, Unavailable
from resolvers.users.callers import Caller, CallerRole
from server.app import create_app
from server.auth.auth_guard import AuthGuard
from server.auth.authenticator import Authenticator
from server.auth.token_claims import LEEWAY_SECONDS
from server.auth.websocket import websocket_authenticator
from server.cli import commands as cli
from server.cli.revoke import revoke_tokens
from server.cli.serve import _config
from server.errors import CommandError
from server.overload.load_shedding import LoadShedding
from server.services import open_services
from server.settings import Settings
from store.base.ids import UserId
from store.mongo.client import Mongo
from subscriptions.realtime.revocations import Revocations
from subscriptions.transport.close_codes import TRY_AGAIN_LATER
from subscriptions.transport.engine import Json
from subscriptions.transport.websocket import ConnectionRefusedByAuth
from tests.conftest import send_to_redis
from tests.protocol.peer import Peer, open_admitted_socket
from tests.protocol.serving import PATIENCE, serving, until
from tests.server.tokens import NOW, SECRET, bearer, signed

ME = "{ me { id } }"
RENEW = "mutation ($token: String!) { renewAuth(token: $token) }"
REVOKED = (4403, "Token revoked")
ALICE = UserId("alice")


@dataclass
class Server:
    """A server and its clients."""

    port: int
    http: httpx.AsyncClient
    clients: AsyncExitStack

    async def socket(self, authorization: str, **payload: str) -> Peer:
        url = f"ws://127.0.0.1:{self.port}/graphql"
        peer = await self.clients.enter_async_context(open_admitted_socket(url))
        await peer.send({"type": "connection_init", "payload": {"Authorization": authorization} | payload})
        return peer

    async def connect(self, authorization: str) -> Peer:
        peer = await self.socket(authorization)
        assert await peer.receive() == {"type": "connection_ack"}
        return peer

    async def is_refused(self, authorization: str) -> bool:
        """Return whether a token is refused. HTTP and new WebSockets must agree."""
        headers = {"authorization": authorization}
        answer = (await self.http.post("/graphql", json={"query": ME}, headers=headers)).json()
        peer = await self.socket(authorization)
        if "data" in answer:
            assert await peer.receive() == {"type": "connection_ack"}
            return False
        assert answer["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"
        assert (await peer.closed())[0] == 4403
        return True


@asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[Server]:
    async with serving(_config(create_app(settings), settings)) as process, AsyncExitStack() as clients:
        http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{process.port}", timeout=PATIENCE)
        yield Server(process.port, await clients.enter_async_context(http), clients)


def token(user: str, age: float | None = 10, *, ttl: float = 600) -> str:
    """Return a header with a user's token, issued some seconds ago. None omits the time of issue."""
    now = time.time()
    return bearer(sub=user, exp=now + ttl, iat=None if age is None else now - age)


@pytest.fixture
def in_environment(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for field in ("mongo_url", "redis_url", "mongo_database", "redis_prefix"):
        monkeypatch.setenv(f"CONFAB_{field.upper()}", getattr(settings, field))


async def test_revocation_closes_connections_on_all_servers(
    settings_with: Callable[..., Settings],
    in_environment: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Servers learn of the revocation from a notification, and not when they read all revocations again.
    monkeypatch.setattr("store.base.repeated_read.CHECK_SECONDS", 3600.0)
    settings = settings_with(jwt_secret=SECRET)
    old, undated, of_bob = token("alice"), token("alice", None), token("bob")
    async with served(settings) as one, served(settings) as two:
        ended = [await server.connect(each) for server in (one, two) for each in (old, undated)]
        bob = await one.connect(of_bob)
        # The issuer's clock may be ahead: a token dated in the near future can be older than the revocation.
        ahead = token("alice", -2)
        await asyncio.to_thread(cli.revoke, "alice")
        told = capsys.readouterr().out
        assert [await peer.closed() for peer in ended] == [REVOKED] * 4
        assert "Tokens of alice that were issued until 20" in told
        for server in (one, two):
            assert [await server.is_refused(each) for each in (old, undated, ahead, of_bob)] == [
                True,
                True,
                True,
                False,
            ]
        assert await bob.is_alive()
    async with served(settings) as restarted:
        assert [await restarted.is_refused(each) for each in (old, ahead, of_bob)] == [True, True, False]


async def test_token_issued_after_the_revocation_is_accepted(settings_with: Callable[..., Settings]) -> None:
    settings = settings_with(jwt_secret=SECRET)
    async with served(settings) as server:
        await revoke_tokens(settings, "alice", time.time() - 60)
        old, new = token("alice", 70), token("alice", 50)
        assert [await server.is_refused(each) for each in (old, new)] == [True, False]
        alice = await server.connect(new)
        await alice.subscribe("renew", RENEW, variables={"token": old.removeprefix("Bearer ")})
        (refused,) = (await alice.receive())["payload"]["errors"]
        assert (refused["extensions"]["code"], refused["message"]) == ("UNAUTHENTICATED", "The token was revoked.")
        assert (await alice.receive())["type"] == "complete"
        assert await alice.is_alive()


async def test_connections_that_act_for_a_user_end_with_the_services_token(
    settings_with: Callable[..., Settings], in_environment: None
) -> None:
    settings = settings_with(jwt_secret=SECRET)
    backend = bearer(sub="backend", role="service", exp=time.time() + 600, iat=time.time() - 10)
    async with served(settings) as server:
        peer = await server.socket(backend, actAs="alice")
        assert await peer.receive() == {"type": "connection_ack"}
        await asyncio.to_thread(cli.revoke, "alice")
        assert await server.is_refused(token("alice"))
        assert await peer.is_alive()
        await asyncio.to_thread(cli.revoke, "backend")
        assert await peer.closed() == REVOKED
        headers = {"authorization": backend, "confab-act-as": "alice"}
        answer = (await server.http.post("/graphql", json={"query": ME}, headers=headers)).json()
        assert answer["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"


async def test_server_without_notification_applies_the_revocation(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_services(settings) as services:
        rows, known = services.app.store.revocations, services.revocations
        await rows.revoke(ALICE, 2_000)
        send_to_redis(settings.redis_url, "CLIENT", "KILL", "TYPE", "pubsub")
        await until(lambda: known.is_revoked(ALICE, 1.9))
        assert not known.is_revoked(ALICE, 2.0)
    monkeypatch.setattr("store.base.repeated_read.CHECK_SECONDS", 0.05)
    async with open_services(settings) as services:
        rows, known = services.app.store.revocations, services.revocations
        assert known.is_revoked(ALICE, 1.9)
        await rows.revoke(ALICE, 3_000)
        await until(lambda: known.is_revoked(ALICE, 2.9))
        # An earlier revocation, from a slow clock, does not undo a later one.
        await rows.revoke(ALICE, 1_000)
        await rows.revoke(UserId("bob"), 3_000)
        await until(lambda: known.is_revoked(UserId("bob"), None))
        assert known.is_revoked(ALICE, 2.9)
        assert await rows.list_since(0) == {"alice": 3_000, "bob": 3_000}


async def test_nobody_is_admitted_before_revocations_are_loaded(settings: Settings, clock: Any) -> None:
    async with open_services(settings) as services:
        store = services.app.store
        known = Revocations(store.revocations, store.erased_users, services.app.bus, store.clock)
        admission = AuthGuard(Authenticator(Settings(jwt_secret=SECRET), clock), known, services.app.bans)
        with pytest.raises(Unavailable):
            await admission.authenticate(signed())
        await known.reading.open()
        assert (await admission.authenticate(signed())).user_id == ALICE
        await known.reading.close()


async def test_user_revoked_while_signing_in_is_refused() -> None:
    revoked = False

    async def authenticate(_token: str) -> Caller:
        if revoked:
            raise Unauthenticated("The token was revoked.")
        return Caller(ALICE, CallerRole.USER, NOW)

    async def sign_in(_caller: Caller) -> None:
        nonlocal revoked
        revoked = True

    with pytest.raises(ConnectionRefusedByAuth) as caught:
        await websocket_authenticator(authenticate, sign_in, LoadShedding(1, 1))({"Authorization": bearer()})
    assert (caught.value.close.code, caught.value.close.reason) == (4403, "The token was revoked.")


async def test_websocket_with_an_uncheckable_token_is_closed_with_1013() -> None:
    async def authenticate(_token: str) -> Caller:
        raise Unavailable("Which tokens were revoked is not known yet, please try again.")

    async def sign_in(_caller: Caller) -> None:
        raise AssertionError("who was not judged cannot be signed in")

    with pytest.raises(ConnectionRefusedByAuth) as caught:
        await websocket_authenticator(authenticate, sign_in, LoadShedding(1, 1))({"Authorization": bearer()})
    assert caught.value.close == TRY_AGAIN_LATER


async def test_revoke_reports_which_database_is_unreachable(
    settings: Settings,
    settings_with: Callable[..., Settings],
    _mongo_janitor: MongoClient[Json],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = _mongo_janitor[settings.mongo_database]["revocations"]
    with pytest.raises(CommandError, match=r"^A user id is"):
        await revoke_tokens(settings, "al ice", NOW)
    monkeypatch.setattr("server.cli.revoke.Mongo", partial(Mongo, timeout_ms=100))
    down = settings_with(mongo_url="mongodb://127.0.0.1:9")
    with pytest.raises(CommandError, match=r"^Nothing was revoked: MongoDB"):
        await revoke_tokens(down, "auth0|7", NOW)
    monkeypatch.undo()
    assert list(rows.find()) == []
    down = settings_with(redis_url="redis://127.0.0.1:9")
    with pytest.raises(CommandError, match=r"^The revocation is stored, but Redis"):
        await revoke_tokens(down, "auth0|7", NOW + 0.2)
    assert list(rows.find()) == [{"_id": "auth0|7", "at": round((NOW + LEEWAY_SECONDS + 0.2) * 1000)}]
    assert await revoke_tokens(settings, "auth0|7", NOW + 0.2) == "2027-01-15T08:00:06Z"


# Keys


class Key:
    """A key pair that signs tokens."""

    def __init__(self, kid: str) -> None:
        self.kid = kid
        self._private = Ed25519PrivateKey.generate()

    def token(self, user: str) -> str:
        claims = {"sub": user, "exp": time.time() + 600}
        return "Bearer " + jwt.encode(claims, self._private, "EdDSA", {"kid": self.kid})

    def published(self) -> dict[str, Any]:
        return {**OKPAlgorithm.to_jwk(self._private.public_key(), as_dict=True), "kid": self.kid}


async def test_withdrawn_key_closes_only_its_connections(
    settings_with: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.auth.auth_guard.RECHECK_SECONDS", 0.05)
    monkeypatch.setattr("server.auth.jwks.MIN_FETCH_INTERVAL_SECONDS", 0)
    leaving, staying, path = Key("one"), Key("two"), tmp_path / "jwks.json"

    def publish(*keys: Key) -> None:
        whole = path.with_suffix(".new")
        whole.write_text(json.dumps({"keys": [key.published() for key in keys]}))
        whole.replace(path)

    publish(leaving, staying)
    async with served(settings_with(jwks_file=path)) as server:
        ends, stays = await server.connect(leaving.token("alice")), await server.connect(staying.token("bob"))
        known = leaving.token("alice")
        assert not await server.is_refused(known)
        # A new key with the same key id is another key.
        publish(staying, Key("one"))
        assert await ends.closed() == (4403, "The token's key was withdrawn")
        assert await server.is_refused(known)
        assert await stays.is_alive()
        assert not await server.is_refused(staying.token("bob"))
        # If the set cannot be read, the current keys stay in force.
        path.unlink()
        await asyncio.sleep(0.12)
        assert await stays.is_alive()
