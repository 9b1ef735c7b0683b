"""The part of a run that is about reactions, threads, pins and files."""

from __future__ import annotations

import random
from collections.abc import Awaitable

from tests.chaos.features.feature_actor import CHANGES, FeatureActor, FeatureState
from tests.chaos.features.feature_check import FeatureCheck
from tests.chaos.load.load_end import LoadEnd
from tests.chaos.load.load_state import LoadState
from tests.chaos.load.requester import Requester
from tests.chaos.workspaces.spaces import Spaces


class FeatureLoad:
    """One more actor for each person. They have no socket, and send each request to any server."""

    def __init__(self, load: LoadState, spaces: Spaces, rng: random.Random) -> None:
        self.state = FeatureState(load, spaces)
        requesters = [
            Requester(load, user, f"{user}/features", random.Random(rng.getrandbits(32))) for user in load.users
        ]
        self._actors = [FeatureActor(requester, self.state) for requester in requesters]

    def act(self, until: LoadEnd, pause: float) -> list[Awaitable[None]]:
        """Return the work of all actors. Each kind of change comes first for some of them."""
        return [actor.act(until, pause, CHANGES[number % len(CHANGES)]) for number, actor in enumerate(self._actors)]

    def final_check(self) -> FeatureCheck:
        """Return the checks at the end."""
        return FeatureCheck(self.state, {actor.user: actor.requester for actor in self._actors})
