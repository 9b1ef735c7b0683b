"""Bodies that programs made for Slack send."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from resolvers.webhooks.incoming.slack_messages import read_formatting
from tests.api.sample_channels import SampleChannels
from tests.webhooks.incoming.hooks import Hooks, refusal_of

SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "*Deployed* <https://x.example/7|build 7>"}}
RICH = {
    "type": "rich_text",
    "elements": [
        {
            "type": "rich_text_section",
            "elements": [{"type": "text", "text": "see "}, {"type": "link", "url": "https://x.example"}],
        },
        {
            "type": "rich_text_list",
            "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": "first"}]}],
        },
    ],
}


@pytest.mark.parametrize(
    ("body", "content"),
    [
        ({"text": "hello"}, "hello"),
        ({"text": "a", "channel": "#general", "link_names": 1, "mrkdwn": True}, "a"),
        ({"text": "*bold* <https://x.example|label>"}, "*bold* label (https://x.example)"),
        ({"text": "summary", "blocks": [SECTION]}, "summary"),
        ({"blocks": [SECTION]}, "*Deployed* build 7 (https://x.example/7)"),
        ({"blocks": [{"type": "divider"}, {"type": "header", "text": {"text": "Title"}}, SECTION]},
         "Title\n*Deployed* build 7 (https://x.example/7)"),
        ({"blocks": [{"type": "section", "fields": [{"text": "a"}, {"text": "b"}]}]}, "a\nb"),
        ({"blocks": [{"type": "context", "elements": [{"type": "mrkdwn", "text": "by ci"}]}]}, "by ci"),
        ({"blocks": [RICH]}, "see https://x.example\nfirst"),
        ({"attachments": [{"fallback": "it failed"}]}, "it failed"),
        ({"attachments": [{"fallback": "x", "pretext": "p", "title": "t", "text": "u"}]}, "p\nt\nu"),
        ({"attachments": [{"blocks": [SECTION]}]}, "*Deployed* build 7 (https://x.example/7)"),
        ({"text": "alert", "attachments": [{"text": "disk full", "color": "danger"}]}, "alert\ndisk full"),
        ({"text": "x" * 5_000}, "x" * 3_999 + "…"),
        ({"text": "", "content": None, "attachments": [{"text": "t"}]}, "t"),
    ],
)  # fmt: skip
async def test_they_are_read_as_plain_text_and_answered_with_ok(
    hooks: Hooks, workspace: SampleChannels, body: dict[str, Any], content: str
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    form = urlencode({"payload": json.dumps(body)})
    answers = [
        await hooks.http.post(hook.path, json=body),
        await hooks.http.post(
            hook.path, content=form, headers={"content-type": "application/x-www-form-urlencoded; charset=UTF-8"}
        ),
    ]
    for answer in answers:
        assert (answer.status_code, answer.text) == (200, "ok")
        assert answer.headers["content-type"].startswith("text/plain")
    assert [m["content"] for m in await hooks.messages(workspace.member, workspace.general)] == [content] * 2


async def test_slacks_name_and_picture_are_shown(hooks: Hooks, workspace: SampleChannels) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    body = {"text": "hi", "username": "robot", "icon_url": "https://example.org/x.png", "icon_emoji": ":ghost:"}
    assert (await hooks.http.post(hook.path, json=body)).text == "ok"
    (message,) = await hooks.messages(workspace.member, workspace.general)
    assert (message["authorName"], message["authorAvatarUrl"]) == ("robot", "https://example.org/x.png")


@pytest.mark.parametrize(
    "body",
    [
        {"text": ""},
        {"text": " "},
        {"text": 7},
        {"text": {"text": "x"}},
        {"blocks": []},
        {"blocks": "x"},
        {"blocks": [{"type": "divider"}, 7, None, {"text": 7}, {"elements": 7}]},
        {"attachments": [{}]},
        {"attachments": {"text": "x"}},
    ],
)
async def test_a_slack_body_without_text_is_refused(
    hooks: Hooks, workspace: SampleChannels, body: dict[str, Any]
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    assert refusal_of(await hooks.http.post(hook.path, json=body)) == (400, "INVALID_INPUT", "text")
    assert await hooks.messages(workspace.member, workspace.general) == []


@pytest.mark.parametrize("picture", ["ghost.png", "javascript:alert(1)", 7])
async def test_the_error_for_a_bad_picture_names_slacks_field(
    hooks: Hooks, workspace: SampleChannels, picture: object
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    answer = await hooks.http.post(hook.path, json={"text": "hi", "icon_url": picture})
    assert refusal_of(answer) == (400, "INVALID_INPUT", "icon_url")
    assert await hooks.messages(workspace.member, workspace.general) == []


async def test_a_form_may_carry_a_message_of_confabs_own_form(hooks: Hooks, workspace: SampleChannels) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    answer = await hooks.http.post(hook.path, data={"payload": '{"content": "built"}'})
    assert answer.json()["seq"] == 1


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("<https://x.example>", "https://x.example"),
        ("<https://x.example|x.example>", "x.example (https://x.example)"),
        ("<https://x.example|https://x.example>", "https://x.example"),
        ("<https://x.example|>", "https://x.example"),
        ("<mailto:a@x.example|a@x.example>", "a@x.example"),
        ("<mailto:a@x.example|Ann>", "Ann (a@x.example)"),
        ("<!here> <!channel> <!everyone>", "@here @channel @everyone"),
        ("<!here|here>", "here"),
        ("<!subteam^S1|@team> <!subteam^S1>", "@team @subteam"),
        ("<!date^1392734382^{date}|Feb 18>", "Feb 18"),
        ("<@U123> <@U123|ann>", "@U123 @ann"),
        ("<#C123|general> <#C123>", "#general #C123"),
        ("1 &lt; 2 &amp;&amp; 3 &gt; 2", "1 < 2 && 3 > 2"),
        ("&lt;https://x.example&gt;", "<https://x.example>"),
        ("&amp;lt;", "&lt;"),
        ("a < b > c", "a < b > c"),
        ("List<String>", "List<String>"),
        ("<" * 10, "<" * 10),
        ("<>", "<>"),
    ],
)
def test_markup_of_links_and_mentions_is_removed(given: str, read: str) -> None:
    assert read_formatting(given) == read


def test_long_runs_of_brackets_take_no_time() -> None:
    for text in ("<" * 200_000, "<a" * 100_000, "<a:" * 100_000, "<!" * 100_000 + ">" * 100_000):
        read_formatting(text)
