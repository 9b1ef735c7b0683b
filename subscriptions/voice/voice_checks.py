"""Ends voice states whose devices are gone, or whose users may no longer be there (ADR 83)."""

from __future__ import annotations

from store.base.errors import StoreError
from store.base.workspace_ids import WorkspaceId
from store.presence.shown_presence import FindEnd
from store.store import Store
from store.voice.voice_state import VoiceState
from store.voice.voice_store import CLAIMED_AT_ONCE
from subscriptions.presence.live_servers import SILENT_AFTER_MS
from subscriptions.voice.voice_changes import VoiceChanges

SHOWN_MS = 45_000
"""Time after a device was last heard from in which its state has ended for everybody."""

_MARGIN_MS = 5_000
"""Two intervals between checks, and the time until the event arrives."""


class VoiceChecks:
    """Checks the workspaces in which somebody is in voice. The servers share them: each check is done by one."""

    def __init__(self, store: Store, changes: VoiceChanges, find_end: FindEnd) -> None:
        self._store = store
        self._changes = changes
        self._find_end = find_end

    async def check(self) -> None:
        """Check the workspaces that are due. Called every 2 s. One round trip if there are none.

        Raises StoreError if some could not be checked completely. The others were checked all the same: states end
        also while MongoDB is away, and while the rights in one workspace cannot be judged.
        """
        failure: StoreError | None = None
        is_full = True
        while is_full:
            claimed = await self._store.voice.claim_checks()
            is_full = len(claimed) == CLAIMED_AT_ONCE
            for workspace in claimed:
                try:
                    await self._check(workspace)
                except StoreError as error:
                    failure = error
        if failure is not None:
            raise failure

    async def _check(self, workspace: WorkspaceId) -> None:
        reading = await self._store.voice.read(workspace)
        if not reading.states:
            await self._store.voice.end_checks(workspace)
            return
        now = self._store.clock.now_ms()
        over = [state for state in reading.states if self._ends_at(state, now) <= now]
        if over:
            await self._changes.end_many(workspace, over)
        if reading.judged is None or reading.version is None or reading.judged < reading.version:
            # The server that changed rights has died, or Redis was lost.
            await self._changes.judge(workspace, await self._store.policies.current_version(workspace) or 0)

    def _ends_at(self, state: VoiceState, now_ms: int) -> int:
        """Return when a state ends; a time after now while its device is connected."""
        if state.gone_at_ms:
            return state.gone_at_ms + SHOWN_MS - _MARGIN_MS
        end = self._find_end(state.server)
        return end + SHOWN_MS - SILENT_AFTER_MS - _MARGIN_MS if end is not None else now_ms + 1
