"""The cost of different forms of an index of messages in MongoDB.

`python -m bench.search.alternatives` starts a MongoDB for itself, and stores the same messages in each form: how many
bytes and how much CPU of MongoDB a message takes, and how long queries take. The messages are lines of chat logs
(`--chat`), and made text in Chinese, Japanese and Korean.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pymongo import MongoClient, UpdateOne
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.write_concern import WriteConcern

from bench.meter import cpu_seconds
from bench.search.texts import Language, Texts
from server.embedded import EmbeddedServers
from store.base.ids import ConversationId, MessageId, UserId
from store.mongo.index_fields import BY_NEWEST, BY_TERM
from store.search.filter_terms import sender_term
from store.search.index_rows import IndexedMessage, places_in, rows_of
from store.text.words import terms_of

Row = dict[str, Any]

_CONVERSATIONS = 40
_BATCH = 100
_QUERIES = 12
_REPETITIONS = 5
_PAGE = 25
_GROWING = 3_000
_CJK = (Language.CHINESE, Language.JAPANESE, Language.KOREAN)


class Text(NamedTuple):
    """A message, and its text."""

    message: IndexedMessage
    text: str


class Form(NamedTuple):
    """A form of the index. `sizes`: numbers of messages of rows; None: a row grows to 64. `options`: of its index."""

    name: str
    is_hashed: bool
    sizes: Sequence[int] | None
    options: Mapping[str, Any] = {}


_COMPRESSED = {"storageEngine": {"wiredTiger": {"configString": "block_compressor=snappy"}}}

FORMS = [
    Form("terms as text, 1 message a row", False, [1]),
    Form("terms as text, 1 to 5 messages a row", False, [1, 2, 3, 4, 5]),
    Form("terms as text, 16 messages a row", False, [16]),
    Form("terms as text, 64 messages a row", False, [64]),
    Form("terms as text, 1 to 5, compressed index", False, [1, 2, 3, 4, 5], _COMPRESSED),
    Form("terms as text, 64, compressed index", False, [64], _COMPRESSED),
    Form("terms as text, one added at a time, to 64", False, None),
    Form("terms as numbers, 1 message a row", True, [1]),
    Form("terms as numbers, 16 messages a row", True, [16]),
    Form("terms as numbers, 64 messages a row", True, [64]),
]


def make_texts(texts: Texts, number: int) -> list[Text]:
    """Return messages in the order of ids. Half of the conversations are English."""
    languages = [Language.ENGLISH, Language.CHINESE, Language.ENGLISH, Language.JAPANESE, Language.ENGLISH]
    languages += [Language.KOREAN]
    streams = [texts.conversation(languages[n % 6], n // 6) for n in range(_CONVERSATIONS)]
    rng = random.Random("conversations")
    made = []
    for id in range(number):
        # The most active conversation has about a tenth of the messages.
        place = min(int(rng.expovariate(0.1)), _CONVERSATIONS - 1)
        line = next(streams[place])
        terms = terms_of(line.text) | {sender_term(UserId(f"user{line.writer}"))}
        message = IndexedMessage(MessageId((id + 1) << 22), ConversationId(f"g_{place}"), id, terms)
        made.append(Text(message, line.text))
    return made


def make_queries(messages: Sequence[Text]) -> dict[str, list[str]]:
    """Return words of messages, and parts of Chinese, Japanese and Korean ones."""
    rng = random.Random("queries")
    words = sorted({word for _, text in messages for word in re.findall(r"\b[a-z]{4,}\b", text)})
    runs = [run for _, text in messages for run in re.findall(r"[\u3040-\u9fff\uac00-\ud7af]{4,}", text)]

    def part(length: int) -> str:
        run: str = rng.choice(runs)
        start = rng.randrange(len(run) - length + 1)
        return run[start : start + length]

    return {"words": rng.sample(words, _QUERIES), "CJK": [part(2 + n % 3) for n in range(_QUERIES)]}


class Measurement:
    """One MongoDB in which each form is stored and removed again."""

    def __init__(self, database: Database[Row], pid: int, messages: Sequence[Text]) -> None:
        self._database = database.with_options(write_concern=WriteConcern(w="majority", j=True))
        self._pid = pid
        self._messages = messages
        self._queries = make_queries(messages)

    def run(self) -> None:
        """Measure all forms and print a line for each."""
        terms = statistics.fmean(len(message.terms) for message, _ in self._messages)
        print(f"{len(self._messages)} messages with {terms:.1f} terms each\n")
        heads = f"{'us CPU':>8} {'bytes':>7} {'of rows':>8} {'of index':>9}   {'word ms':>8} {'CJK ms':>8}"
        print(f"{'':46} {heads}  read/found")
        for form in FORMS:
            self._measure_form(form)
        self._measure_messages()

    def _measure_form(self, form: Form) -> None:
        rows = self._database["search"]
        rows.drop()
        rows.create_index(list(BY_TERM), **form.options)
        rows.create_index(list(BY_NEWEST))
        number = len(self._messages)
        if form.sizes is None:
            # It takes minutes with all of them.
            number = min(number, _GROWING)
            spent = self._spent(lambda: self._grow(rows, number)) / number
        else:
            # In the order in which servers would write them.
            documents = sorted(self._rows(form, form.sizes), key=lambda row: int(row["l"]))
            spent = self._spent(lambda: _insert(rows, documents)) / number
        times = [self._ask(rows, form, queries) for queries in self._queries.values()]
        self._print(
            form.name, spent, rows, number, *(seconds for seconds, _ in times), statistics.fmean(r for _, r in times)
        )

    def _rows(self, form: Form, sizes: Sequence[int]) -> Iterator[Row]:
        rng = random.Random("sizes")
        by_conversation: dict[str, list[IndexedMessage]] = {}
        for message, _ in self._messages:
            by_conversation.setdefault(message.conversation, []).append(message)
        for messages in by_conversation.values():
            left = iter(messages)
            while part := list(islice(left, rng.choice(sizes))):
                for row in rows_of(part, 0):
                    yield row | {"t": sorted(map(_number, row["t"]))} if form.is_hashed else row

    def _grow(self, rows: Collection[Row], messages: int) -> None:
        """Add one message after the other to the newest row of its conversation."""
        number = dict.fromkeys({message.conversation for message, _ in self._messages}, 0)
        for start in range(0, messages, _BATCH):
            updates = []
            for message, _ in self._messages[start : start + _BATCH]:
                id = f"{message.conversation} {number[message.conversation] // 64}"
                number[message.conversation] += 1
                change = {
                    "$set": {"l": int(message.id), "c": message.conversation},
                    "$addToSet": {"t": {"$each": sorted(message.terms)}},
                    "$push": {"m": rows_of([message], 0)[0]["m"]},
                }
                updates.append(UpdateOne({"_id": id}, change, upsert=True))
            rows.bulk_write(updates)

    def _spent(self, work: Callable[[], object]) -> float:
        """Return the CPU time of MongoDB in microseconds, until all is in its files."""
        before = cpu_seconds(self._pid)
        work()
        self._database.client.admin.command("fsync")
        return (cpu_seconds(self._pid) - before) * 1e6

    def _ask(self, rows: Collection[Row], form: Form, queries: Sequence[str]) -> tuple[float, float]:
        """Return the median time of a query, and how many messages the rows have for each that has the terms."""
        seconds, read, found = [], 0, 0
        conversations = [f"g_{number}" for number in range(_CONVERSATIONS)]
        for query in queries:
            wanted = _wanted(query)
            terms: list[Any] = [_number(term) for term in wanted] if form.is_hashed else wanted
            condition: Row = {"c": {"$in": conversations}, "t": terms[0]}
            if terms[1:]:
                condition["$nor"] = [{"t": {"$ne": term}} for term in terms[1:]]
            for _ in range(_REPETITIONS):
                began = time.perf_counter()
                proposed = list(
                    rows.find(condition, {"c": 1, "l": 1, "m": 1}).sort("l", -1).limit(_PAGE).hint(list(BY_TERM))
                )
                seconds.append(time.perf_counter() - began)
            if form.sizes is not None and len(proposed) < _PAGE:
                matching = {m.id for m, _ in self._messages if set(wanted).issubset(m.terms)}
                found += len(matching)
                read += sum(len(_ids(row)) for row in proposed)
        return statistics.median(seconds), read / found if found else 1.0

    def _measure_messages(self) -> None:
        """Measure messages without an index of words, with MongoDB's own text index, and a scan."""
        messages = self._database["messages"]
        documents = [{"c": m.conversation, "s": m.seq, "t": text} for m, text in self._messages]
        for name in ("messages alone", "MongoDB's text index in messages"):
            messages.drop()
            if name != "messages alone":
                messages.create_index([("t", "text")], default_language="none", name="text")
            spent = self._spent(lambda: _insert(messages, [dict(document) for document in documents]))
            self._print(name, spent / len(documents), messages, len(documents))
        print()
        for kind, queries in self._queries.items():
            self._compare(messages, kind, queries)

    def _compare(self, messages: Collection[Row], kind: str, queries: Sequence[str]) -> None:
        """Print the time of scans and of the text index, and how many messages the text index finds."""
        scans, asked, whole = [], [], 0
        for query in queries:
            began = time.perf_counter()
            pattern = query if kind == "CJK" else rf"\b{query}\b"
            scanned = {row["s"] for row in messages.find({"t": {"$regex": pattern, "$options": "i"}}, {"s": 1})}
            scans.append(time.perf_counter() - began)
            began = time.perf_counter()
            found = {row["s"] for row in messages.find({"$text": {"$search": f'"{query}"'}}, {"s": 1})}
            asked.append(time.perf_counter() - began)
            whole += found >= scanned
        scan = statistics.median(scans)
        print(
            f"{kind}: a scan takes {scan * 1e3:.1f} ms, {scan / len(self._messages) * 1e6:.2f} us a message. The text "
            f"index takes {statistics.median(asked) * 1e3:.1f} ms, and finds all messages of {whole} of {len(queries)} "
            "queries."
        )

    def _print(self, name: str, spent: float, rows: Collection[Row], number: int, *measured: float) -> None:
        sizes = self._database.command("collStats", rows.name, indexDetails=True)
        stored = _used(sizes["wiredTiger"]) / number
        index = sum(map(_used, sizes["indexDetails"].values())) / number
        times = f"   {measured[0] * 1e3:8.2f} {measured[1] * 1e3:8.2f} {measured[2]:8.1f}" if measured else ""
        print(f"{name:46} {spent:8.1f} {stored + index:7.0f} {stored:8.0f} {index:9.0f}{times}", flush=True)


