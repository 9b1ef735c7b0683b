"""ejabberd with PostgreSQL, from the distribution's packages, run in a folder of their own and not as system services.

It is an XMPP server: a group is a MUC room, history is its message archive. Authentication is SASL PLAIN without TLS,
as the other servers get no TLS either. Modules are those that a chat needs, with their default settings.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from xml.sax.saxutils import quoteattr

from server.embedded import ports
from tests.processes import ServerProcess, launch_server, until_open

HOST, ROOMS = "localhost", "conference.localhost"

_SCHEMA = Path("/usr/share/ejabberd/sql/pg.sql")
_POSTGRES_USER = "postgres"
_DATABASE = "ejabberd"

_SETTLE_SECONDS = 8.0
"""It listens before it has finished starting."""

_CONFIG = """
hosts: [localhost]
loglevel: warning
listen:
  - {{port: {port}, ip: "127.0.0.1", module: ejabberd_c2s, max_stanza_size: 262144, backlog: 4096}}
auth_method: sql
auth_password_format: plain
default_db: sql
sql_type: pgsql
sql_server: "127.0.0.1"
sql_port: {sql_port}
sql_database: ejabberd
sql_username: postgres
access_rules:
  everybody: {{allow: all}}
modules:
  mod_carboncopy: {{}}
  mod_disco: {{}}
  mod_mam: {{default: always}}
  mod_muc:
    access_create: everybody
    max_users: 5000
    max_user_conferences: 1000
    default_room_options: {{mam: true, persistent: true, max_users: 5000, presence_broadcast: []}}
  mod_offline: {{}}
  mod_ping: {{}}
  mod_roster: {{}}
  mod_stream_mgmt: {{max_ack_queue: infinity, ack_timeout: infinity, resume_timeout: 0}}
"""


def check_installed() -> str:
    """Return why ejabberd cannot take part. Empty if it can."""
    if shutil.which("erl") is None or not _SCHEMA.exists() or _libraries() is None:
        return "install it (Debian: apt-get install --no-install-recommends ejabberd erlang-p1-pgsql postgresql)"
    if not list(Path("/usr/lib/erlang/lib").glob("p1_pgsql-*")):
        return "its driver for PostgreSQL is not installed (Debian: apt-get install erlang-p1-pgsql)"
    if _postgres_programs() is None:
        return "PostgreSQL is not installed (Debian: apt-get install --no-install-recommends postgresql)"
    return ""


def _libraries() -> Path | None:
    found = sorted(Path("/usr/lib").glob("*/ejabberd-*/ebin"))
    return found[-1].parents[1] if found else None


def _postgres_programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


class Ejabberd:
    """A running ejabberd and its PostgreSQL."""

    def __init__(self, server: ServerProcess, postgres: ServerProcess) -> None:
        self.server = server
        self.postgres = postgres

    def insert_people(self, names: Iterable[str]) -> None:
        """Create accounts. The password is the name."""
        self._copy("users(username, password)", (f"{name}\t{name}" for name in names))

    def insert_talks(self, pairs: Sequence[tuple[str, str]], messages: int) -> None:
        """Insert the archives of the second of each pair: messages that the first has sent."""
        self._copy("archive(username, timestamp, peer, bare_peer, xml, txt, kind, nick)", _archive(pairs, messages))

    def _copy(self, table: str, lines: Iterable[str]) -> None:
        _run([*_psql(self.postgres.port), "-c", f"COPY {table} FROM STDIN"], "\n".join(lines) + "\n")

    def database_pids(self) -> list[int]:
        """Return PostgreSQL's processes."""
        pid = self.postgres.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]


def _archive(pairs: Sequence[tuple[str, str]], messages: int) -> Iterable[str]:
    now = time.time_ns() // 1000
    for writer, reader in pairs:
        peer = f"{writer}@{HOST}"
        for number in range(messages):
            text = f"The newest message of {writer}, a line of about the usual length, and some more."
            xml = (
                f"<message xml:lang='en' to='{reader}@{HOST}' from='{peer}/one' type='chat' id='a{number}' "
                f"xmlns='jabber:client'><body>{text}</body></message>"
            )
            at = now - (messages - number) * 1_000_000
            yield "\t".join((reader, str(at), f"{peer}/one", peer, xml, text, "chat", ""))


