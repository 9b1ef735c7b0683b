"""`confab check`: output, options and exit codes."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pymongo import MongoClient
from redis import Redis

from server.cli import commands as cli
from server.services import open_services
from server.settings import load_settings
from tests.api.client import Api
from tests.conftest import drop_soon

Run = Callable[..., tuple[int, str, str]]


@dataclass(frozen=True)
class Deployment:
    database: Any
    group: str
    run: Run


@pytest.fixture(scope="module")
def deployment_settings(
    mongo_url: str, redis_url: str, _mongo_janitor: MongoClient[dict[str, Any]], _redis_janitor: Redis
) -> Iterator[dict[str, str]]:
    mark = secrets.token_hex(6)
    yield {
        "mongo_url": mongo_url,
        "redis_url": redis_url,
        "mongo_database": f"test_{mark}",
        "redis_prefix": f"t{mark}:",
    }
    keys = list(_redis_janitor.scan_iter(match=f"t{mark}:*"))
    if keys:
        _redis_janitor.delete(*keys)
    drop_soon(_mongo_janitor, f"test_{mark}")


@pytest.fixture(scope="module")
def group(deployment_settings: dict[str, str], _mongo_janitor: MongoClient[dict[str, Any]]) -> str:
    async def make() -> str:
        async with open_services(load_settings(**deployment_settings)) as services:
            api = Api(services, _mongo_janitor, deployment_settings["mongo_database"])
            alice, bob, carol = await api.create_users("alice", "bob", "carol")
            group = await api.create_group(alice, bob, carol)
            await api.send(bob, group)
            await api.all_sessions(alice)
            await api.wait_until_idle()
            return group

    # A loop of its own: the command runs one too.
    return asyncio.run(make())


@pytest.fixture
def deployment(
    deployment_settings: dict[str, str],
    group: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    _mongo_janitor: MongoClient[dict[str, Any]],
) -> Deployment:
    for name, value in deployment_settings.items():
        monkeypatch.setenv(f"CONFAB_{name.upper()}", value)

    # It would send the logs of later tests to the output of this one.
    monkeypatch.setattr("server.observability.logs.configure_logging", lambda settings: None)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["confab", "check", "--settle-seconds", "0", *arguments])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        output = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return caught.value.code, output.out, output.err

    return Deployment(_mongo_janitor[deployment_settings["mongo_database"]], group, run)


def test_a_check_without_differences_ends_with_0(deployment: Deployment) -> None:
    code, out, err = deployment.run()
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("heads: 1 objects, ")
    assert all(line.endswith(", 0 differences") for line in lines)
    assert [line.partition(":")[0] for line in lines][-3:] == ["cached-heads", "cached-members", "cached-sessions"]


def test_a_difference_ends_with_1_and_a_repaired_one_with_0(deployment: Deployment) -> None:
    members = deployment.database["conversations"]
    members.update_one({"_id": deployment.group}, {"$set": {"mc": 9}})
    line = f"members: {deployment.group}: number of members is 9, expected 3"
    code, out, _ = deployment.run("--only", "heads,members")
    assert code == 1
    assert out.splitlines()[1] == line
    assert len(out.splitlines()) == 3
    code, out, _ = deployment.run("--only", "members", "--repair")
    assert code == 0
    assert out.splitlines()[0] == f"repaired: {line}"
    assert members.find_one({"_id": deployment.group})["mc"] == 3
    assert deployment.run()[0] == 0


def test_the_report_may_be_json(deployment: Deployment) -> None:
    deployment.database["conversations"].update_one({"_id": deployment.group}, {"$set": {"mc": 9}})
    code, out, _ = deployment.run("--json", "--conversation", deployment.group)
    assert code == 1
    report = json.loads(out)
    assert report["error"] is None
    by_name = {check["name"]: check for check in report["checks"]}
    assert by_name["members"]["differences"] == [
        {
            "object": deployment.group,
            "field": "number of members",
            "value": 9,
            "expected": 3,
            "repairable": True,
        }
    ]
    assert by_name["users"]["objects"] == 0
    assert deployment.run("--repair")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--only", "colours"], "There is no check 'colours'. The checks are heads, messages"),
        (["--conversation", "g_1"], "There is no conversation g_1"),
        (["--user", "nobody"], "There is no user nobody"),
        (["--workspace", "w_1"], "There is no workspace w_1"),
        (["--user", "a", "--workspace", "w_1"], "Give one of --conversation, --user and --workspace"),
        (["--rows-per-second", "0"], "--rows-per-second"),
        (["--settle-seconds", "-1"], "--settle-seconds"),
    ],
)
def test_bad_options_end_with_2(deployment: Deployment, arguments: list[str], reason: str) -> None:
    code, _, err = deployment.run(*arguments)
    assert code == 2
    assert reason in err


def test_another_database_ends_with_2(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFAB_MONGO_DATABASE", "empty")
    code, out, err = deployment.run()
    assert (code, out) == (2, "")
    assert "The database empty has no deployment of Confab" in err


def test_a_redis_that_the_servers_do_not_use_ends_with_2_and_stays_unused(deployment: Deployment) -> None:
    row = deployment.database["deployment"].find_one({"_id": 1})
    deployment.database["deployment"].update_one({"_id": 1}, {"$set": {"run": "another"}})
    code, out, err = deployment.run("--json")
    assert code == 2
    assert "the servers do not use this Redis" in err
    report = json.loads(out.splitlines()[-1])
    assert report["error"] in err.replace("\n", " ")
    # Only the data in MongoDB was checked.
    assert [check["name"] for check in report["checks"]][-1] == "stray-blobs"
    after = deployment.database["deployment"].find_one({"_id": 1})
    assert (after["gen"], after["run"]) == (row["gen"], "another")
    deployment.database["deployment"].replace_one({"_id": 1}, row)


def test_data_of_a_newer_version_ends_with_2(deployment: Deployment) -> None:
    version = {"_id": 1, "version": {"$exists": True}}
    deployment.database["deployment"].update_one(version, {"$inc": {"version": 1}})
    code, _, err = deployment.run()
    assert code == 2
    assert "this Confab supports versions up to" in err
    deployment.database["deployment"].update_one(version, {"$inc": {"version": -1}})
