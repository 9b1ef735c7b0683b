"""The keys that sign the addresses of files."""

from __future__ import annotations

from resolvers.base.file_addresses import FileAddresses
from server.settings import Settings
from server.settings.public_url import public_url
from store.base.clock import Clock
from store.deployment.deployment import Deployment


def file_addresses(settings: Settings, clock: Clock, deployment: Deployment) -> FileAddresses:
    """Return the issuer of addresses of files. It has the keys of the settings, or the deployment's own."""
    previous = [key.get_secret_value().encode() for key in settings.file_address_previous_keys]
    if settings.file_address_key is not None:
        keys = [settings.file_address_key.get_secret_value().encode(), *previous]
        return FileAddresses(public_url(settings), clock, lambda: keys)

    def list_keys() -> list[bytes]:
        own = deployment.file_address_key
        return [own, *previous] if own is not None else []

    return FileAddresses(public_url(settings), clock, list_keys)
