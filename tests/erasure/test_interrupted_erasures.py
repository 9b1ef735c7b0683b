"""Erasures whose servers die, of users who are connected and write, with several servers."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from resolvers.base.errors import ConfabError, Forbidden
from resolvers.erasure.erasure_job import ErasureJob
from resolvers.jobs.job_worker import RunningJob
from resolvers.users.callers import CallerRole, act_as
from store.base.errors import StoreError
from store.base.ids import UserId
from store.jobs.job import JobKind
from tests.api.client import Api, make_caller
from tests.api.conftest import OpenApi
from tests.checking import find_differences
from tests.erasure.sample import SERVICE, make_sample
from tests.erasure.test_erasing import erase
from tests.erasure.traces import ERASE, list_traces, wait_for_end
from tests.waiting import wait_for


class Killed(Exception):
    """The server died."""


class DyingJob(RunningJob):
    """Dies at each step: once before its progress is noted, and once after."""

    deaths: Counter[tuple[int, int]]

    async def save(self, progress: Mapping[str, Any], *, counts: bool = True) -> None:
        if not progress:
            await super().save(progress, counts=counts)
            return
        place = progress["pass"], progress["step"]
        self.deaths[place] += 1
        if self.deaths[place] == 1:
            raise Killed
        await super().save(progress, counts=counts)
        if self.deaths[place] == 2:
            raise Killed


@pytest.mark.parametrize("messages", [False, True])
async def test_erasures_survive_the_death_of_servers_at_every_step(open_api: OpenApi, messages: bool) -> None:
    async with open_api(f"dying-{messages}", workers=False) as api:
        sample = await make_sample(api)
        await api.data(SERVICE, ERASE, id=sample.user, messages=messages)
        store, deaths, attempts = api.services.app.store, Counter[tuple[int, int]](), 0
        while True:
            job = await store.jobs.lease([JobKind.ERASURE])
            assert job is not None
            running = DyingJob(store.jobs, job)
            running.deaths = deaths
            attempts += 1
            try:
                await ErasureJob(api.services.app).run(running)
            except Killed:
                await store.jobs.give_back(running.job, 0)
            else:
                await store.jobs.finish(running.job)
                break
        assert attempts > len(deaths) > 50
        assert (await wait_for_end(api, SERVICE, sample.user))["state"] == "DONE"
        assert list_traces(api, sample.user) == []
        assert await find_differences(store) == []


async def test_users_who_write_meanwhile_leave_nothing(api: Api, other_api: Api) -> None:
    sample = await make_sample(api)
    writing, sent = True, Counter[Api]()

    async def write(process: Api) -> None:
        while writing:
            with suppress(ConfabError, StoreError, AssertionError):
                await process.send(sample.user, sample.group, f"still here {secrets.token_hex(4)}")
                sent[process] += 1
            await asyncio.sleep(0.002)

    writers = [asyncio.create_task(write(process)) for process in (api, other_api)]
    await wait_for(lambda: min(sent[process] for process in (api, other_api)) > 3)
    await api.data(SERVICE, ERASE, id=sample.user)
    await wait_for_end(api, SERVICE, sample.user)
    writing = False
    await asyncio.gather(*writers)
    assert list_traces(api, sample.user) == []
    assert await find_differences(api.services.app.store) == []


async def test_other_servers_refuse_the_user_at_once(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await other_api.send(alice, bob)
    await erase(api, alice)
    for process in (api, other_api):
        for caller in (make_caller(alice), act_as(make_caller("helper", CallerRole.SERVICE), alice, "actAs")):
            with pytest.raises(Forbidden):
                await process.services.sign_in(caller)
        assert (await process.expect_send_refusal(bob, alice)).code == "NOT_FOUND"
        assert process.services.app.revocations.is_revoked(UserId(alice), None)
        refused = await process.expect_refusal(
            SERVICE, 'mutation ($id: ID!) { upsertUsers(input: [{id: $id, displayName: "A"}]) { id } }', id=alice
        )
        assert refused.code == "FORBIDDEN"
    assert list_traces(api, alice) == []


async def test_the_same_id_may_begin_again_with_a_later_token(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.users.erased_users.REFUSED_AHEAD_MS", 1)
    sample = await make_sample(api)
    began_at = api.services.app.store.clock.now_ms() / 1000
    await erase(api, sample.user)
    ended_at = api.services.app.store.clock.now_ms() / 1000
    revocations = api.services.app.revocations
    assert revocations.is_revoked(UserId(sample.user), began_at)
    assert not revocations.is_revoked(UserId(sample.user), ended_at + 1)
    assert not await api.all_sessions(sample.user)
    assert (await erase(api, sample.user))["state"] == "DONE"
    assert list_traces(api, sample.user) == []
