"""The distribution of keys in Redis and MongoDB.

Conversations over partitions, partitions and users over slots and nodes of Redis, rows over chunks and shards of
MongoDB.

`python -m bench.key_distribution [--chat day.jsonl …]` simulates a deployment with a fixed seed: names as in real
chats (those of the files, if given), activity with a heavy tail, new groups more active than old ones. *max/mean* is
the load of the busiest one, divided by the mean.
"""

from __future__ import annotations

import argparse
import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import orjson
from redis.crc import key_slot

from store.base.ids import (
    PARTITIONS,
    ConversationId,
    UserId,
    encode_user,
    group_id,
    is_user_id,
    partition_of,
    private_id,
)
from store.base.snowflakes import first_id_at

USERS, CONVERSATIONS = 100_000, 200_000
NODES = (3, 10, 30, 100, 300)
SHARDS, CHUNKS_A_SHARD = 10, 40
_SLOTS = 16_384
_NAMES = ("anna", "ben", "carla", "david", "eva", "felix", "greta", "hugo", "ida", "jan", "klara", "leo", "mia", "noah")
_DAY_MS = 86_400_000
_BEGAN_MS = 1_800_000_000_000


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation. rate: messages a day now. stored: messages since it began. made: a snowflake."""

    people: tuple[str, ...]
    rate: float
    stored: float
    made: int
    is_group: bool

    def name(self, group: Callable[[int], str]) -> str:
        return group(self.made) if self.is_group else private_id(UserId(self.people[0]), UserId(self.people[1]))


def people(chats: Sequence[Path], rng: random.Random) -> list[str]:
    """Return user ids as people choose them: many have the same name with a number after it."""
    nicks = {orjson.loads(line).get("nick", "") for chat in chats for line in chat.read_bytes().splitlines()}
    names = sorted(nick.lower() for nick in nicks if is_user_id(nick)) or list(_NAMES)
    found: dict[str, None] = {}
    while len(found) < USERS:
        name = rng.choice(names)
        found[name if name not in found else f"{name}{rng.randrange(10 * USERS)}"] = None
    return list(found)


def conversations(users: Sequence[str], rng: random.Random) -> list[Conversation]:
    """Return conversations with Zipf-distributed activity; a quarter are groups of 3 to 5,000."""
    weights = list(accumulate(1 / (rank + 10) ** 0.8 for rank in range(len(users))))
    total = weights[-1]

    def pick_user() -> str:
        return users[bisect_right(weights, rng.random() * total)]

    found = []
    for _ in range(CONVERSATIONS):
        is_group = rng.random() < 0.25
        size = min(5_000, int(3 * rng.paretovariate(1.3))) if is_group else 2
        chosen: dict[str, None] = {}
        while len(chosen) < size:
            chosen[pick_user()] = None
        age_days = rng.uniform(0.1, 730)
        born = min(20_000.0, rng.paretovariate(1.1))
        # Activity halves every month.
        rate = born * (0.02 + 0.5 ** (age_days / 30))
        stored = born * 43 * (1 - 0.5 ** (age_days / 30)) + 0.02 * born * age_days
        made = first_id_at(_BEGAN_MS - round(age_days * _DAY_MS)) | rng.randrange(1 << 22)
        found.append(Conversation(tuple(chosen), rate, max(1.0, stored), made, is_group))
    return found


def max_over_mean(loads: Iterable[float], parts: int) -> float:
    """Return max/mean over a number of parts, including empty ones."""
    present = list(loads)
    return max(present) * parts / sum(present)


def _sums(pairs: Iterable[tuple[object, float]]) -> list[float]:
    sums: defaultdict[object, float] = defaultdict(float)
    for key, load in pairs:
        sums[key] += load
    return list(sums.values())


def redis_table(users: Sequence[str], talk: Sequence[Conversation]) -> list[str]:
    """Return the table of Redis nodes.

    Commands: two per message on the conversation's keys; on users' keys one per member (up to 200) and two for the
    sender.
    """
    by_partition = [(partition_of(ConversationId(c.name(lambda made: group_id(made)))), 2 * c.rate) for c in talk]
    at_user: defaultdict[str, float] = defaultdict(float)
    for c in talk:
        for person in c.people[:200]:
            at_user[person] += c.rate * (1 + 2 / len(c.people))
    by_slot = [(key_slot(f"{{p:{partition}}}".encode()), load) for partition, load in by_partition]
    users_by_slot = [(key_slot(f"{{u:{encode_user(user)}}}".encode()), load) for user, load in at_user.items()]
    all_commands = sum(load for _, load in by_slot) + sum(at_user.values())
    lines = [
        f"{PARTITIONS} partitions of conversations: max/mean {max_over_mean(_sums(by_partition), PARTITIONS):.2f}; "
        f"the busiest conversation has {max(c.rate for c in talk) / sum(c.rate for c in talk):.2%} of all messages, "
        f"the busiest user {max(at_user.values()) / all_commands:.2%} of all commands",
        "",
        "| Redis nodes | partitions of conversations, max/mean | one slot per conversation | users | total |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    alone = [(key_slot(c.name(lambda made: group_id(made)).encode()), 2 * c.rate) for c in talk]
    for nodes in NODES:
        spread = [max_over_mean(_sums((slot * nodes // _SLOTS, load) for slot, load in loads), nodes)
                  for loads in (by_slot, alone, users_by_slot, [*by_slot, *users_by_slot])]  # fmt: skip
        lines.append(f"| {nodes} | " + " | ".join(f"{value:.2f}" for value in spread) + " |")
    return lines


def shard_table(talk: Sequence[Conversation], rng: random.Random) -> list[str]:
    """Return the table of shards.

    Chunks hold about the same number of messages; they are on random shards, as a balancer leaves them.
    """
    forms: list[tuple[str, Callable[[Conversation], str]]] = [
        ("in order, groups named by when they were made", lambda c: c.name(lambda made: f"g_{made}")),
        ("in order, groups named in no order (as they are)", lambda c: c.name(lambda made: group_id(made))),
        ("hashed c", lambda c: f"{random.Random(c.name(lambda made: group_id(made))).random():.18f}"),
    ]  # fmt: skip
    chunks = SHARDS * CHUNKS_A_SHARD
    lines = [
        "| `messages` by (c, b) | busiest chunk, max/mean | busiest shard, max/mean | "
        "chunks of the newest tenth of groups |",
             "| --- | ---: | ---: | ---: |"]  # fmt: skip
    youngest = sorted((c.made for c in talk if c.is_group), reverse=True)[: sum(c.is_group for c in talk) // 10][-1]
    for title, name in forms:
        ordered = sorted(talk, key=name)
        share = sum(c.stored for c in ordered) / chunks
        owner = [chunk % SHARDS for chunk in range(chunks + 1)]
        random.Random(7).shuffle(owner)
        loads: defaultdict[int, float] = defaultdict(float)
        young: set[int] = set()
        sofar = 0.0
        for c in ordered:
            chunk = int(sofar / share)
            sofar += c.stored
            loads[chunk] += c.rate
            if c.is_group and c.made >= youngest:
                young.add(chunk)
        on_shards = _sums((owner[chunk], load) for chunk, load in loads.items())
        lines.append(
            f"| {title} | {max_over_mean(loads.values(), chunks):.2f} | {max_over_mean(on_shards, SHARDS):.2f} "
            f"| {len(young)} of {chunks} chunks |"
        )
    return lines


def simulate(chats: Sequence[Path], seed: int = 1) -> list[str]:
    """Print the tables."""
    rng = random.Random(seed)
    users = people(chats, rng)
    talk = conversations(users, rng)
    sizes = sorted(len(c.people) for c in talk if c.is_group)
    return [
        f"{USERS:,} users, {CONVERSATIONS:,} conversations, {sum(len(c.people) for c in talk):,} sessions; "
        f"groups: half have {sizes[len(sizes) // 2]} members or fewer, the largest {sizes[-1]:,}",
        "",
        *redis_table(users, talk),
        "",
        *shard_table(talk, rng),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.key_distribution", description=__doc__)
    parser.add_argument("--chat", type=Path, nargs="*", default=[], help="chat logs to take names from (JSON lines)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("\n".join(simulate(options.chat, options.seed)))


if __name__ == "__main__":
    main()
