"""Settings of what operations, clients and users may cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from server.settings import validators as check
from server.settings.section import Section


class OperationSettings(Section):
    """Operations."""

    operations_file: Annotated[Path, AfterValidator(check.check_readable_file)] | None = None
    """Persisted operations: a JSON object of documents by id, or an Apollo manifest (ADR 29)."""
    operations_only: bool = False
    """Refuse operations that are not in `operations_file`."""
    max_body_bytes: int = Field(1_048_576, ge=1024, le=67_108_864)
    """Largest body of a request over HTTP."""
    max_query_depth: int = Field(15, ge=1, le=1000)
    """Deepest nesting of fields in an operation."""
    max_query_aliases: int = Field(30, ge=0, le=10_000)
    """Most aliases in an operation."""
    max_query_cost: int = Field(10_000, ge=1, le=1_000_000_000)
    """Most rows that an operation may lead to; pages inside pages multiply."""
    document_cpu_percent: int = Field(25, ge=0, le=100)
    """Share of a core for parsing and validating documents of one user that are not cached. Ten seconds of it may be
    used at once. More documents are refused with RATE_LIMITED; 0 means no limit. If documents of all users need more
    than this share together, they wait."""
    anonymous_cpu_percent: int = Field(5, ge=0, le=100)
    """The same for all requests without a token together. They are served only with `introspection`."""
    max_operations: int = Field(500, ge=1, le=100_000)
    """Operations that a process runs at once; all of one user count as one. Fewer while the process is overloaded. More
    are refused with UNAVAILABLE."""
    max_running_per_user: int = Field(8, ge=1, le=100_000)
    """Operations of one user that run at once on a busy process. More wait, and go after those of other users."""
    max_waiting_per_user: int = Field(500, ge=1, le=100_000)
    """Operations of one user that may wait for others of the same user. More are refused with RATE_LIMITED."""
    max_reads_per_user: int = Field(4, ge=1, le=100_000)
    """Reads of MongoDB that a process runs at once for the operations of one user. More wait for their turn."""
    max_waiting_events_per_user: int = Field(500, ge=1, le=100_000)
    """Events that may wait to be rendered for one user, one per subscription. Further subscriptions get `reset`."""
    max_catch_ups_per_user: int = Field(200, ge=1, le=100_000)
    """Subscriptions of one user that may read missed events at the same time, most of them waiting for their turn. More
    are refused with RATE_LIMITED."""
    operation_timeout_seconds: float = Field(20.0, gt=0, le=600)
    """Time limit of an operation. After it the client gets UNAVAILABLE."""


class ClientSettings(Section):
    """Slow clients.

    A proxy in front has time limits of its own.
    """

    head_timeout_seconds: float = Field(10.0, gt=0, le=600)
    """Time limit for the head of a request over HTTP; of the first one, from the opening of the connection."""
    body_timeout_seconds: float = Field(30.0, gt=0, le=3600)
    """Time limit for the body of a request. After it the client gets status 408, and the connection is closed."""
    answer_timeout_seconds: float = Field(120.0, gt=0, le=3600)
    """Time limit for a client to accept an answer over HTTP. After it the connection is dropped."""
    min_client_bytes_per_second: int = Field(1024, ge=0, le=1_000_000_000)
    """Minimum rate at which clients send bodies and accept answers, over 10 s. Slower ones are disconnected."""
    max_unsent_bytes_per_user: int = Field(8_388_608, ge=65_536, le=1_000_000_000_000)
    """Most bytes of answers of one user that wait in a process for clients that do not read. While there are more,
    operations of the user are refused with RATE_LIMITED, and the connection that has waited the longest is dropped."""
    max_unsent_bytes: int = Field(268_435_456, ge=65_536, le=1_000_000_000_000)
    """Most bytes of answers that wait in a process. Above it the connections that waited the longest are dropped."""


class WebSocketSettings(Section):
    """WebSockets."""

    ws_init_timeout_seconds: float = Field(10.0, gt=0, le=300)
    """Time limit for a client to send ConnectionInit."""
    ws_ping_interval_seconds: float = Field(25.0, gt=0, le=3600)
    """Time between two pings to a client. A client without a sign of life within 15 s of a ping is disconnected."""
    ws_max_connections: int = Field(20_000, ge=1, le=1_000_000)
    """WebSockets that a process keeps open at once. Each is an open file (`ulimit -n`)."""
    ws_max_connections_per_user: int = Field(100, ge=1, le=1_000_000)
    """WebSockets of one user that a process keeps open at once."""
    ws_max_subscriptions: int = Field(100, ge=1, le=10_000)
    """Operations that run at once on one connection."""
    ws_drain_seconds: float = Field(5.0, ge=0, le=300)
    """Time over which a stopping server closes its connections."""
    ws_max_queued_events: int = Field(1000, ge=1, le=1_000_000)
    """Events that wait for one connection. If there are more, the client has to sync."""


class EventStreamSettings(Section):
    """Event streams."""

    sse_max_streams: int = Field(5_000, ge=1, le=1_000_000)
    """Event streams that a process keeps open at once. More are refused with UNAVAILABLE."""
    sse_max_streams_per_user: int = Field(100, ge=1, le=1_000_000)
    """Event streams of one user that a process keeps open at once. More are refused with RATE_LIMITED."""
    sse_max_waiting_operations_per_user: int = Field(200, ge=1, le=1_000_000)
    """Operations of one user that wait for event streams which are not open yet. More are refused with RATE_LIMITED."""
    sse_max_waiting_bytes: int = Field(67_108_864, ge=65_536, le=1_000_000_000_000)
    """Bytes of all these operations that a process accepts. More are refused with UNAVAILABLE."""


class RateSettings(Section):
    """Rates of one user over all servers.

    Half of the number is allowed at once; 0 means no limit.
    """

    sends_per_minute: int = Field(6_000, ge=0, le=1_000_000)
    """Messages that a user sends, edits and recalls; uploads that they create, send, complete and cancel."""
    group_changes_per_minute: int = Field(1_200, ge=0, le=1_000_000)
    """Groups that a user creates and changes; users that they block and unblock."""
    connections_per_minute: int = Field(1_200, ge=0, le=1_000_000)
    """WebSockets and event streams that a user opens."""
    operations_per_minute: int = Field(60_000, ge=0, le=1_000_000)
    """Operations of any kind."""
    workspace_changes_per_minute: int = Field(1_200, ge=0, le=1_000_000)
    """Workspaces that a user creates, joins, leaves and changes."""
    invite_lookups_per_minute: int = Field(60, ge=0, le=1_000_000)
    """Invitation codes that a user asks about or joins with, right or wrong; pushes that a user sends as a test;
    reports that a user makes."""
    webhook_posts_per_minute: int = Field(60, ge=0, le=1_000_000)
    """Requests to the address of one incoming webhook."""


class WorkSettings(Section):
    """Work of one user in one process.

    A unit is a value of a response. A query costs 100 units more, a mutation 500, an event 50. A million units take
    about 2 seconds of CPU.
    """

    work_per_second: int = Field(100_000, ge=0, le=1_000_000_000)
    """Units with which a user's budget is refilled each second; also what an event of all their subscriptions may cost.
    0: no limit."""
    work_budget: int = Field(2_000_000, ge=1, le=100_000_000_000)
    """Units that a user may use at once. Beyond it, operations are refused with RATE_LIMITED."""
