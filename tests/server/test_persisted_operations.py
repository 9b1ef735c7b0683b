"""Persisted operations: requests that name a document by its id, over every transport."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from server.http.persisted_operations import load_persisted_operations
from server.settings import Settings, SettingsError, load_settings
from tests.server.served_app import App, ServeApp
from tests.server.tokens import bearer

ME = "query Me { me { id } }"
LIVE = "subscription Live { messageEvents { __typename } }"
SEND = 'mutation Send($to: ID!) { sendMessage(input: {toUserId: $to, content: "hi"}) { message { seq } } }'
MINE = {"data": {"me": {"id": "alice"}}}
PACKAGES = Path(__file__).parents[2] / "bench" / "node_modules"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def operations(tmp_path: Path) -> Callable[[Any], Path]:
    """Write a file of operations."""

    def write(held: Any) -> Path:
        path = tmp_path / "operations.json"
        path.write_text(held if isinstance(held, str) else json.dumps(held))
        return path

    return write


@pytest.fixture
def registered(operations: Callable[[Any], Path]) -> Path:
    return operations({sha256(ME): ME, "live": LIVE, "b5d2b3a1c5e08bf14bcc2ff3a8d3a9d4": SEND})


def bearer_of_alice() -> dict[str, str]:
    return {"authorization": bearer(sub="alice", exp=time.time() + 60)}


async def ask(app: App, body: dict[str, Any], **headers: str) -> Any:
    """Return the response to a POST of alice."""
    return (await app.http.post("/graphql", json=body, headers=bearer_of_alice() | headers)).json()


def code(answer: Any) -> str:
    """Return the code of the only error."""
    assert set(answer) == {"errors"}
    (failure,) = answer["errors"]
    return str(failure["extensions"]["code"])


async def test_document_can_be_named_in_every_common_way(serve_app: ServeApp, registered: Path) -> None:
    hashed = {"persistedQuery": {"version": 1, "sha256Hash": sha256(ME)}}
    async with serve_app(operations_file=registered) as app:
        for named in (
            {"documentId": sha256(ME)},
            {"documentId": f"sha256:{sha256(ME)}"},
            {"doc_id": sha256(ME), "query": None},
            {"extensions": hashed, "query": "", "operationName": "Me"},
        ):
            assert await ask(app, named) == MINE
        sent = await ask(app, {"doc_id": "b5d2b3a1c5e08bf14bcc2ff3a8d3a9d4", "variables": {"to": "nobody"}})
        assert code({"errors": sent["errors"]}) == "NOT_FOUND"
        for parameters in ({"documentId": sha256(ME)}, {"extensions": json.dumps(hashed)}):
            got = await app.http.get("/graphql", params=parameters, headers=bearer_of_alice())
            assert got.json() == MINE
        # GET runs no mutation, also by id.
        send = {"documentId": "b5d2b3a1c5e08bf14bcc2ff3a8d3a9d4"}
        changing = await app.http.get("/graphql", params=send, headers=bearer_of_alice())
        assert changing.status_code == 405

        events = await app.http.post(
            "/graphql", json={"documentId": sha256(ME)}, headers=bearer_of_alice() | {"accept": "text/event-stream"}
        )
        assert f"data: {json.dumps(MINE, separators=(',', ':'))}" in events.text
        stream = (await app.http.put("/graphql", headers=bearer_of_alice())).text
        on_stream = {"documentId": "live", "extensions": {"operationId": "1"}}
        begun = await app.http.post(
            "/graphql", json=on_stream, headers=bearer_of_alice() | {"x-graphql-event-stream-token": stream}
        )
        assert begun.status_code == 202

        peer = await app.signed_in("alice")
        await peer.send({"id": "1", "type": "subscribe", "payload": {"documentId": sha256(ME)}})
        assert await peer.receive() == {"id": "1", "type": "next", "payload": MINE}
        assert (await peer.receive())["type"] == "complete"
        await peer.send({"id": "2", "type": "subscribe", "payload": {"doc_id": "live"}})
        assert (await peer.receive())["payload"] == {"data": {"messageEvents": {"__typename": "CaughtUp"}}}


async def test_unknown_id_makes_clients_send_the_text(serve_app: ServeApp, registered: Path) -> None:
    hashed = {"extensions": {"persistedQuery": {"version": 1, "sha256Hash": sha256("{ other }")}}}
    async with serve_app(operations_file=registered) as app:
        answer = await ask(app, hashed)
        assert (answer["errors"][0]["message"], code(answer)) == ("PersistedQueryNotFound", "INVALID_INPUT")
        text = "{ me { id } totalUnread }"
        hashed["extensions"]["persistedQuery"]["sha256Hash"] = sha256(text)
        assert (await ask(app, hashed | {"query": text}))["data"]["totalUnread"] == 0
        # Sending a document does not persist it.
        assert code(await ask(app, hashed)) == "INVALID_INPUT"
        peer = await app.signed_in("alice")
        await peer.send({"id": "1", "type": "subscribe", "payload": {"documentId": "nothing"}})
        refused = await peer.receive()
        assert (refused["type"], refused["payload"][0]["message"]) == ("error", "PersistedQueryNotFound")


async def test_clients_send_texts_if_there_is_no_file(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        answer = await ask(app, {"documentId": sha256(ME)})
        assert (answer["errors"][0]["message"], code(answer)) == ("PersistedQueryNotSupported", "INVALID_INPUT")
        for wrong in ({"documentId": 1}, {"doc_id": ""}, {"extensions": {"persistedQuery": {}}}, {"variables": {}}, {}):
            assert code(await ask(app, wrong)) == "INVALID_INPUT"


async def test_only_persisted_operations_run_if_configured(serve_app: ServeApp, registered: Path) -> None:
    send = 'mutation { sendMessage(input: {toUserId: "bob", content: "hi"}) { message { seq } } }'
    async with serve_app(operations_file=registered, operations_only=True, introspection=True) as app:
        await app.http.post(
            "/graphql", json={"query": ME}, headers={"authorization": bearer(sub="bob", exp=time.time() + 60)}
        )
        for served in ({"documentId": sha256(ME)}, {"query": ME}):
            assert await ask(app, served) == MINE
        for refused in (f"{ME} ", "{ me { id } }", "{ __schema { queryType { name } } }", "nonsense", send):
            assert code(await ask(app, {"query": refused})) == "FORBIDDEN"
            # An id does not make another text acceptable.
            assert code(await ask(app, {"query": refused, "documentId": sha256(ME)})) == "FORBIDDEN"
        got = await app.http.get("/graphql", params={"query": "{ me { id } }"}, headers=bearer_of_alice())
        assert code(got.json()) == "FORBIDDEN"
        streamed = await app.http.post(
            "/graphql", json={"query": send}, headers=bearer_of_alice() | {"accept": "text/event-stream"}
        )
        assert "FORBIDDEN" in streamed.text
        peer = await app.signed_in("alice")
        await peer.subscribe("1", send)
        assert (await peer.receive())["payload"][0]["extensions"]["code"] == "FORBIDDEN"
        # No refused mutation was executed: this is the first message.
        sent = await ask(app, {"query": SEND, "variables": {"to": "bob"}})
        assert sent == {"data": {"sendMessage": {"message": {"seq": 1}}}}


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ("{", "not valid JSON"),
        ('{"a": "{ me { id } }", "a": "{ totalUnread }"}', "a appears twice"),
        ({}, "empty"),
        (["{ me { id } }"], "an object of documents"),
        ({"a": 1}, "an object of documents"),
        ({"format": "apollo-persisted-query-manifest", "version": 2, "operations": []}, "not supported"),
        ({"format": "apollo-persisted-query-manifest", "version": 1, "operations": [{"id": "a"}]}, "an object of"),
        ({"fine": ME, "bad": "{ me"}, "bad: Syntax Error"),
        ({"old": "{ me { nickname } }"}, "old: Cannot query field 'nickname'"),
        ({"deep": ME, "long": "{ " + " ".join(f"a{n}: totalUnread" for n in range(40)) + " }"}, "long: "),
        ({"0" * 64: ME}, "not the hash of its text"),
        ({"sha256:" + "0" * 64: ME}, "not the hash of its text"),
        ({"lone": f"{ME} # \ud800"}, "lone: Syntax Error"),
    ],
)
def test_invalid_operations_file_prevents_the_start(operations: Callable[[Any], Path], held: Any, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_persisted_operations(Settings(operations_file=operations(held)))
    (problem,) = caught.value.problems
    assert problem.startswith("CONFAB_OPERATIONS_FILE") and said in problem


def test_text_that_cannot_be_hashed_is_refused(operations: Callable[[Any], Path]) -> None:
    with pytest.raises(SettingsError, match="not the hash of its text"):
        load_persisted_operations(Settings(operations_file=operations({"0" * 64: f"{ME} # \ud800"})))


@pytest.mark.parametrize("prefix", ["", "sha256:"])
def test_hash_is_known_with_and_without_prefix(operations: Callable[[Any], Path], prefix: str) -> None:
    registered = load_persisted_operations(Settings(operations_file=operations({prefix + sha256(ME): ME})))
    assert registered is not None
    assert registered.texts == {sha256(ME): ME, f"sha256:{sha256(ME)}": ME}


def test_apollo_manifest_is_read(operations: Callable[[Any], Path]) -> None:
    entry = {"id": sha256(ME), "name": "Me", "type": "query", "body": ME}
    manifest = {"format": "apollo-persisted-query-manifest", "version": 1, "operations": [entry]}
    registered = load_persisted_operations(Settings(operations_file=operations(manifest)))
    assert registered is not None
    assert registered.texts == {sha256(ME): ME, f"sha256:{sha256(ME)}": ME}


def test_operations_only_needs_a_file() -> None:
    with pytest.raises(SettingsError, match="CONFAB_OPERATIONS_ONLY is set without"):
        load_settings(operations_only=True)


APOLLO = """
import { ApolloClient, ApolloLink, HttpLink, InMemoryCache, gql } from "@apollo/client";
import { PersistedQueryLink } from "@apollo/client/link/persisted-queries";
import { createHash } from "node:crypto";

