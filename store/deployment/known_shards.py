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


def run_id_condition(row: Mapping[str, Any], redis: RedisIdentity) -> dict[str, Any]:
    """Return the condition of a query that the row has the same run id for a shard as before."""
    return {f"runs.{redis.shard}": row.get("runs", {}).get(redis.shard, {"$exists": False})}


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
    primaries = dict((await first.read_report()).primary_epochs)
    return {"runs": {first.shard: first.run}, "epochs": {first.shard: first.config_epoch}, "first": primaries}


def may_have_old_data(row: Mapping[str, Any], redis: RedisIdentity) -> bool:
    """Return whether an unknown shard may have data of the present generations that is older than MongoDB's.

    It has none if its primary has loaded no data, as in a shard that joins the cluster. It has none either if the node
    was a primary with slots when the first generation began, and has the same configuration epoch: it did not follow
    another node meanwhile.
    """
    return redis.has_loaded_data and row.get("first", {}).get(redis.node) != redis.config_epoch
