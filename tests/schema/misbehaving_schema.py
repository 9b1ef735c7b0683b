"""A schema whose resolvers do everything that resolvers can do, right and wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, NewType

import strawberry
from strawberry.schema.config import StrawberryConfig

from schema.compiler import prefetched_by, reads, then

Odd = NewType("Odd", int)

ASYNC = {
    "later",
    "laterNull",
    "laterBroken",
    "laterThing",
    "laterThings",
    "laterError",
    "promised",
    "stream",
    "follows",
    "waits",
    "shape",
    "pebbleEdges",
}
"""Fields whose value comes later, or that contain such fields."""


def _parse_odd(value: object) -> int:
    if not isinstance(value, int) or value % 2 == 0:
        raise ValueError(f"{value} is not odd")
    return value


@strawberry.enum
class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@strawberry.enum
class Other(Enum):
    RED = "red"


@strawberry.input
class Wish:
    colour: Colour = Colour.BLUE
    depth: int | None = 1
    words: list[str] = strawberry.field(default_factory=list)


@strawberry.interface
class Named:
    name: str

    @strawberry.field
    def shout(self) -> str:
        return self.name.upper()


@strawberry.type
class Leaf(Named):
    size: int
    big: int = 2**40
    not_a_number: int = strawberry.field(default="many")  # type: ignore[assignment]
    null: str | None = None
    missing: str = strawberry.field(default=None)  # type: ignore[assignment]
    ratio: float = 0.5
    infinite: float | None = float("inf")
    yes: bool = True
    colour: Colour = Colour.RED
    wrong_colour: Colour | None = strawberry.field(default=Other.RED)  # type: ignore[assignment]
    odd: Odd | None = Odd(3)
    even: Odd | None = Odd(4)
    as_error: str | None = strawberry.field(default_factory=lambda: ValueError("an error as a value"))  # type: ignore[assignment]
    words: list[str] = strawberry.field(default_factory=lambda: ["a", "b"])
    holes: list[str | None] = strawberry.field(default_factory=lambda: ["a", None, 3])
    bad_words: list[str] | None = strawberry.field(default_factory=lambda: ["a", None])
    no_list: list[str] | None = strawberry.field(default="abc")  # type: ignore[assignment]


@dataclass
class Stone:
    """A record behind a GraphQL object."""

    weight: int
    words: tuple[str, ...] = ("hard", "grey")
    colour: str = "red"
    nothing: None = None
    heavy: int = 2**40

    @property
    def label(self) -> str:
        return f"stone {self.weight}"

    @property
    def failing(self) -> str:
        raise RuntimeError(f"{self.label} fails")

    @property
    def later(self) -> Any:
        return _future(self.label)


def _prefetch_shapes(context: Any, pebbles: Sequence[Pebble]) -> asyncio.Future[None] | None:
    """Wait for some lists, not for all."""
    assert all(type(pebble) is Pebble for pebble in pebbles)
    return _future(None) if len(pebbles) % 2 else None  # type: ignore[no-any-return]


@strawberry.type
class Pebble(Named):
    record: strawberry.Private[Stone]
    name: str = reads("record.label")
    weight: int = reads("record.weight")
    heavy: int | None = reads("record.heavy")
    colour: Colour = reads("record.colour")
    nothing: str | None = reads("record.nothing")
    missing: str = reads("record.nothing")
    failing: str | None = reads("record.failing")
    later: str = reads("record.later")
    words: list[str] = reads("record.words")

    @strawberry.field(metadata=prefetched_by(_prefetch_shapes))
    def shape(self) -> str | None:
        return "round" if self.record.weight % 2 else None


@strawberry.type
class PebbleEdge:
    node: Pebble
    record: strawberry.Private[Stone]
    place: int = reads("record.weight")


@strawberry.type
class Twig(Named):
    depth: strawberry.Private[int]

    @strawberry.field
    def info_tells(self, info: strawberry.Info) -> str:
        path = ".".join(map(str, info.path.as_list()))
        return f"{info.field_name} {path} {info.context} {info.python_name} {len(info.selected_fields)}"

    @strawberry.field
    def broken(self) -> str | None:
        raise RuntimeError(f"{self.name} is broken")

    @strawberry.field
    def badly_broken(self) -> str:
        raise RuntimeError(f"{self.name} is badly broken")

    @strawberry.field
    async def later(self) -> str:
        await asyncio.sleep(0)
        return "later"

    @strawberry.field
    async def later_null(self) -> str:
        return None  # type: ignore[return-value]

    @strawberry.field
    async def later_broken(self, info: strawberry.Info) -> str | None:
        await asyncio.sleep(0.001)
        raise RuntimeError(f"later, at {info.path.key}")

    @strawberry.field
    async def later_error(self) -> str:
        await asyncio.sleep(0)
        raise RuntimeError("an error later")

    @strawberry.field
    def promised(self) -> str:
        return _future("promised")

    @strawberry.field
    def follows(self) -> Thing | None:
        return then(then(_future(2), lambda two: then(_future(two), lambda depth: depth - 1)), thing)  # type: ignore[no-any-return]

    @strawberry.field
    def thing(self) -> Thing | None:
        return thing(self.depth - 1)

    @strawberry.field
    def needed(self) -> Thing:
        return thing(self.depth - 1)  # type: ignore[return-value]

    @strawberry.field
    async def later_thing(self) -> Thing:
        return thing(self.depth - 1)  # type: ignore[return-value]

    @strawberry.field
    def things(self) -> list[Thing]:
        return [thing(0), thing(1), thing(self.depth - 1)]  # type: ignore[list-item]

    @strawberry.field
    def some_things(self, first: int = 2) -> list[Thing | None] | None:
        return [thing(self.depth - n) for n in range(first)]

    @strawberry.field
    async def later_things(self) -> list[Thing | None]:
        return [thing(n) for n in range(3)]

    @strawberry.field
    def pebbles(self, first: int = 3) -> list[Pebble]:
        return [_pebble(weight) for weight in range(first)]

    @strawberry.field
    def pebble_edges(self, first: int = 3) -> list[PebbleEdge | None]:
        edges: list[PebbleEdge | None] = [
            PebbleEdge(node=_pebble(weight), record=Stone(weight)) for weight in range(first)
        ]
        return [None, *edges, ValueError("no edge"), _future(edges[-1] if edges else None)]  # type: ignore[list-item]

    @strawberry.field
    def waits(self) -> list[str | None]:
        return [_future("one"), "two", _fail("three"), None]  # type: ignore[list-item]

    @strawberry.field
    def lazily(self) -> list[Named]:
        def items() -> Iterator[Named]:
            yield Leaf(name="lazy", size=1)
            yield Twig(name="lazy", depth=0)

        return items()  # type: ignore[return-value]

    @strawberry.field
    def stream(self) -> list[Named]:
        async def items() -> AsyncIterator[Named]:
            yield Leaf(name="streamed", size=1)
            await asyncio.sleep(0)
            yield Twig(name="streamed", depth=1)

        return items()  # type: ignore[return-value]

    @strawberry.field
    def named(self) -> Named:
        return Leaf(name="leaf", size=1) if self.depth % 2 else Twig(name="twig", depth=self.depth - 1)

    @strawberry.field
    def not_named(self) -> Named | None:
        return "nothing of the kind"  # type: ignore[return-value]

    @strawberry.field
    def not_a_leaf(self) -> Leaf | None:
        return Twig(name="no leaf", depth=0)  # type: ignore[return-value]

    @strawberry.field
    def echo(self, wish: Wish | None = None, times: int = 1, colour: Colour | None = None) -> str:
        return f"{wish} {times} {colour}"

    @strawberry.field
    def needs(self, info: strawberry.Info, parent: strawberry.Parent[Any], words: list[str]) -> list[str]:
        return [*words, parent.name, str(info.variable_values)]


def _pebble(weight: int) -> Pebble:
    return Pebble(record=Stone(weight))


Thing = Annotated[Leaf | Twig, strawberry.union("Thing")]


def thing(depth: int) -> Any:
    """Return None below depth 0."""
    if depth < 0:
        return None
    return Leaf(name=f"leaf {depth}", size=depth) if depth % 3 == 0 else Twig(name=f"twig {depth}", depth=depth)


def _future(value: Any) -> Any:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(lambda: future.done() or future.set_result(value))
    return future


async def _fail(text: str) -> Awaitable[str]:
    raise RuntimeError(text)


@strawberry.type
class Query:
    @strawberry.field
    def twig(self, depth: int = 4) -> Twig:
        return Twig(name="root", depth=depth)

    @strawberry.field
    def any(self, depth: int = 3) -> Thing | None:
        return thing(depth)  # type: ignore[no-any-return]

    @strawberry.field
    async def later(self) -> Twig | None:
        await asyncio.sleep(0)
        return Twig(name="later", depth=3)


@strawberry.type
class Mutation:
    @strawberry.mutation
    async def append(self, info: strawberry.Info, text: str, fails: bool = False, needed: bool = False) -> Twig | None:
        """Sleep longer the fewer entries there are, so that only sequential execution keeps the order."""
        entries: list[str] = info.context.entries
        await asyncio.sleep(0.002 / (1 + len(entries)))
        entries.append(text)
        if fails:
            raise RuntimeError(text)
        return Twig(name=" ".join(entries), depth=2)

    @strawberry.mutation
    async def must(self, info: strawberry.Info, text: str) -> Twig:
        info.context.entries.append(text)
        raise RuntimeError(text)


SCHEMA = strawberry.Schema(
    Query,
    Mutation,
    config=StrawberryConfig(
        scalar_map={Odd: strawberry.scalar(name="Odd", serialize=_parse_odd, parse_value=_parse_odd)},
    ),
)
