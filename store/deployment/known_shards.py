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
    """Return a query condition: the row still has the run id of this shard that it had when it was read."""
    return {f"runs.{redis.shard}": row.get("runs", {}).get(redis.shard, {"$exists": False})}


async def fields_of_new_generation(row: Mapping[str, Any], run: str, admitted: RedisIdentity | None) -> dict[str, Any]:
    """Return the fields about shards for the row of a new generation of all slots. Raises RedisError, OSError.

    If the deployment stays on the cluster, the row keeps its shards. Without them, these shards would be unknown and
    could begin further generations.

    Args:
        row: The row of the generation before.
        run: The run id of the new generation.
        admitted: The primary whose admission begins the generation; None if no admission does.
    """
    if run == CLUSTER and row.get("run") == CLUSTER:
        return dict(shard_fields(admitted)) if admitted is not None else {}
    if admitted is None:
        return {"runs": {}, "epochs": {}}
    runs, epochs = {admitted.shard: admitted.run}, {admitted.shard: admitted.config_epoch}
    return {"runs": runs, "epochs": epochs, "first": dict((await admitted.read_report()).primary_epochs)}


def may_have_old_data(row: Mapping[str, Any], redis: RedisIdentity) -> bool:
    """Return whether an unknown shard may have data of the present generations that is older than MongoDB's.

    Two kinds of primaries have no such data: one that has loaded no data, for example in a shard that joins the
    cluster; and one that has had the same configuration epoch since the first generation in the cluster began. Such a
    primary had slots then, and has not followed another node since.
    """
    return redis.has_loaded_data and row.get("first", {}).get(redis.node) != redis.config_epoch
