"""Connects the media server that the settings name."""

from __future__ import annotations

from resolvers.voice.media.livekit_parts import LiveKitOptions, LiveKitParts
from server.settings.media_server import MediaServerSettings, livekit_api_url
from store.store import Store
from subscriptions.realtime.ring.server_ring import ServerRing
from subscriptions.realtime.server_calls import ServerCalls
from subscriptions.voice.voice_changes import VoiceChanges


def build_media_server(
    settings: MediaServerSettings, store: Store, changes: VoiceChanges, ring: ServerRing, calls: ServerCalls
) -> LiveKitParts | None:
    """Return the parts for LiveKit, which call nobody yet; None if it is not set up."""
    secret = settings.livekit_api_secret
    if settings.livekit_url is None or settings.livekit_api_key is None or secret is None:
        return None
    options = LiveKitOptions(
        settings.livekit_url, livekit_api_url(settings), settings.livekit_api_key, secret.get_secret_value()
    )
    return LiveKitParts(options, store, changes, ring, calls)
