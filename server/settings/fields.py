"""Every setting: its type, default, bounds and meaning."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

from server.settings import validators as check
from server.settings.blob_store import BlobStoreSettings
from server.settings.content_hook import ContentHookSettings
from server.settings.limits import (
    ClientSettings,
    EventStreamSettings,
    OperationSettings,
    RateSettings,
    WebSocketSettings,
    WorkSettings,
)
from server.settings.media_server import MediaServerSettings
from server.settings.push import PushSettings
from server.settings.section import Section

DEVELOPMENT_SECRET = "confab-development-secret-known-to-everybody"
"""Default secret of `confab dev`. It is public, so `confab serve` refuses it."""


class DatabaseSettings(Section):
    """Databases."""

    mongo_url: Annotated[str, AfterValidator(check.check_mongo_url)] = Field(
        "mongodb://127.0.0.1:27017/?replicaSet=rs0", repr=False
    )
    """A replica set, or the mongos of a sharded cluster (`confab shard`)."""
    mongo_database: Annotated[str, AfterValidator(check.check_database_name)] = "confab"
    """Database that holds all collections."""
    mongo_driver: Literal["pymongo", "motor"] = "pymongo"
    """Driver for MongoDB: PyMongo's async client, or Motor."""
    redis_url: Annotated[str, AfterValidator(check.check_redis_url)] = Field("redis://127.0.0.1:6379/0", repr=False)
    """A Redis or Valkey, or a cluster of them (`redis+cluster://host:port,host:port`)."""
    redis_prefix: Annotated[str, AfterValidator(check.check_key_prefix)] = ""
    """Goes before all names of Redis keys and channels."""
    data_center: int = Field(0, ge=0, le=31)
    """Part of all message ids. Processes of different data centers never make the same id."""
    migrate: bool = True
    """Servers migrate stored data to the newest version in the background. If false, run `confab migrate --run`."""


class AddressSettings(Section):
    """Address."""

    host: str = Field("127.0.0.1", min_length=1)
    """Address to listen on."""
    port: int = Field(8000, ge=1, le=65535)
    """Port to listen on."""
    public_url: Annotated[str, AfterValidator(check.check_public_url)] | None = None
    """Address at which clients reach the deployment, such as https://chat.example.org. Addresses of files begin with
    it. Without it: `http://` with `host` and `port`, or with localhost if the server listens on all addresses."""
    keep_alive_seconds: int = Field(75, ge=1, le=3600)
    """Time that an idle HTTP connection stays open. Must be longer than the idle timeout of the proxy in front."""


class TokenSettings(Section):
    """Tokens.

    [Authentication](auth.md) has the settings for common identity providers.
    """

    jwt_secret: Annotated[SecretStr, AfterValidator(check.check_secret)] | None = None
    """HS256 secret of at least 32 bytes. Alternative: a key set."""
    jwt_secret_file: Annotated[Path, AfterValidator(check.check_readable_file)] | None = None
    """File that contains `jwt_secret`, for secrets mounted as files. Surrounding white space is ignored."""
    jwt_previous_secrets: Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(check.parse_secrets)] = ()
    """Further HS256 secrets whose tokens are accepted, while `jwt_secret` is being replaced."""
    jwt_previous_secrets_file: Annotated[Path, AfterValidator(check.check_readable_file)] | None = None
    """File that contains `jwt_previous_secrets`, one per line."""
    jwks_url: Annotated[str, AfterValidator(check.check_jwks_url)] | None = None
    """Address of the JWK set with the public keys of the identity provider."""
    jwks_file: Annotated[Path, AfterValidator(check.check_readable_file)] | None = None
    """File with a JWK set, instead of `jwks_url`."""
    jwt_audience: Annotated[tuple[str, ...], NoDecode, BeforeValidator(check.parse_audiences)] = ()
    """Accepted audiences: the claim `jwt_audience_claim` must contain one of them. Separated by commas. Empty: not
    checked."""
    jwt_audience_claim: Annotated[str, AfterValidator(check.check_claim)] = "aud"
    """Claim with the audience of a token. Names of nested claims are separated by dots."""
    jwt_issuer: str | None = None
    """Value of the `iss` claim of tokens. None: not checked."""
    jwt_user_claim: Annotated[str, AfterValidator(check.check_claim)] = "sub"
    """Claim with the user id."""
    jwt_name_claim: Annotated[str, AfterValidator(check.check_claim)] = "name"
    """Claim with the display name."""
    jwt_picture_claim: Annotated[str, AfterValidator(check.check_claim)] = "picture"
    """Claim with the address of the user's picture."""
    jwt_role_claim: Annotated[str, AfterValidator(check.check_claim)] = "role"
    """Claim with the role, or a list of roles: service and admin have a meaning, all others mean user."""


