"""A command whose database cannot be reached prints one plain line, which names the setting with the address."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from server.settings import Settings
from store.mongo.client import Mongo
from tests.server.test_cli import Outcome, assert_refused, confab, environment

__all__ = ["confab", "environment"]

SAMPLE = str(Path(__file__).parents[1] / "data" / "irc-sample.jsonl")
NOWHERE = "mongodb://zq-user:zq-password@127.0.0.1:1/?directConnection=true"
REFUSED = r"no server of MongoDB can be reached: 127\.0\.0\.1:1: \[Errno \d+\] [\w ()',.]+\.$"


@pytest.fixture
def unreachable(environment: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Addresses at which nothing listens, with passwords."""
    environment.setenv("CONFAB_MONGO_URL", NOWHERE)
    environment.setenv("CONFAB_REDIS_URL", "redis://:zq-password@127.0.0.1:1/0")
    environment.setattr("server.chat_import.command.START_WAIT_SECONDS", 0.1)
    # Half of it may pass until a server is found. The default is 10 s.
    environment.setattr(Mongo.__init__, "__kwdefaults__", {**Mongo.__init__.__kwdefaults__, "timeout_ms": 600})
    # A command would send the logs of later tests to the output of this one.
    environment.setattr("server.observability.logs.configure_logging", lambda settings: None)
    return environment


@pytest.mark.parametrize(
    "command",
    [
        "admin queues",
        "admin user alice",
        "check",
        f"import-chat {SAMPLE} --group G",
        f"import-chat {SAMPLE} --workspace W",
        "migrate",
        "migrate --run",
        "restored",
        "search rebuild",
        "search status",
        "shard --apply",
    ],
)
def test_a_command_says_in_one_line_that_mongodb_cannot_be_reached(
    command: str, confab: Callable[..., Outcome], unreachable: pytest.MonkeyPatch
) -> None:
    outcome = confab(*command.split())
    assert_refused(outcome, f"^(Not everything was checked: )?MongoDB at CONFAB_MONGO_URL failed: {REFUSED}")
    assert "zq-" not in outcome.err


@pytest.mark.parametrize("command", ["revoke alice", "token alice --bot"])
def test_a_command_says_what_it_did_not_change_without_mongodb(
    command: str, confab: Callable[..., Outcome], unreachable: pytest.MonkeyPatch
) -> None:
    outcome = confab(*command.split())
    assert_refused(outcome, r"^(Nothing was|alice may not be) .*: MongoDB at CONFAB_MONGO_URL does not answer\.$")


def test_a_report_in_json_has_the_same_line(confab: Callable[..., Outcome], unreachable: pytest.MonkeyPatch) -> None:
    outcome = confab("check", "--json")
    report = json.loads(outcome.out)
    assert (outcome.code, report["checks"]) == (2, [])
    assert report["error"] == outcome.err.removesuffix("\n")
    assert "MongoDB at CONFAB_MONGO_URL failed: " in report["error"]


def test_an_import_says_in_one_line_that_redis_cannot_be_reached(
    settings: Settings, confab: Callable[..., Outcome], unreachable: pytest.MonkeyPatch
) -> None:
    unreachable.setenv("CONFAB_MONGO_URL", settings.mongo_url)
    outcome = confab("import-chat", SAMPLE, "--group", "G")
    assert_refused(outcome, r"^Redis at CONFAB_REDIS_URL failed: ConnectionError: [\w ()',.:]+\.$")
    assert "zq-" not in outcome.err
