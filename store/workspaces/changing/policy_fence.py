"""The fence of a change of rights: from then on, no head of a channel accepts rights that were judged before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from store.base.ids import ConversationId
from store.base.workspace_ids import WorkspaceId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.redis.single_flight import retry_until_true
from store.workspaces.policy_versions import PolicyVersions

_CHANNELS_PER_CALL = 250
"""Redis executes nothing else during a call: about 1 ms."""


class PolicyFence:
    """Raises the policy versions of heads of channels, and of workspaces, in Redis."""

    def __init__(self, cache: Cache, keys: Keys, versions: PolicyVersions) -> None:
        self._cache = cache
        self._keys = keys
        self._versions = versions

    async def raise_versions(self, workspace: WorkspaceId, version: int, channels: Iterable[ConversationId]) -> None:
        """Raise the version of a workspace and of channels. One round trip if no slot of a cluster is moving.

        Raises Unreachable: some may not be raised then.
        """
        batches = list(self._batches(list(channels)))
        calls = [self._call(version, batch) for batch in batches]
        _, *answers = await self._cache.run([self._versions.raise_call(workspace, version), *calls])
        waiting = [batch[at] for batch, answer in zip(batches, answers, strict=True) for at in answer]

        async def attempt() -> bool:
            nonlocal waiting
            if waiting:
                # Alone, each finds its node.
                answers = await self._cache.run([self._call(version, [channel]) for channel in waiting])
                waiting = [channel for channel, answer in zip(waiting, answers, strict=True) if answer]
            return not waiting

        await retry_until_true(attempt, "a slot of Redis is being moved for too long")

    def _batches(self, channels: list[ConversationId]) -> Iterator[Sequence[ConversationId]]:
        by_node: dict[str, list[ConversationId]] = {}
        for channel in channels:
            by_node.setdefault(self._cache.owner(self._keys.head(channel)), []).append(channel)
        for of_node in by_node.values():
            for start in range(0, len(of_node), _CHANNELS_PER_CALL):
                yield of_node[start : start + _CHANNELS_PER_CALL]

    def _call(self, version: int, channels: Sequence[ConversationId]) -> Call:
        names = []
        for channel in channels:
            head, _, _, loading = self._keys.conversation(channel)
            names += [head, loading]
        return Call("raise_head_versions", (names[0],), (version, *names))
