"""Measures how the demo scrolls through a long channel, and how fast it starts on a phone.

`python -m bench.demo` starts MongoDB, Redis and a server, with a channel of 50,000 messages (lines of chat logs,
`--chat`) and a user with 2,000 conversations, written to MongoDB directly. Chromium without a screen opens the built
demo. Figures are printed as they are measured (`bench/demo/measure.mjs`):

- scrolling through the channel with the wheel and by flings on a phone: late frames, the longest task, DOM nodes and
  JS heap;
- scrolling through the list of conversations;
- loading all older messages one page after the other, for `--deep` seconds;
- with the CPU slowed down four times and a slow mobile network: the time from the start of the navigation until the
  name of the first conversation is displayed, and until messages are, and the bytes received.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from pymongo import MongoClient

from bench.demo.long_channel import Reader, insert_reader
from bench.search.texts import Texts
from bench.session_data import Row
from bench.threads.stage import open_stage
from tests.processes import token

NAME = "bench_demo"
_LOGS = Path("../shared/data/ubuntu-irc")
_PROGRAM = Path(__file__).with_name("measure.mjs")


async def _run(given: argparse.Namespace) -> None:
    made: list[Reader] = []

    def prepare(mongo: MongoClient[Row]) -> None:
        texts = Texts(given.chat)
        made.append(insert_reader(mongo[NAME], texts, messages=given.messages, sessions=given.sessions))

    async with open_stage(NAME, prepare, settings={"demo": "true"}) as stage:
        reader = made[0]
        options = {
            "url": stage.server.url,
            "token": token(reader.user),
            "channel": reader.channel,
            "conversation": reader.newest_conversation,
            "seconds": given.seconds,
            "deepSeconds": given.deep,
            "starts": given.starts,
            "only": given.only,
            "chromium": shutil.which("chromium") or "chromium",
        }
        process = await asyncio.create_subprocess_exec("node", str(_PROGRAM), json.dumps(options))
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
        if code:
            raise SystemExit(code)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        prog="bench.demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    logs = sorted(_LOGS.glob("*.jsonl"))
    parser.add_argument(
        "--chat", type=Path, nargs="*", default=logs, help="chat logs, as confab import-chat reads them"
    )
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--sessions", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each kind of scrolling")
    parser.add_argument("--deep", type=float, default=60.0, help="seconds to load all older messages; 0: do not")
    parser.add_argument("--starts", type=int, default=3, help="starts on a phone, of which the median counts")
    parser.add_argument("--only", nargs="*", default=["scroll", "deep", "start"], help="parts: scroll, deep, start")
    asyncio.run(_run(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