class BrowserSettings(Section):
    """Browsers."""

    cors_origins: Annotated[tuple[str, ...], NoDecode, BeforeValidator(check.parse_origins)] = ()
    """Origins whose pages may call the API from a browser, in addition to the server's own. Separated by commas.
    Others get 403, also for WebSockets. If a proxy changes the `Host` header, list its origin here."""
    allowed_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(check.parse_host_names)] = ()
    """Host names that the server answers to, in addition to localhost and IP addresses. Empty: any name, except in
    `confab dev`."""
    introspection: bool = False
    """Anybody may query the schema, also without a token. On in `confab dev`, like `graphiql`."""
    graphiql: bool = False
    """Browsers get GraphiQL at /graphql. It needs `introspection`."""
    demo: bool = False
    """Browsers get the demo chat at /demo. On in `confab dev`, where one click signs in."""


class RuleSettings(Section):
    """Product rules."""

    max_group_members: int = Field(5000, ge=3, le=1_000_000)
    """Most members of a group."""
    recall_seconds: int = Field(120, ge=0, le=1_000_000_000)
    """Time in which senders may recall their own messages."""
    retention_days: int = Field(0, ge=0, le=36_500)
    """Days after which messages of private conversations and groups are deleted; 0: never. Workspaces have a number of
    their own (`updateWorkspace`). Set the same on all servers. Deleted messages do not come back."""
    max_workspaces_per_user: int = Field(100, ge=1, le=10_000)
    """Most workspaces that a user is in."""
    max_voice_channel_users: int = Field(100, ge=1, le=10_000)
    """Most users in a voice channel."""
    audit_days: int = Field(365, ge=0, le=100_000)
    """Days for which new entries of the audit log are kept; 0: for ever. Entries that are stored keep their time."""
    user_directory: bool = False
    """`searchUsers` finds all users. If false, it finds only people who share a conversation or workspace with the
    caller."""
    search: Literal["mongodb", "off"] = "mongodb"
    """Where messages are indexed for `searchMessages`: MongoDB, or nowhere. With `off` it answers UNAVAILABLE."""


class FileSettings(Section):
    """Files."""

    file_address_key: Annotated[SecretStr, AfterValidator(check.check_secret)] | None = None
    """Key of at least 32 bytes that signs the addresses of files. Without it the deployment makes one, and keeps it in
    MongoDB."""
    file_address_key_file: Annotated[Path, AfterValidator(check.check_readable_file)] | None = None
    """File that contains `file_address_key`. Surrounding white space is ignored."""
    file_address_previous_keys: Annotated[tuple[SecretStr, ...], NoDecode, BeforeValidator(check.parse_secrets)] = ()
    """Further keys whose addresses are accepted, while `file_address_key` is being replaced."""
    file_address_previous_keys_file: Annotated[Path, AfterValidator(check.check_readable_file)] | None = None
    """File that contains `file_address_previous_keys`, one per line."""
    max_downloads: int = Field(128, ge=1, le=100_000)
    """Files that a process sends at once, each with up to half a megabyte of memory. More are refused with status 503,
    unless a client accepts nothing for seconds: it loses its place."""
    temp_dir: Annotated[Path, AfterValidator(check.check_writable_folder)] | None = None
    """Folder for temporary files while uploads are inspected. Default: the system's folder."""
    scanner_url: Annotated[str, AfterValidator(check.check_scanner_url)] | None = None
    """A virus scanner with clamd's protocol: `tcp://host:3310` or `unix:///run/clamav/clamd.ctl`. Its `StreamMaxLength`
    must allow the largest upload. Without it files are not scanned."""