const [token, knowing, without] = process.argv.slice(2);
const sha256 = (text) => createHash("sha256").update(text).digest("hex");

async function asked(uri, query) {
  const asked = [];
  const spy = (address, options) => {
    const sent = decodeURIComponent(address) + (options.body ?? "");
    asked.push(`${options.method} ${/[?&]query=|"query"/.test(sent) ? "text" : "hash"}`);
    return fetch(address, options);
  };
  const link = ApolloLink.from([
    new PersistedQueryLink({ sha256, useGETForHashedQueries: true }),
    new HttpLink({ uri, fetch: spy, headers: { authorization: token } }),
  ]);
  const { data } = await new ApolloClient({ cache: new InMemoryCache(), link }).query({ query });
  return [data.me.id, ...asked];
}

const mine = gql`query Me { me { id } }`;
const other = gql`query Other { me { id } }`;
console.log(JSON.stringify([await asked(knowing, mine), await asked(knowing, other), await asked(without, mine)]));
"""
AS_APOLLO_SENDS_IT = "query Me {\n  me {\n    id\n    __typename\n  }\n}"


@pytest.mark.skipif(
    shutil.which("node") is None or not (PACKAGES / "@apollo" / "client").is_dir(),
    reason="needs Node.js and the packages of bench/package.json: (cd bench && npm install)",
)
async def test_apollo_link_sends_hashes_and_then_texts(
    serve_app: ServeApp, operations: Callable[[Any], Path], tmp_path: Path
) -> None:
    (tmp_path / "node_modules").symlink_to(PACKAGES)
    (tmp_path / "program.mjs").write_text(APOLLO)
    held = operations({sha256(AS_APOLLO_SENDS_IT): AS_APOLLO_SENDS_IT})
    async with serve_app(operations_file=held) as knowing, serve_app() as without:
        urls = [f"http://127.0.0.1:{app.served.port}/graphql" for app in (knowing, without)]
        program = await asyncio.create_subprocess_exec(
            "node", "program.mjs", bearer_of_alice()["authorization"], *urls, cwd=tmp_path, stdout=subprocess.PIPE
        )
        output, _ = await asyncio.wait_for(program.communicate(), 30)
    assert json.loads(output) == [
        ["alice", "GET hash"],
        ["alice", "GET hash", "POST text"],
        ["alice", "GET hash", "POST text"],
    ]
