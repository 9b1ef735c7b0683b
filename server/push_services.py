"""Builds the push services that the settings name."""

from __future__ import annotations

from collections.abc import Mapping

from resolvers.push.push_service import PushService
from resolvers.push.services.apns import PRODUCTION, SANDBOX, Apns, ApnsOptions
from resolvers.push.services.apns_tokens import parse_apns_key
from resolvers.push.services.fcm import Fcm
from resolvers.push.services.fcm_tokens import parse_fcm_credentials
from resolvers.push.services.vapid import VapidKey
from resolvers.push.services.web_push import WebPush
from resolvers.web_requests.addresses import outgoing_rules
from server.settings import Settings
from server.settings.push import PushSettings
from store.base.clock import Clock
from store.devices.device import PushPlatform


def build_push_services(settings: Settings, clock: Clock) -> Mapping[PushPlatform, PushService]:
    """Return the services that are set up. They connect with the first push."""
    services: dict[PushPlatform, PushService] = {}
    key = vapid_key(settings)
    if key is not None and settings.vapid_contact is not None:
        rules = outgoing_rules(allow_loopback=settings.allow_loopback)
        services[PushPlatform.WEB_PUSH] = WebPush(key, settings.vapid_contact, clock, rules)
    apns = _apns_options(settings)
    if apns is not None:
        services[PushPlatform.APNS] = Apns(apns, clock)
    if settings.fcm_credentials is not None:
        services[PushPlatform.FCM] = Fcm(parse_fcm_credentials(settings.fcm_credentials.get_secret_value()), clock)
    return services


def vapid_key(settings: PushSettings) -> VapidKey | None:
    """Return the key pair for Web Push; None if it is not set up."""
    if settings.vapid_private_key is None:
        return None
    return VapidKey.parse(settings.vapid_private_key.get_secret_value())


def _apns_options(settings: PushSettings) -> ApnsOptions | None:
    key, key_id, team_id, topic = settings.apns_key, settings.apns_key_id, settings.apns_team_id, settings.apns_topic
    if key is None or key_id is None or team_id is None or topic is None:
        return None
    url = SANDBOX if settings.apns_sandbox else PRODUCTION
    return ApnsOptions(parse_apns_key(key.get_secret_value()), key_id, team_id, topic, url)