class PreviewSettings(Section):
    """Link previews."""

    link_previews: bool = True
    """Messages with links in groups and channels show previews of them. Servers fetch the pages, from public addresses
    on ports 80 and 443."""
    preview_allowed_networks: Annotated[
        tuple[IPv4Network | IPv6Network, ...], NoDecode, BeforeValidator(check.parse_networks)
    ] = ()
    """Networks that are not public and whose pages everyone may preview, such as an intranet. Separated by commas."""


class OutgoingSettings(Section):
    """Workers, previews in pushes, loopback addresses."""

    workers: bool = True
    """Servers send pushes and events to webhooks, and do jobs such as exports. If false, run `confab work` in processes
    of its own."""
    push_previews: bool = True
    """Pushes contain names and the text of messages. If false, they say only that there is a new message."""
    allow_loopback: bool = False
    """For development: addresses of webhooks and Web Push may also be on loopback, such as http://localhost:9000. If
    false, they must be public https addresses."""


class ObservabilitySettings(Section):
    """Observability."""

    otel_endpoint: Annotated[str, AfterValidator(check.check_http_url)] | None = None
    """OTLP collector over HTTP that receives traces, such as http://127.0.0.1:4318. Needs confab[otel]."""
    otel_sample_ratio: float = Field(0.01, ge=0, le=1)
    """Ratio of operations that are traced, from 0 to 1."""
    metrics_port: int | None = Field(None, ge=1, le=65535)
    """Port of /metrics for Prometheus. Without it there are no metrics."""
    metrics_host: str = Field("127.0.0.1", min_length=1)
    """Address of the port for Prometheus."""
    metrics_token: Annotated[SecretStr, AfterValidator(check.check_metrics_token)] | None = None
    """If set, /metrics answers only to requests with `Authorization: Bearer <this token>`."""
    metrics_port_count: int = Field(1, ge=1, le=256)
    """Number of ports from `metrics_port` on; each process takes one. Set by `confab serve --workers`."""
    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(check.to_upper)] = "INFO"
    """Least severe log events that are written."""
    log_format: Annotated[Literal["json", "console"], BeforeValidator(check.to_lower)] = "json"
    """JSON lines, or text for people."""
    development: bool = False
    """Set by `confab dev`: accepts the development secret, and allows the demo data."""


class Settings(
    DatabaseSettings,
    AddressSettings,
    TokenSettings,
    BrowserSettings,
    OperationSettings,
    ClientSettings,
    WebSocketSettings,
    EventStreamSettings,
    RateSettings,
    WorkSettings,
    RuleSettings,
    FileSettings,
    PreviewSettings,
    BlobStoreSettings,
    MediaServerSettings,
    OutgoingSettings,
    PushSettings,
    ContentHookSettings,
    ObservabilitySettings,
):
    """All settings. Create it with `load_settings`, which explains each problem in a sentence.

    `repr` shows neither secrets nor the two database URLs, which may contain passwords.
    """


SECRET_FIELDS = frozenset(
    field for field, info in Settings.model_fields.items() if SecretStr.__name__ in str(info.annotation)
)
"""Settings whose values are never printed."""

UNLIMITED = {
    "document_cpu_percent": 0,
    "anonymous_cpu_percent": 0,
    "sends_per_minute": 0,
    "group_changes_per_minute": 0,
    "connections_per_minute": 0,
    "operations_per_minute": 0,
    "workspace_changes_per_minute": 0,
    "invite_lookups_per_minute": 0,
    "webhook_posts_per_minute": 0,
    "work_per_second": 0,
}
"""Settings for programs that act for many people as one user: imports, benchmarks, tests."""

RENAMED = {
    "ws_init_timeout": "ws_init_timeout_seconds",
    "ws_ping_interval": "ws_ping_interval_seconds",
    "ws_queue": "ws_max_queued_events",
    "rate_sends": "sends_per_minute",
    "rate_group_changes": "group_changes_per_minute",
    "rate_connections": "connections_per_minute",
    "rate_operations": "operations_per_minute",
    "operation_seconds": "operation_timeout_seconds",
    "otel_sample": "otel_sample_ratio",
    "metrics_ports": "metrics_port_count",
}
"""Former names of settings. They are refused with a message that contains the new name."""
