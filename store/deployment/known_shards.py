"""The shards of a cluster in the row of the deployment: `runs`, `epochs`, `first` (see `redis_generations`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from store.redis.admission import RedisIdentity

CLUSTER = "cluster"
"""The run id of a cluster. Its nodes have their own."""


def shard_fields(redis: RedisIdentity) -> dict[str, str | int]:
    """Return the fields of the row for the primary of a shard: its run id and its configuration epoch."""
    return {f"runs.{redis.shard}": redis.run, f"epochs.{redis.shard}": redis.config_epoch}


async def fields_of_new_generation(row: Mapping[str, Any], run: str, first: RedisIdentity | None) -> dict[str, Any]:
    """Return the fields that the row gets with a generation of all slots.

    The shards of a cluster stay known. Otherwise they would look like shards that may have old data. Raises RedisError,
    OSError.

    Args:
        row: The row before.
        run: The run id of the new generation.
        first: The primary of the cluster with which the generation begins, if there is one.
    """
    if run == CLUSTER and row.get("run") == CLUSTER:
        return dict(shard_fields(first)) if first is not None else {}
    if first is None:
        return {"runs": {}, "epochs": {}}
    primaries = dict((await first.report()).primary_epochs)
    return {"runs": {first.shard: first.run}, "epochs": {first.shard: first.config_epoch}, "first": primaries}


async def may_have_old_data(row: Mapping[str, Any], redis: RedisIdentity) -> bool:
    """Return whether an unknown shard may have data of the present generations that is older than MongoDB's.

    It has none if its primary never was a replica, as in a shard that joins the cluster. It has none either if the node
    has been a primary since the first generation began: a replica that takes over gets a new configuration epoch.
    Raises RedisError, OSError.
    """
    if not redis.was_replica:
        return False
    node = (await redis.report()).node
    return bool(row.get("first", {}).get(node) != redis.config_epoch)