@asynccontextmanager
async def serving(folder: Path, people: Sequence[str]) -> AsyncIterator[Ejabberd]:
    """Run both with some accounts, for the time of the block."""
    programs = _postgres_programs()
    assert programs is not None
    become, data = _make_folder(folder)
    sql_port = ports.pick_free()
    await asyncio.to_thread(
        _run, [*become, str(programs / "initdb"), "-D", str(data), "-U", _POSTGRES_USER, "-A", "trust"]
    )
    command = [*become, str(programs / "postgres"), "-D", str(data), "-k", str(data), "-p", str(sql_port)]
    postgres = launch_server([*command, "-c", "listen_addresses=127.0.0.1"], sql_port, folder / "sql.log", os.environ)
    try:
        await until_open(postgres)
        await asyncio.to_thread(_run, [*_psql(sql_port, "postgres"), "-c", f"CREATE DATABASE {_DATABASE}"])
        await asyncio.to_thread(_run, [*_psql(sql_port), "-f", str(_SCHEMA)])
        server = _launch(folder, ports.pick_free(sql_port), sql_port)
        try:
            await until_open(server)
            found = Ejabberd(server, postgres)
            await asyncio.to_thread(found.insert_people, people)
            await asyncio.sleep(_SETTLE_SECONDS)
            yield found
        finally:
            await asyncio.to_thread(server.stop)
    finally:
        # Does not wait for connections, as SIGTERM would.
        postgres.process.send_signal(signal.SIGINT)
        await asyncio.to_thread(postgres.process.wait, 30)


def _make_folder(folder: Path) -> tuple[list[str], Path]:
    """Return the start of commands for PostgreSQL, which refuses to run as root, and the folder of its data."""
    data = folder / "postgres"
    data.mkdir(parents=True)
    if os.geteuid() != 0:
        return [], data
    shutil.chown(data, _POSTGRES_USER, _POSTGRES_USER)
    for parent in (folder, folder.parent):
        parent.chmod(0o711)
    return ["/usr/bin/setpriv", f"--reuid={_POSTGRES_USER}", f"--regid={_POSTGRES_USER}", "--clear-groups"], data


def _launch(folder: Path, port: int, sql_port: int) -> ServerProcess:
    """Start ejabberd without Erlang's distribution: it needs no node name and no epmd."""
    config = folder / "ejabberd.yml"
    config.write_text(_CONFIG.format(port=port, sql_port=sql_port))
    environment = os.environ | {
        "EJABBERD_CONFIG_PATH": str(config),
        "EJABBERD_LOG_PATH": str(folder / "ejabberd.log"),
        "ERL_LIBS": str(_libraries()),
        "ERL_CRASH_DUMP": str(folder / "crash.dump"),
        "ERL_MAX_PORTS": "32000",
    }
    erlang = shutil.which("erl")
    assert erlang is not None
    arguments = [erlang, "+K", "true", "+P", "250000", "-noinput", "-mnesia", "dir", f'"{folder}/mnesia"']
    return launch_server([*arguments, "-s", "ejabberd"], port, folder / "out.log", environment)


def _psql(port: int, database: str = _DATABASE) -> list[str]:
    words = ["psql", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(port), "-U", _POSTGRES_USER]
    return [*words, "-d", database]


def _run(command: Sequence[str], given: str = "") -> None:
    done = subprocess.run(command, input=given, capture_output=True, text=True, cwd="/")
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")


# Stanzas.


def message(to: str, text: str) -> str:
    """Return a private message."""
    return f"<message type='chat' to={quoteattr(f'{to}@{HOST}')} id='m'><body>{text}</body></message>"


def group_message(room: str, text: str) -> str:
    """Return a message to a room."""
    return f"<message type='groupchat' to='{room}@{ROOMS}' id='g'><body>{text}</body></message>"


def history(peer: str, count: int) -> str:
    """Return a request for the newest messages with somebody."""
    return (
        "<iq type='set' id='h'><query xmlns='urn:xmpp:mam:2'><x xmlns='jabber:x:data' type='submit'>"
        "<field var='FORM_TYPE' type='hidden'><value>urn:xmpp:mam:2</value></field>"
        f"<field var='with'><value>{peer}@{HOST}</value></field></x>"
        f"<set xmlns='http://jabber.org/protocol/rsm'><max>{count}</max><before/></set></query></iq>"
    )


def credentials(user: str) -> str:
    """Return the initial response of SASL PLAIN."""
    return base64.b64encode(f"\0{user}\0{user}".encode()).decode()
