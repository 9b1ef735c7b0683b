"""A bot that answers commands (BOT_COMMAND messages) in their threads, in every channel that it can see."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from gql.transport.exceptions import TransportQueryError
from gql_client import Confab

COMMAND = "id content contentType sender { id }"
WORKSPACES = "{ me { id } ready { workspaces { id rev } } }"
CHANNELS = """query ($id: ID!, $after: String) { workspace(id: $id) { channels(first: 100, after: $after) {
  pageInfo { hasNextPage endCursor } edges { node { id rev } } } } }"""
NEWEST = f"""query ($id: ID!) {{ messages(conversationId: $id) {{
  edges {{ node {{ {COMMAND} thread {{ replyCount }} }} }} }} }}"""
CHANNEL_EVENTS = f"""subscription ($channels: [Position!]!) {{ channelEvents(channels: $channels) {{ __typename
  ... on ChannelMessage {{ conversationId rev change message {{ {COMMAND} }} }}
  ... on ChannelCaughtUp {{ conversationId rev reset }} ... on AccessEnded {{ conversationId }} }} }}"""
WORKSPACE_EVENTS = """subscription ($workspaces: [Position!]!) { workspaceEvents(workspaces: $workspaces) { __typename
  ... on ChannelChanged { rev channel { id } } ... on WorkspaceCaughtUp { reset } } }"""
LIST_AGAIN_SECONDS = 60
"""The longest time until it notices that it was added to a workspace."""


class ChannelBot:
    """`await ChannelBot(…).run()` answers until an error that trying again cannot help.

    answer: returns the answer to a command, or None. positions: the rev up to which each channel is answered, as
    `remember` got them last before the program ended; {} at first.
    """

    def __init__(
        self,
        confab: Confab,
        answer: Callable[[str], str | None],
        positions: dict[str, int],
        remember: Callable[[dict[str, int]], None],
    ) -> None:
        self._confab, self._answer, self._positions, self._remember = confab, answer, positions, remember

    async def run(self) -> None:
        """List the channels and watch them, and begin again whenever the list may have changed."""
        while True:
            workspaces = await self._list()
            watches = [self._watch_workspaces(workspaces[at : at + 20]) for at in range(0, len(workspaces), 20)]
            watches += [self._watch_channels()] if self._positions else []
            tasks = [asyncio.create_task(each) for each in (*watches, self._watch_list(workspaces))]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for error in filter(None, (task.exception() for task in done)):
                # NOT_FOUND: a channel has gone since it was listed.
                if not isinstance(error, TransportQueryError) or "NOT_FOUND" not in str(error.errors):
                    raise error

    async def _list(self) -> list[dict[str, Any]]:
        """Find up to 1,000 channels. Return the workspaces with a position from before that."""
        found = await self._confab.ask(WORKSPACES)
        self._me, revs = found["me"]["id"], dict[str, int]()
        for workspace in found["ready"]["workspaces"]:
            after, more = None, True
            while more and (shown := (await self._confab.ask(CHANNELS, id=workspace["id"], after=after))["workspace"]):
                revs |= {edge["node"]["id"]: edge["node"]["rev"] for edge in shown["channels"]["edges"]}
                after, more = (shown["channels"]["pageInfo"][name] for name in ("endCursor", "hasNextPage"))
        self._positions = {id: self._positions.get(id, rev) for id, rev in list(revs.items())[:1000]}
        self._remember(self._positions)
        workspaces: list[dict[str, Any]] = found["ready"]["workspaces"]
        return workspaces

    async def _watch_list(self, workspaces: list[dict[str, Any]]) -> None:
        """Return when it was added to a workspace, or has left one: no event tells it."""
        listed = workspaces
        while {each["id"] for each in listed} == {each["id"] for each in workspaces}:
            await asyncio.sleep(LIST_AGAIN_SECONDS)
            listed = (await self._confab.ask(WORKSPACES))["ready"]["workspaces"]

    async def _watch_workspaces(self, positions: list[dict[str, Any]]) -> None:
        """Return when the list of channels may have changed."""
        async for data in self._confab.subscribe(WORKSPACE_EVENTS, lambda: {"workspaces": positions}):
            event = data["workspaceEvents"]
            if event["__typename"] == "ChannelChanged" and event["channel"]["id"] not in self._positions:
                # All messages that it can see there come after this event.
                self._positions[event["channel"]["id"]] = event["rev"]
                return
            if event["__typename"] in ("WorkspaceChanged", "OwnMembershipChanged") or event.get("reset"):
                return

    async def _watch_channels(self) -> None:
        """Return when it sees no channel any more."""

        def resume() -> dict[str, Any]:
            return {"channels": [{"id": id, "rev": rev} for id, rev in self._positions.items()]}

        async for data in self._confab.subscribe(CHANNEL_EVENTS, resume):
            event = data["channelEvents"]
            channel = event.get("conversationId")
            if event["__typename"] == "AccessEnded":
                self._positions.pop(channel, None)
                self._remember(self._positions)
                if not self._positions:
                    # Nothing is left to name if the connection ends.
                    return
            elif event["__typename"] == "ChannelMessage":
                if event["change"] == "CREATED":
                    await self._reply(event["message"])
                # After the answer: a bot that ends before this sees the message again.
                self._positions[channel] = event["rev"]
                self._remember(self._positions)
            elif event["__typename"] == "ChannelCaughtUp":
                if event["reset"]:
                    await self._reply_to_newest(channel)
                self._positions[channel] = event["rev"]

    async def _reply_to_newest(self, channel: str) -> None:
        """Answer what has no answer on the newest page, since older events are gone."""
        newest = (await self._confab.ask(NEWEST, id=channel))["messages"]
        for edge in newest["edges"] if newest else []:
            if edge["node"]["thread"] is None:
                await self._reply(edge["node"])

    async def _reply(self, message: dict[str, Any]) -> None:
        # The text of a recalled message is null.
        if message["contentType"] != "BOT_COMMAND" or message["content"] is None or message["sender"]["id"] == self._me:
            return
        text = self._answer(message["content"])
        if text is not None:
            try:
                # The same key if it sees this message again: one answer in any case.
                key = f"answer to {message['id']}"
                await self._confab.send(threadOf=message["id"], content=text, idempotencyKey=key)
            except TransportQueryError as error:
                print(f"no {key}: {error}", file=sys.stderr)