def _insert(rows: Collection[Row], documents: Sequence[Row]) -> None:
    for start in range(0, len(documents), _BATCH):
        rows.insert_many(documents[start : start + _BATCH], ordered=False)


def _used(details: Row) -> int:
    """Return the bytes of a file without those that are free for further data."""
    manager = details["block-manager"]
    return int(manager["file size in bytes"] - manager["file bytes available for reuse"])


def _ids(row: Row) -> list[int]:
    return [place.id for place in places_in(row)]


def _wanted(query: str) -> list[str]:
    """Return the terms that a match of a query has. Of CJK text: all pairs of characters."""
    if query.isascii():
        return [query]
    return [query[start : start + 2] for start in range(len(query) - 1)]


def _number(term: str) -> int:
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), signed=True)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chat", type=Path, nargs="*", default=[], help="chat logs, one JSON object a line")
    parser.add_argument("--messages", type=int, default=20_000)
    given = parser.parse_args()
    messages = make_texts(Texts(given.chat), given.messages)
    with (
        tempfile.TemporaryDirectory(prefix="confab-bench-") as folder,
        EmbeddedServers(Path(folder), redis=False) as servers,
        MongoClient[Row](servers.mongo_url) as client,
    ):
        assert servers.mongo_pid is not None
        Measurement(client["alternatives"], servers.mongo_pid, messages).run()


if __name__ == "__main__":
    main()
